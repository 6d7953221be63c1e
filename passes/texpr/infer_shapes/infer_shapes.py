"""`infer-shapes`: infers the shape of every tensor of a routine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.records import dataclass
from ocannl.dialects.shapes.shape import Dim, DimTerm, DimVar, Row, Shape, closed_row
from ocannl.dialects.texpr import (
    ConstantOp,
    DataOp,
    EmbedOp,
    NodeOp,
    ParamOp,
    RangeOp,
    ScanOp,
    SizeOp,
    TensorOp,
    TexprRoutineOp,
)
from ocannl.dialects.texpr.nested import nested, values_in
from ocannl.dialects.texpr.tensor_type import (
    DimsAttr,
    TensorType,
    known_type,
    refine_type,
    shape_of,
    tensor_type,
)
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.passes.texpr.infer_shapes.constraints import demands_of, result_types
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.passes.texpr.infer_shapes.errors import ShapeInferenceError
from ocannl.passes.texpr.infer_shapes.messages import shape_error
from ocannl.passes.texpr.infer_shapes.scan_counters import counter_in_scans
from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import Leaf, LeafKind

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
    """The sizes of dimensions in specs, for `infer-projections`."""

    def known(self, value: SSAValue) -> Shape:
        return self.solver.shape(shape_of(value))

    def run(self) -> None:
        """Raises `ShapeError`, `SpecError`."""
        ops = [*nested(self.routine.body.block)]
        self.solver.reserve(*variables(ops))
        op: Operation = self.routine
        leaves: list[Leaf] = []
        try:
            for op in ops:
                demands = demands_of(op, self.solver)
                self.solver.add(*demands.found)
                leaves += leaves_of(op)
                leaves += [_leaf_of(name, dim, op) for name, dim in demands.new.items()]
                if demands.names:
                    self.names[op] = demands.names
            op = self.routine
            self.solver.close(leaves)
        except ShapeInferenceError as error:
            raise shape_error(error, op, self.known) from None
        for op in ops:
            if isinstance(op, TensorOp):
                for value in values_in([op]):
                    self._refine(value)
        for op in ops:
            names, noted = self.names.get(op), op.properties.get("dims")
            if names is None and isinstance(noted, DimsAttr):
                names = dict(noted.data)
            if names is not None:
                sizes = tuple((name, self.solver.dim(dim)) for name, dim in names.items())
                op.properties["dims"] = DimsAttr(sizes)
            if isinstance(op, SizeOp):
                self._settle_size(op)
            elif isinstance(op, UniformOp):
                op.operands = [counter_in_scans(op)]

    def _refine(self, value: SSAValue) -> None:
        """Gives a value its final shape."""
        type = tensor_type(value)
        shape = type.shape.data
        if not shape.is_final:
            final = Shape(self._final(shape.batch), self._final(shape.input), self._final(shape.output))
            refine_type(value, known_type(final, type.element_or_none))

    def _final(self, written: Row) -> Row:
        """A final row, with leading and trailing axes as they were written, since these decide where it
        broadcasts.
        """
        row, split = self.solver.row(written), len(written.leading)
        if len(row.leading) == split:
            return row
        return Row(row.axes[:split], None, row.axes[split:])

    def _settle_size(self, op: SizeOp) -> None:
        dim = self.solver.dim(op.dim)
        assert isinstance(dim, Dim), "closing leaves no dimension open"
        number = self._number(dim, op.result.type)
        number.location = op.location
        Rewriter.replace_op(op, number)

    def _number(self, dim: Dim, type: TensorType) -> TensorOp:
        """A size; where its basis is a static index, a multiple of that: the real size of padded axes."""
        ends = self.routine.ranges.get(dim.basis or "")
        if dim.basis is None or ends is None:
            return ConstantOp(dim.size, type)
        return EmbedOp(Linear.var(dim.basis) * (dim.size // (ends - 1)), type)


def leaves_of(op: Operation) -> list[Leaf]:
    """The leaf that an operation is; empty for an operation that computes its result."""
    kind = LEAF_KINDS.get(type(op))
    if kind is None or not isinstance(op, TensorOp) or (isinstance(op, UniformOp) and op.like):
        return []
    return [Leaf(shape_of(op.result), kind, tensor_name(op.result), op)]


def _leaf_of(name: str, dim: DimTerm, op: Operation) -> Leaf:
    return Leaf(Shape(Row(), Row(), closed_row(dim)), LeafKind.NAME, name, op)


def variables(ops: Sequence[Operation]) -> tuple[set[int], set[int]]:
    """The numbers of the dimension and row variables in the types of these operations."""
    tensors = values_in([op for op in ops if isinstance(op, TensorOp)])
    scans = [op for op in ops if isinstance(op, ScanOp)]
    further = [type.shape.data for scan in scans for type in result_types(scan)]
    rows = [row for shape in (*map(shape_of, tensors), *further) for row in shape]
    bound = [dims.data for op in ops if isinstance(dims := op.properties.get("dims"), DimsAttr)]
    terms = [axis for row in rows for axis in row.axes] + [term for dims in bound for _, term in dims]
    return (
        {term.id for term in terms if isinstance(term, DimVar)},
        {row.var.id for row in rows if row.var is not None},
    )


@dataclass(frozen=True)
class InferShapesPass(ModulePass):
    """Shape inference by constraints: unification of rows of dimensions with a broadcasting order (after type
    inference with row variables: Rémy, "Type Checking Records and Variants in a Natural Extension of ML",
    1989).

    Solves the constraints of each routine, decides what they leave open, and writes the final shapes into the
    types.
    """

    name = "infer-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                ShapeInference(routine).run()
