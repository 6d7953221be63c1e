"""Inference of types on a few of many equal layers, which gives those of all."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import starmap

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import Rewriter

from ocannl.dialects.ir.op_helpers import copied, operations_of
from ocannl.dialects.ir.text_printer import ops_text
from ocannl.dialects.shapes.shape import DimTerm
from ocannl.dialects.shapes.solution import Solution
from ocannl.dialects.texpr import MemoryOp, TexprRoutineOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, refine_type, shape_of, tensor_type
from ocannl.passes.texpr.fold_layers.fold_layers import Folding, folding_of, statements_of
from ocannl.passes.texpr.fold_layers.layering import NAMES


class FewLayers:
    """A program as built with equal layers, whose types are inferred on few of these."""

    def __init__(self, whole: TexprRoutineOp, folding: Folding) -> None:
        self.whole = whole
        self.folding = folding
        self.stand_ins = folding.stand_ins()
        """For each statement the number of the one that stands for it among those with few layers."""

    @staticmethod
    def of(module: ModuleOp) -> FewLayers | None:
        """Few layers of a program; None where no layers are known to be equal."""
        (*others, routine) = operations_of(module.body.block)
        if others or not isinstance(routine, TexprRoutineOp):
            return None
        folding = folding_of(routine, as_built=True)
        return None if folding is None else FewLayers(routine, folding)

    def text(self) -> str:
        """A text that determines the program: of the statements that are left out, names and variables."""
        whole, statements = self.whole, statements_of(self.whole)
        left_out = [statements[place] for place in sorted(self.folding.left_out)]
        skipped = {*map(id, left_out)}
        kept = [op for op in operations_of(whole.body.block) if id(op) not in skipped]
        own = [(_name(op), *map(shape_of, op.results), _dims(op)) for op in left_out]
        known = [whole.sym_name.data, whole.indices.data, whole.mesh_sizes, self.stand_ins, own]
        return f"{ops_text(kept)}{json.dumps(known)}"

    def infer(self, run: Callable[[ModuleOp], None]) -> bool:
        """Infers types by passes that run on few layers, and gives them to the program, where they fit all
        layers: where those from the first one that is left out to the last one have one type, which solves
        the constraints of each as it does those of one. Otherwise changes nothing.
        """
        few = self.folding.folded(self.whole)
        built = statements_of(few)
        run(ModuleOp([few]))
        inferred = statements_of(few)
        if len(inferred) != len(built):
            return False
        last, first = (
            [inferred[self.stand_ins[place]] for place in self.folding.inner[at]] for at in (0, -1)
        )
        if [*map(_decided, last)] != [*map(_decided, first)]:
            return False
        solution, whole = Solution(), statements_of(self.whole)
        typed = [(op, built[at], inferred[at]) for op, at in zip(whole, self.stand_ins, strict=True)]
        if not all(_fits(solution, op, other) for op, other, _ in typed):
            return False
        for op, other, known in typed:
            _give(op, other, known)
        return True


def _name(op: Operation) -> str | None:
    if isinstance(op, MemoryOp):
        return op.label.data
    return op.results[0].name_hint if op.results else None


def _decided(op: Operation) -> tuple[object, ...]:
    """An operation but for its names and operands."""
    return type(op), [value.type for value in op.results], _properties(op)


def _properties(op: Operation) -> dict[str, Attribute]:
    return {name: value for name, value in op.properties.items() if name not in NAMES}


def _give(op: Operation, built: Operation, known: Operation) -> None:
    """Gives an operation what was inferred for the one that stands for it, and replaces it where that was."""
    for result, other in zip(op.results, built.results, strict=True):
        refine_type(result, tensor_type(other))
    if known is built:
        names = {name: op.properties[name] for name in NAMES if name in op.properties}
        op.properties = {**known.properties, **names}
        return
    copy = copied(known, {})
    copy.location = op.location
    copy.results[0].name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, copy)


def _fits(solution: Solution, op: Operation, known: Operation) -> bool:
    """Whether an operation as built may have the types and dimensions of another one."""
    shapes = zip(map(shape_of, op.results), map(shape_of, known.results), strict=True)
    known_dims = _dims(known)
    dims = [(dim, known_dims[name]) for name, dim in _dims(op).items()]
    return all(starmap(solution.gives, shapes)) and all(starmap(solution.gives_dim, dims))


def _dims(op: Operation) -> dict[str, DimTerm]:
    """The sizes that are named in the spec of an operation."""
    named = op.properties.get("dims")
    return dict(named.data) if type(named) is DimsAttr else {}
