"""The pass that infers every shape of a routine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.shape import Dim, DimTerm, DimVar, Row, Shape
from ocannl.dialects.tensor_type import DimsAttr, known_type, refine_type, shape_of
from ocannl.dialects.texpr import (
    ApplyOp,
    AssignOp,
    ConstantOp,
    DataOp,
    EmbedOp,
    NodeOp,
    ParamOp,
    RangeOp,
    SizeOp,
    TensorOp,
    TexprRoutineOp,
)
from ocannl.dialects.uniform import UniformOp
from ocannl.passes.infer_shapes.constraints import demands_of
from ocannl.passes.infer_shapes.errors import ShapeInferenceError
from ocannl.passes.infer_shapes.messages import shape_error, tensor_name
from ocannl.passes.infer_shapes.solver import Solver
from ocannl.passes.infer_shapes.terms import Leaf, LeafKind

LEAF_KINDS: dict[type[Operation], LeafKind] = {
    ParamOp: LeafKind.PARAM,
    DataOp: LeafKind.DATA,
    RangeOp: LeafKind.RANGE,
    NodeOp: LeafKind.CONSTANT,
    ConstantOp: LeafKind.CONSTANT,
    UniformOp: LeafKind.DATA,
    SizeOp: LeafKind.CONSTANT,
    EmbedOp: LeafKind.CONSTANT,
}


@dataclass
class ShapeInference:
    """One routine's constraints and their solution."""

    routine: TexprRoutineOp
    solver: Solver = field(default_factory=Solver)
    names: dict[Operation, dict[str, DimTerm]] = field(default_factory=dict[Operation, dict[str, DimTerm]])
    """What projections need to know of the dimensions in specs."""

    def known(self, value: SSAValue) -> Shape:
        return self.solver.shape(shape_of(value))

    def run(self) -> None:
        """Raises `ShapeError`, `SpecError`."""
        ops = list(self.routine.body.block.ops)
        self.solver.reserve(*variable_counts(ops))
        op: Operation = self.routine
        try:
            for op in ops:
                demands = demands_of(op, self.solver)
                self.solver.add(*demands.found)
                if demands.names:
                    self.names[op] = demands.names
            op = self.routine
            self.solver.close([leaf for op in ops for leaf in leaves_of(op)])
        except ShapeInferenceError as error:
            raise shape_error(error, op, self.known) from None
        for op in ops:
            if isinstance(op, TensorOp):
                refine_type(op.result, known_type(self._final(op.result), op.result.type.element_or_none))
        for op, names in self.names.items():
            sizes = tuple((name, self.solver.dim(dim)) for name, dim in names.items())
            op.properties["dims"] = DimsAttr(sizes)
        for op in ops:
            if isinstance(op, SizeOp):
                self._settle_size(op)
            elif isinstance(op, UniformOp):
                op.operands = [op.counter]

    def _final(self, value: SSAValue) -> Shape:
        """The final shape; a row keeps the split that it was written with, which decides where it
        broadcasts.
        """
        rows: list[Row] = []
        for written in shape_of(value):
            axes, split = self.solver.row(written).axes, len(written.leading)
            rows.append(Row(axes[:split], None, axes[split:]))
        return Shape(*rows)

    def _settle_size(self, op: SizeOp) -> None:
        dim = self.solver.dim(op.dim)
        assert isinstance(dim, Dim), "closing leaves no dimension open"
        constant = ConstantOp(float(dim.size), op.result.type)
        constant.location = op.location
        Rewriter.replace_op(op, constant)


def leaves_of(op: Operation) -> list[Leaf]:
    """The leaf that an operation is, if it is one."""
    kind = LEAF_KINDS.get(type(op))
    if kind is None or not isinstance(op, TensorOp) or (isinstance(op, UniformOp) and op.like):
        return []
    return [Leaf(shape_of(op.result), kind, tensor_name(op.result), op)]


def variable_counts(ops: Iterable[Operation]) -> tuple[int, int]:
    """How many dimension and row variables the text of these operations numbers."""
    dims, rows = [-1], [-1]

    def note(terms: Iterable[DimTerm]) -> None:
        dims.extend(term.id for term in terms if isinstance(term, DimVar))

    for op in ops:
        if isinstance(op, SizeOp):
            note([op.dim])
        if isinstance(op, ApplyOp | AssignOp) and op.dims is not None:
            note(term for _, term in op.dims.data)
        if isinstance(op, TensorOp):
            for row in shape_of(op.result):
                note(row.axes)
                if row.var is not None:
                    rows.append(row.var.id)
    return max(dims) + 1, max(rows) + 1


@dataclass(frozen=True)
class InferShapesPass(ModulePass):
    """Solves the constraints of each routine, closes what is left, and writes the final shapes into the
    types.
    """

    name = "infer-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                ShapeInference(routine).run()
