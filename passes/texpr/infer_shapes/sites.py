"""What error messages need of an operation under construction, also when that is gone.

Constraints outlive the expression that made them, since other variables may depend on them. Their origins
must not keep its operands, so they refer to a site: to the operation itself weakly, and else to as much of it
as its description shows, which is two levels of operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ref

from xdsl.dialects.builtin import UNKNOWN_LOC, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, SSAValues

from ocannl.dialects.shapes.shape import Row, Shape
from ocannl.dialects.texpr import ApplyOp, NodeOp, RangeOp, TensorOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name

_NO_SHAPE = Shape(Row(), Row(), Row())
_NO_PROPERTIES: dict[str, Attribute] = {}


@dataclass(eq=False, slots=True)
class Named:
    """An operand of an operand: the name that a message gives it, None for an expression without one."""

    kind: type[Operation]
    name: str | None

    @classmethod
    def of(cls, value: OpResult) -> Named:
        return cls(type(value.op), shown_name(value))

    def value(
        self,
        shape: Shape = _NO_SHAPE,
        properties: dict[str, Attribute] = _NO_PROPERTIES,
        operands: Sequence[SSAValue] = (),
    ) -> SSAValue:
        """A value that a message shows by this name, or as the operation of an expression without one."""
        if self.kind is ApplyOp or self.name is None or self.kind is RangeOp:
            op = _operation(self.kind, properties, operands, shape)
        else:
            op = _operation(NodeOp, {"label": StringAttr(self.name)}, (), shape)
        value = op.results[0]
        if self.kind is ApplyOp:
            value.name_hint = self.name
        return value


@dataclass(eq=False, slots=True)
class Trace:
    """An operand: its operation, its shape and the names of its operands."""

    named: Named
    properties: dict[str, Attribute]
    shape: Shape
    operands: tuple[Named, ...]

    def value(self) -> SSAValue:
        """A value that a message shows as it would have shown the operand."""
        return self.named.value(self.shape, self.properties, [operand.value() for operand in self.operands])


def shown_name(value: OpResult) -> str | None:
    """The name that a message gives an operand of an operand."""
    return value.name_hint if type(value.op) is ApplyOp else tensor_name(value)


class Site:
    """An operation under construction, as origins of constraints refer to it."""

    __slots__ = ("_copy", "_op", "kind", "location", "operands", "properties", "shape")

    def __init__(self, op: Operation, operands: tuple[Trace, ...]) -> None:
        self._op = ref(op)
        self._copy: Operation | None = None
        self.kind = type(op)
        self.properties = op.properties
        self.location = op.location
        self.shape = shape_of(op.result) if isinstance(op, TensorOp) else None
        self.operands = operands

    @property
    def op(self) -> Operation:
        """The operation; if it is gone, one that a message shows in the same way."""
        op = self._op()
        if op is not None:
            return op
        if self._copy is None:
            operands = [operand.value() for operand in self.operands]
            self._copy = _operation(self.kind, self.properties, operands, self.shape)
            self._copy.location = self.location
        return self._copy


def _operation(
    kind: type[Operation], properties: dict[str, Attribute], operands: Sequence[SSAValue], shape: Shape | None
) -> Operation:
    op = kind.__new__(kind)
    op.operands = operands
    op.properties = properties
    op.attributes = {}
    op.location = UNKNOWN_LOC
    if shape is not None:
        op.results = SSAValues([OpResult(TensorType.of(shape), op, 0)])
    return op
