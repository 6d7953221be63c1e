"""Fixed points as loops with a condition, once they are differentiated."""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.ir.op_helpers import block_copied, operations_of
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import Row, Shape
from ocannl.dialects.texpr import ApplyOp, ScanOp, YieldOp
from ocannl.dialects.texpr.tensor_type import TensorType, tensor_type
from ocannl.passes.texpr.differentiate.derivative_builder import combined, constant, identity, insert


def end_within_tolerances(block: Block) -> None:
    """Replaces fixed points by loops that end when nothing moves by more than the tolerance."""
    for op in operations_of(block):
        if isinstance(op, ScanOp):
            end_within_tolerances(op.block)
            if op.within is not None:
                _replace(op)


def _replace(scan: ScanOp) -> None:
    limit = _limit(scan)
    type = tensor_type(limit)
    body = block_copied(scan.block, {})
    going = body.insert_arg(type, 1)
    going.name_hint = "going"
    most = body.insert_arg(type, len(body.args))
    end = body.last_op
    assert isinstance(end, YieldOp)
    (value,) = end.carries
    step = _greatest(App("abs", (App("sub", (Arg(0), Arg(1))),)), [value, body.args[0]], end)
    is_far = combined(App("lt", (Arg(0), Arg(1))), [most, step], type, end)
    end.operands = [value, is_far]
    inits = [*scan.inits, constant(1.0, type, scan)]
    types = [tensor_type(scan.result), type]
    made = ScanOp(scan.index, scan.count, inits, (), [*scan.captured, limit], types, Region(body), going=1)
    insert(made, scan, scan)
    made.result.name_hint = scan.result.name_hint
    scan.result.replace_all_uses_with(made.result)
    scan.detach()
    scan.erase()


def _limit(scan: ScanOp) -> SSAValue:
    """By how much an element may still move."""
    assert scan.tolerance is not None
    if scan.relative is None:
        return constant(scan.tolerance, _number_like(scan.result), scan)
    greatest = _greatest(App("abs", (Arg(0),)), [scan.inits[0]], scan)
    return combined(App("mul", (Arg(0), Const(scan.tolerance))), [greatest], _number_like(scan.result), scan)


def _greatest(term: Term, operands: list[SSAValue], before: Operation) -> SSAValue:
    """The greatest value of a term of 0 and more over tensors of one shape, but for NaN, at which nothing
    would be greater.
    """
    maps, space = identity(operands[0], before)
    number = App("where", (App("le", (Const(0), term)), term, Const(0)))
    combination = Combination.of(number, operands, [maps] * len(operands))
    made = ApplyOp.projected(combination, _number_like(operands[0]), "max", (), space)
    return insert(made, before, *operands).result


def _number_like(value: SSAValue) -> TensorType:
    return TensorType.of(Shape(Row(), Row(), Row()), tensor_type(value).element)
