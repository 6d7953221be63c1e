"""The body of a scan under construction: copies of the operations that depend on its arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation, OpResult, SSAValue, SSAValues
from xdsl.utils.hints import isa

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import copied, operands_of
from ocannl.dialects.texpr.axes import Axis
from ocannl.dialects.texpr.derivatives import JvpOp, VjpOp
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ResultOp
from ocannl.dialects.texpr.scan_yield import YieldOp
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.program.module.needed import needed, needed_for
from ocannl.program.values import Value, label_of, value_of, values_of

NUMBERS = (texpr.ConstantOp, texpr.SizeOp, texpr.EmbedOp)
"""Leaves that a body has copies of."""


@dataclass
class ScanBody:
    """The body of a scan, what its operations are copies of, and the values from outside that it reads."""

    block: Block
    originals: Sequence[Value]
    captured: list[Value] = field(default_factory=list[Value])


def scan_body(
    arguments: Sequence[Value],
    carries: Sequence[Value],
    stacked: Sequence[tuple[Value, Axis]],
    since: int,
    whole: bool,
    moved: Collection[Operation] = (),
) -> ScanBody:
    """The body that yields values made from arguments. What depends on no argument stays outside, but random
    numbers that were made `since` the body began; of a `whole` body, nothing but memory that was made since.

    Raises `OcannlError` for memory and updates of values inside, but for those of operations `moved`.
    """
    yielded = [*carries, *(value for value, _ in stacked)]
    ops = needed_for(yielded)
    inside = _inside(ops, arguments, since, whole)
    for op in inside:
        _check(op, op in moved)
    block = Block(arg_types=[value.type for value in arguments])
    copies: dict[SSAValue, SSAValue] = dict(zip(arguments, block.args, strict=True))
    for value, argument in zip(arguments, block.args, strict=True):
        argument.name_hint = value.name_hint
    body = ScanBody(block, [*arguments, *map(value_of, inside)])
    for op in inside:
        for operand in values_of(op):
            _give(body, operand, copies)
        if isinstance(op, ResultOp):
            result_of_scan(op, copies)
        else:
            block.add_op(copied_whole(op, copies))
    for value in yielded:
        _give(body, value, copies)
    end = YieldOp([copies[value] for value in carries], [(copies[value], axis) for value, axis in stacked])
    block.add_op(end)
    return body


def _inside(
    ops: Sequence[texpr.TensorOp], arguments: Sequence[Value], since: int, whole: bool
) -> list[texpr.TensorOp]:
    """The operations of the body, operands first: those that depend on arguments; and what such a derivative
    follows, from the value that it is taken of to what it is taken with respect to.
    """
    given = {value.op for value in arguments}
    found: set[Operation] = set(given)
    # What was made before stays outside, even if it reads memory that is carried.
    carries_memory = any(isinstance(op, texpr.MemoryOp) for op in given)
    own = [op for op in ops if op not in given and (value_of(op).made > since or not carries_memory)]
    inside = {op for op in own if _depends(op, found, since, whole)}
    waiting = [op for op in inside if isinstance(op, VjpOp | JvpOp)]
    while waiting:
        path = _path(waiting.pop(), ops) - inside - given
        waiting += [op for op in path if isinstance(op, VjpOp | JvpOp)]
        inside |= path
    return [op for op in ops if op in inside]


def _path(derivative: VjpOp | JvpOp, ops: Sequence[texpr.TensorOp]) -> set[texpr.TensorOp]:
    """The operations among some, operands first, through which a derivative goes."""
    wrt = [derivative.wrt] if isinstance(derivative, VjpOp) else derivative.wrt
    found = {value.op for value in values_of(derivative) if value in wrt}
    tensor = values_of(derivative)[0]
    needed_ops = {*needed([tensor.op]), tensor.op}
    path = set[texpr.TensorOp]()
    for op in ops:
        if op in needed_ops and any(value.op in found for value in values_of(op)):
            found.add(op)
            path.add(op)
    return path


def _depends(op: texpr.TensorOp, found: set[Operation], since: int, whole: bool) -> bool:
    """Whether an operation is found, depends on one that is, or is of the body for when it was made."""
    is_own = isinstance(op, UniformOp) or (whole and not isinstance(op, (*NUMBERS, texpr.MemoryOp)))
    is_new = is_own and value_of(op).made > since
    if op in found or is_new or any(value.op in found for value in values_of(op)):
        found.add(op)
        return True
    return False


def _check(op: texpr.TensorOp, is_moved: bool) -> None:
    if isinstance(op, texpr.OfOp):
        name = label_of(values_of(op)[0])
        raise OcannlError(at_line(op, f"`{name}` is made in each iteration of a scan, and has no memory"))
    if value_of(op).updates is not None and not is_moved:
        message = f"code belongs to `{label_of(value_of(op))}`, which a scan cannot run in each iteration"
        raise OcannlError(at_line(op, message))


def _give(body: ScanBody, value: Value, copies: dict[SSAValue, SSAValue]) -> None:
    """Makes a value from outside known in a body: numbers as copies, others as arguments."""
    if value in copies:
        return
    if isinstance(value.op, NUMBERS):
        body.block.add_op(copied(value.op, copies))
        return
    argument = body.block.insert_arg(value.type, len(body.block.args))
    argument.name_hint = value.name_hint
    body.captured.append(value)
    copies[value] = argument


def copied_whole(op: Operation, copies: dict[SSAValue, SSAValue]) -> Operation:
    """A copy of an operation under construction; of a scan with all of its results."""
    copy = copied(op, copies)
    noted = copy.attributes.get("results")
    if isa(noted, ArrayAttr[TensorType]):
        del copy.attributes["results"]
        further = [OpResult(type, copy, number) for number, type in enumerate(noted.data) if number]
        copy.results = SSAValues([copy.results[0], *further])
    return copy


def result_of_scan(op: ResultOp, copies: dict[SSAValue, SSAValue]) -> SSAValue:
    """The result of a copied scan that an operation stands for."""
    (first,) = operands_of(op)
    scan = copies[first].owner
    assert isinstance(scan, ScanOp)
    result = copies[op.result] = scan.results[op.number.data]
    result.name_hint = op.result.name_hint
    return result
