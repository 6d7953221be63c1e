"""The parts of an operation under construction that error messages need, also when it is gone.

Constraints outlive the expression that made them, since other variables may depend on them. Their origins
must not keep its operands, so they refer to a site: to the operation itself weakly, and else to as much of it
as its description shows, which is two levels of operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

from xdsl.dialects.builtin import UNKNOWN_LOC, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, SSAValues

from ocannl.dialects.shapes.shape import Row, Shape
from ocannl.dialects.texpr import ApplyOp, NodeOp, RangeOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name

_NO_SHAPE = Shape(Row(), Row(), Row())
_RANGE = "range"  # the name of ranges; gathers and scatters are recognised by them


class Trace:
    """An operand as messages show it: its own name and that of its operands, None for an expression without
    one.
    """

    __slots__ = ("kind", "name", "operands", "properties", "shape")

    def __init__(self, value: OpResult, operands: tuple[str | None, ...]) -> None:
        op = value.op
        self.kind = type(op)
        self.name = shown_name(value)
        self.properties = op.properties
        self.shape = shape_of(value)
        self.operands = operands

    def value(self) -> SSAValue:
        """A value that a message shows as it would have shown the operand."""
        if self.kind is not ApplyOp:
            return _named(self.name, self.shape)
        operands = [_named(name, _NO_SHAPE) for name in self.operands]
        value = _operation(ApplyOp, self.properties, operands, self.shape).results[0]
        value.name_hint = self.name
        return value


def shown_name(value: OpResult) -> str | None:
    """The name that a message gives an operand of an operand."""
    return value.name_hint if type(value.op) is ApplyOp else tensor_name(value)


def _named(name: str | None, shape: Shape) -> SSAValue:
    """A value that a message calls by a name."""
    if name is None:
        op = _operation(ApplyOp, {}, (), shape)
    elif name == _RANGE:
        op = _operation(RangeOp, {}, (), shape)
    else:
        op = _operation(NodeOp, {"label": StringAttr(name)}, (), shape)
    return op.results[0]


class Site:
    """An operation under construction, as origins of constraints refer to it."""

    __slots__ = ("_copy", "_op", "kind", "location", "operands", "properties", "shape")

    def __init__(self, op: Operation, operands: tuple[Trace, ...]) -> None:
        self._op = ref(op)
        self._copy: Operation | None = None
        self.kind = type(op)
        self.properties = op.properties
        self.location = op.location
        self.shape = shape_of(op.results[0]) if op.results else None
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
