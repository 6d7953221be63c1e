"""Programs as constraints: what each operation demands, for tests of the solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ocannl.passes.texpr.infer_shapes.solver import Solver
from ocannl.passes.texpr.infer_shapes.terms import (
    ROW_KINDS,
    Constraint,
    Dim,
    DimAtLeast,
    DimEq,
    DimLe,
    DimProduct,
    DimSum,
    DimTerm,
    Leaf,
    LeafKind,
    Row,
    RowEq,
    RowLe,
    RowVar,
    Shape,
    TotalElements,
    closed_row,
)

Axes = Sequence[int | Dim]


@dataclass
class Program:
    """Collects constraints and leaves; `solve` adds them to the solver in the order wanted."""

    solver: Solver = field(default_factory=Solver)
    constraints: list[Constraint] = field(default_factory=list[Constraint])
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    shapes: list[Shape] = field(default_factory=list[Shape])

    def data(self, batch: Axes = (), input: Axes = (), output: Axes = ()) -> Shape:
        shape = Shape(closed_row(*batch), closed_row(*input), closed_row(*output))
        return self._leaf(shape, LeafKind.DATA, "data")

    def param(
        self, name: str = "p", input: Axes | None = None, output: Axes | None = None, batch: Axes = ()
    ) -> Shape:
        shape = Shape(closed_row(*batch), self._given(input), self._given(output))
        return self._leaf(shape, LeafKind.PARAM, name)

    def constant(self) -> Shape:
        shape = Shape(self.open(), self.open(), self.open())
        return self._leaf(shape, LeafKind.CONSTANT, "c")

    def pointwise(self, *operands: Shape) -> Shape:
        result = self._result()
        for operand in operands:
            for kind in ROW_KINDS:
                self._le(result.row(kind), operand.row(kind), "pointwise")
        return result

    def compose(self, a: Shape, b: Shape) -> Shape:
        result = self._result()
        self._le(a.input, b.output, "compose")
        self._le(result.batch, a.batch, "compose")
        self._le(result.batch, b.batch, "compose")
        self._le(result.output, a.output, "compose")
        self._le(result.input, b.input, "compose")
        return result

    def transpose(self, a: Shape) -> Shape:
        result = self._result()
        self._le(result.batch, a.batch, "transpose")
        self._le(result.input, a.output, "transpose")
        self._le(result.output, a.input, "transpose")
        return result

    def slice(self, a: Shape, index_range: int | None = None) -> Shape:
        result = Shape(self.open(), a.input, a.output)
        index = self.solver.fresh_dim() if index_range is None else Dim(index_range)
        self.constraints.append(RowEq(a.batch, Row((index,), result.batch.var), "slice"))
        return self._keep(result)

    def einsum(self, spec: str, *operands: Shape) -> Shape:
        """A spec of one-letter axes, digits, `_` and `...`, with all three rows of each slot as `b|i->o`."""
        names: dict[str, DimTerm] = {}
        rows: dict[str, RowVar] = {}
        *slots, result = (self._slot(slot, names, rows, spec) for slot in spec.replace("=>", ";").split(";"))
        for slot, operand in zip(slots, operands, strict=True):
            for kind in ROW_KINDS:
                self.constraints.append(RowEq(operand.row(kind), slot.row(kind), spec))
        return self._keep(result)

    def open(self) -> Row:
        return Row(var=self.solver.fresh_row())

    def solve(self, order: Sequence[int] | None = None, look: bool = False) -> Program:
        for index in range(len(self.constraints)) if order is None else order:
            self.solver.add(self.constraints[index])
            if look:
                self.results()
        self.solver.close(self.leaves)
        return self

    def results(self) -> list[Shape]:
        return [self.solver.shape(shape) for shape in self.shapes]

    def show(self, shape: Shape) -> str:
        """The shape as `batch|input->output`, axes separated by spaces."""
        rows = [
            " ".join(map(str, self.solver.row(row).axes)) for row in (shape.batch, shape.input, shape.output)
        ]
        return f"{rows[0]}|{rows[1]}->{rows[2]}"

    def _slot(self, text: str, names: dict[str, DimTerm], rows: dict[str, RowVar], spec: str) -> Shape:
        batch, text = text.split("|") if "|" in text else ("", text)
        input_, output = text.split("->") if "->" in text else ("", text)
        row = self._slot_row
        return Shape(
            row(batch, "batch", names, rows, spec),
            row(input_, "input", names, rows, spec),
            row(output, "output", names, rows, spec),
        )

    def _slot_row(
        self, text: str, kind: str, names: dict[str, DimTerm], rows: dict[str, RowVar], spec: str
    ) -> Row:
        leading, ellipsis, trailing = text.replace(" ", "").partition("...")
        if not ellipsis:
            return Row(trailing=tuple(self._axis(axis, names, spec) for axis in leading))
        var = rows.setdefault(kind, self.solver.fresh_row())
        first = tuple(self._axis(axis, names, spec) for axis in leading)
        return Row(first, var, tuple(self._axis(axis, names, spec) for axis in trailing))

    def _axis(self, axis: str, names: dict[str, DimTerm], spec: str) -> DimTerm:
        if axis == "_":
            return self.solver.fresh_dim()
        if axis.isdigit():
            dim = self.solver.fresh_dim()
            self.constraints.append(DimAtLeast(dim, int(axis) + 1, spec))
            return dim
        return names.setdefault(axis, self.solver.fresh_dim())

    def _given(self, axes: Axes | None) -> Row:
        return self.open() if axes is None else closed_row(*axes)

    def _result(self) -> Shape:
        return self._keep(Shape(self.open(), self.open(), self.open()))

    def _keep(self, shape: Shape) -> Shape:
        self.shapes.append(shape)
        return shape

    def _leaf(self, shape: Shape, kind: LeafKind, name: str) -> Shape:
        self.leaves.append(Leaf(shape, kind, name, f"leaf {name}"))
        return self._keep(shape)

    def _le(self, res: Row, opnd: Row, origin: str) -> None:
        self.constraints.append(RowLe(res, opnd, origin))


def holds(constraint: Constraint, solver: Solver) -> bool:
    """Whether a constraint is true of final shapes, straight from its definition."""
    match constraint:
        case RowEq(a, b):
            return solver.row(a).axes == solver.row(b).axes
        case RowLe(res, opnd):
            return row_refines(solver.row(res).axes, solver.row(opnd).axes, len(opnd.leading))
        case DimAtLeast(dim, minimum):
            size = solver.dim(dim)
            return isinstance(size, Dim) and size.size >= minimum
        case DimEq(a, b):
            return solver.dim(a) == solver.dim(b)
        case DimLe(res, opnd):
            return dim_refines(solver.dim(res), solver.dim(opnd))
        case DimProduct(whole, factors):
            sizes = [axis.size for row in factors for axis in solver.row(row).axes if isinstance(axis, Dim)]
            return prod(sizes) == size_of(solver, whole)
        case DimSum(whole, terms, constant):
            total = constant + sum(coefficient * size_of(solver, dim) for coefficient, dim in terms)
            return total == size_of(solver, whole)
        case TotalElements(rows, total):
            sizes = [axis.size for row in rows for axis in solver.row(row).axes if isinstance(axis, Dim)]
            return prod(sizes) == total


def size_of(solver: Solver, dim: DimTerm) -> int:
    known = solver.dim(dim)
    assert isinstance(known, Dim)
    return known.size


def row_refines(res: tuple[DimTerm, ...], opnd: tuple[DimTerm, ...], split: int) -> bool:
    if len(opnd) > len(res):
        return False
    middle = len(res) - (len(opnd) - split)
    partners = (*res[:split], *res[middle:])
    return all(dim_refines(c, a) for c, a in zip(partners, opnd, strict=True))


def dim_refines(res: DimTerm, opnd: DimTerm) -> bool:
    return opnd in (res, Dim(1))


def moons(b1: list[int] | None, b2: list[int] | None) -> tuple[Program, dict[str, Shape]]:
    """A network of three layers on half-moons, of which two biases may have a size; its shapes by name."""
    p = Program()
    x = p.slice(p.data([80, 10], output=[2]), 80)
    cls = p.slice(p.data([80, 10], output=[1]), 80)
    t = {"w1": p.param("w1"), "b1": p.param("b1", output=b1), "w2": p.param("w2")}
    t |= {"b2": p.param("b2", output=b2), "w3": p.param("w3"), "one": p.constant(), "ten": p.constant()}
    h1 = p.pointwise(p.pointwise(t["b1"], p.compose(t["w1"], x)))
    h2 = p.pointwise(p.pointwise(t["b2"], p.compose(t["w2"], h1)))
    t["mlp"] = p.compose(t["w3"], h2)
    margin = p.pointwise(p.pointwise(t["one"], p.pointwise(cls, t["mlp"])))
    t["loss"] = p.pointwise(p.einsum("...|... => 0", margin), t["ten"])
    return p, t
