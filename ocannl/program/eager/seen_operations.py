"""Operations that eager mode has seen: one that is made again, of the same operands, is the same value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.shapes.shape import DimTerm, DimVar, Row, RowVar
from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, tensor_type
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.passes.texpr.infer_shapes.terms import DimEq
from ocannl.program.values import Value, values_of

Resolve: TypeAlias = Callable[[DimTerm], DimTerm]
"""Gives what is known of a dimension."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An operation as eager mode knows it: its key, its dimensions, those that it alone has, and the value of
    an equal one, with its dimensions.
    """

    key: tuple[Any, ...]
    dims: tuple[DimTerm, ...]
    own: frozenset[DimTerm]
    value: Value | None
    known: tuple[DimTerm, ...]

    def equations(self) -> list[DimEq]:
        """The dimensions that are equal if the operations are."""
        pairs = zip(self.dims, self.known, strict=True)
        return [DimEq(new, known) for new, known in pairs if new in self.own]


class SeenOperations:
    """The operations that were seen, by a key that equal ones share but for their dimensions."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], list[tuple[Value, tuple[DimTerm, ...]]]] = {}
        """Their values, with these dimensions."""
        self._dims: set[DimVar] = set()
        self._rows: set[RowVar] = set()
        """Unknowns of the values that are known."""

    def __len__(self) -> int:
        return len(self._known)

    def find(self, op: texpr.TensorOp, resolve: Resolve) -> Seen | None:
        """The key of an operation; None for one that is never the same."""
        operands, type = values_of(op), tensor_type(op.result)
        if isinstance(op, texpr.MemoryOp | texpr.OfOp | ScanOp | ArgumentOp) or "call" in op.attributes:
            return None
        dims: list[DimTerm] = []
        properties = [self._attribute(value, dims, resolve) for value in op.properties.values()]
        if isinstance(op, texpr.RangeOp):
            dims += map(resolve, type.shape.data.output.axes)
        elif _is_shaped_by_uses(op) and not type.shape.data.is_final:
            return None
        read = tuple([self._operand(value, dims, resolve) for value in operands])
        own = frozenset([dim for dim in dims if self._is_new(dim)])
        if own and not _is_told_by_operands(op, own, resolve):
            return None
        rows = [] if isinstance(op, texpr.RangeOp) else [self._row(row) for row in type.shape.data]
        noted = op.attributes.get("indices")
        key = (op.name, read, *op.properties, *properties, *rows, type.element_or_none, noted)
        for value, known in self._known.get(key, ()):
            known = tuple(map(resolve, known))
            if _are_equal(dims, own, known):
                return Seen(key, tuple(dims), own, value, known)
        return Seen(key, tuple(dims), own, None, ())

    def remember(self, seen: Seen, value: Value) -> None:
        """Notes the value of an operation that was not known."""
        self._known.setdefault(seen.key, []).append((value, seen.dims))
        self._dims.update([dim for dim in seen.dims if isinstance(dim, DimVar)])
        for row in tensor_type(value).shape.data:
            self._dims.update(axis for axis in row.axes if isinstance(axis, DimVar))
            if row.var is not None:
                self._rows.add(row.var)

    def _attribute(self, attribute: Attribute, dims: list[DimTerm], resolve: Resolve) -> Any:
        """An attribute. Its dimensions stand apart from the key, as more is known of them later."""
        if not isinstance(attribute, DimsAttr):
            return attribute
        dims += [resolve(dim) for _, dim in attribute.data]
        return tuple([name for name, _ in attribute.data])

    def _operand(self, value: Value, dims: list[DimTerm], resolve: Resolve) -> Any:
        """An operand. A size as a number, or a range, is told by its dimension."""
        if isinstance(value.op, texpr.SizeOp):
            dim = value.op.dim
        elif isinstance(value.op, texpr.RangeOp):
            (dim,) = tensor_type(value).shape.data.output.axes
        else:
            return value
        if self._is_new(dim := resolve(dim)):
            return value
        dims.append(dim)
        return value.op.name

    def _is_new(self, dim: DimTerm) -> bool:
        """Whether a dimension is not known, and only this operation has it."""
        return isinstance(dim, DimVar) and dim not in self._dims

    def _row(self, row: Row) -> Row | None:
        """A row, None if only this operation has it."""
        return row if row.is_final or row.var in self._rows else None


def _is_shaped_by_uses(op: texpr.TensorOp) -> bool:
    """Whether the shape of an operation follows from its uses alone: equal operations may differ in these."""
    return not values_of(op) or (isinstance(op, UniformOp) and op.like is None)


def _is_told_by_operands(op: texpr.TensorOp, own: frozenset[DimTerm], resolve: Resolve) -> bool:
    """Whether all dimensions that no other operation has occur in the operands. One that occurs in the result
    alone follows from the uses of the result, in which equal operations may differ.
    """
    if not isinstance(op, texpr.ApplyOp) or op.logic is None or op.dims is None:
        return False
    spec = parse_spec(op.logic.data)
    rows = {row.var for slot in spec.operands for row in slot.rows}
    return all(
        name in spec.operand_names or name in rows for name, dim in op.dims.data if resolve(dim) in own
    )


def _are_equal(dims: Sequence[DimTerm], own: frozenset[DimTerm], known: Sequence[DimTerm]) -> bool:
    """Whether dimensions are those that are known, if those that only the new operation has are given."""
    given: dict[DimTerm, DimTerm] = {}
    return all(
        given.setdefault(dim, other) == other if dim in own else dim == other
        for dim, other in zip(dims, known, strict=True)
    )
