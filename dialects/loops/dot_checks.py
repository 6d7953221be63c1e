"""Checks that a nest is what an instruction of a matrix unit adds up. Raises `VerifyException`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.linear import Space
from ocannl.dialects.loops.dot_instructions import DOT_INSTRUCTIONS, DotInstruction, dot_instructions
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import LoadOp, StoreOp, address_of

# The most rows and columns of a block of results.
MOST = 32


def check_dot(
    schedule: Schedule,
    space: Space,
    ops: Sequence[Operation],
    reduced: Sequence[Space],
    summed: Sequence[Operation],
) -> None:
    """The nest stores its only sum, of products of two loads, which are laid out as the instruction reads
    them: `summed` are the operations of the sum over the space `reduced`.
    """
    if len(ops) != 2 or len(reduced) != 1 or not isinstance(ops[1], StoreOp):
        raise VerifyException("a nest with `dot` stores a sum, and does nothing else")
    if schedule.rows is None or schedule.lanes is None or schedule.merged or schedule.strips:
        raise VerifyException(f"`dot = {schedule.dot}` has rows and lanes, no merged loops and no strips")
    sizes = dict(space)
    for name, extent in schedule.tiles:
        if extent > MOST or sizes[name] % extent:
            raise VerifyException(f"`dot` has equal tiles of at most {MOST}")
    row = schedule.rows[0]
    loads = [op for op in summed if isinstance(op, LoadOp)]
    loads.sort(key=lambda op: address_of(op).stride(row) == 0)
    names = [dot.name for dot in instructions_of(summed, loads, ops[0])]
    wanted = next(dot for dot in DOT_INSTRUCTIONS if dot.name == schedule.dot)
    if len(reduced[0]) < 2 or schedule.dot not in names:
        raise VerifyException(f"{wanted.name} adds up products over groups of {wanted.depth} neighbours")
    check_layout(schedule, reduced[0], loads, ops[1], wanted.depth)


def instructions_of(
    summed: Sequence[Operation], loads: Sequence[LoadOp], reduction: Operation
) -> list[DotInstruction]:
    """The instructions for the product that a sum yields last: of the loads of rows and of columns."""
    product = summed[-1].operands[0].owner if summed and summed[-1].operands else None
    if not isinstance(product, Operation):
        return []
    factors = {
        factor.owner.operands[0]: factor
        for factor in product.operands
        if isinstance(factor.owner, Operation) and factor.owner.operands
    }
    if len(loads) != 2 or len(product.operands) != 2 or factors.keys() != {load.result for load in loads}:
        return []
    rows, columns = (factors[load.result] for load in loads)
    return dot_instructions(rows, columns, reduction.results[0].type)


def check_layout(
    schedule: Schedule, reduced: Space, loads: Sequence[LoadOp], store: StoreOp, depth: int
) -> None:
    """The operands are those of rows and of columns. Neighbours along the sum stand beside each other in each
    row, and in each column; so do the results of a row.
    """
    assert schedule.rows is not None
    assert schedule.lanes is not None
    (row, _), (column, _) = schedule.rows, schedule.lanes
    *_, (groups, _), (neighbours, count) = reduced
    left, right = loads
    strides: Mapping[str, tuple[LoadOp | StoreOp, Mapping[str, int]]] = {
        "rows": (left, {neighbours: 1, groups: depth, column: 0}),
        "columns": (right, {neighbours: 1, column: depth, row: 0}),
        "results": (store, {column: 1}),
    }
    for what, (op, wanted) in strides.items():
        if count != depth or op.positions or any(address_of(op).stride(n) != s for n, s in wanted.items()):
            raise VerifyException(f"the {what} of `dot = {schedule.dot}` are not laid out as it wants them")
