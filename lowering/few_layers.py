"""Inference of types on a few of many equal layers, which gives those of all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import starmap

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import Rewriter

from ocannl.dialects.ir.op_helpers import copied, operations_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import DimTerm
from ocannl.dialects.shapes.solution import Solution
from ocannl.dialects.texpr import TexprRoutineOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, refine_type, shape_of, tensor_type
from ocannl.lowering.pipelines import module_text
from ocannl.passes.texpr.fold_layers.fold_layers import folding_of, statements_of
from ocannl.passes.texpr.fold_layers.layering import NAMES


@dataclass(frozen=True)
class FewLayers:
    """A program with few of its equal layers, on which passes infer the types of the whole one."""

    whole: TexprRoutineOp
    few: TexprRoutineOp
    """The one with few layers."""
    module: ModuleOp
    """The module of that."""
    built: Sequence[Operation]
    """The statements of that, as built."""
    stand_ins: Sequence[int]
    """For each statement of the whole program, the number of the one that stands for it among these."""
    ends: Sequence[tuple[int, int]]
    """The statements of the last layer before those that are left out, with those of the first one after."""

    @staticmethod
    def of(module: ModuleOp) -> FewLayers | None:
        """Few layers of a program as built; None where no layers are known to be equal."""
        routine = _only_routine(module)
        folding = None if routine is None else folding_of(routine, as_built=True)
        if routine is None or folding is None:
            return None
        few, places = folding.folded(routine), folding.stand_ins()
        ends = zip(*(map(places.__getitem__, folding.inner[at]) for at in (0, -1)), strict=True)
        return FewLayers(routine, few, ModuleOp([few]), statements_of(few), places, [*ends])

    def text(self) -> str:
        """A text that determines the whole program."""
        return f"{module_text(self.module)}{json.dumps(self.stand_ins)}"

    def give_types(self) -> bool:
        """Gives the whole program what passes have inferred with few layers, where that fits all of them:
        where layers from the first one that is left out to the last one have one type, which solves the
        constraints of each as it does those of one. Otherwise changes nothing.
        """
        inferred = statements_of(self.few)
        if len(inferred) != len(self.built):
            return False
        if any(_decided(inferred[one]) != _decided(inferred[other]) for one, other in self.ends):
            return False
        whole, solution = statements_of(self.whole), Solution()
        typed = [(op, self.built[at], inferred[at]) for op, at in zip(whole, self.stand_ins, strict=True)]
        if not all(_fits(solution, op, built) for op, built, _ in typed):
            return False
        for op, built, known in typed:
            _give(op, built, known)
        return True


def _only_routine(module: ModuleOp) -> TexprRoutineOp | None:
    """The routine of a module with one of tensor expressions, and nothing else."""
    (*others, routine) = operations_of(module.body.block)
    return routine if isinstance(routine, TexprRoutineOp) and not others else None


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
    return dict(named.data) if isinstance(named, DimsAttr) else {}
