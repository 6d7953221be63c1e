"""Counters of random numbers in scans, which differ in each iteration."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.scalar.terms import App, Arg, Const
from ocannl.dialects.shapes.shape import Row, Shape
from ocannl.dialects.texpr import ApplyOp, ConstantOp, EmbedOp, ScanOp, TensorOp
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.dialects.texpr.uniform import UniformOp

SCALAR = Shape(Row(), Row(), Row())


def counter_in_scans(op: UniformOp) -> SSAValue:
    """The counter of random numbers: inside of a scan of n positions, n times what it is and the position. In
    a fixed point all iterations draw the same, as there would be none else.
    """
    iterations, position = 1, Linear()
    parent = op.parent_op()
    while isinstance(parent, ScanOp):
        if parent.within is None:
            position = position + Linear.var(parent.index) * iterations
            iterations *= parent.size
        parent = parent.parent_op()
    if position == Linear():
        return op.counter
    match op.counter.owner:
        case EmbedOp() as embed:
            return _before(op, _embedded(embed.index * iterations + position))
        case ConstantOp(value=value) if float(value).is_integer():
            return _before(op, _embedded(Linear((), int(value)) * iterations + position))
        case _:
            place = _before(op, _embedded(position))
            term = App("add", (App("mul", (Arg(0), Const(iterations))), Arg(1)))
            return _before(op, ApplyOp(term, [op.counter, place], TensorType.of(SCALAR), logic="."))


def _embedded(index: Linear) -> EmbedOp:
    return EmbedOp(index, TensorType.of(SCALAR))


def _before(op: UniformOp, made: TensorOp) -> SSAValue:
    block = op.parent_block()
    assert block is not None
    made.location = op.location
    block.insert_op_before(made, op)
    return made.result
