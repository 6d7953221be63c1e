"""The variables of a kernel from the numbers of its blocks and threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Space
from ocannl.dialects.kernel import BlockReduction
from ocannl.dialects.kernel.point import Numbered
from ocannl.lowering.llvm.accumulators import combine
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.indices import linear_value
from ocannl.lowering.llvm.types import ValueType

# More values than these are gathered in a loop: loads that are all written out take a register each.
UNROLLED_PARTS = 8


def variables(b: FunctionBuilder, number: str, space: Space, depth: int | None = None) -> dict[str, Position]:
    """The variables of a space at its point `number`, an `i32`, which is known in an open scope; the last
    varies fastest.
    """
    found: dict[str, Position] = {}
    depth = b.depth if depth is None else depth
    for place, (name, size) in reversed(list(enumerate(space))):
        if size == 1:
            found[name] = Position(None, 0)
            continue
        is_first = all(s == 1 for _, s in space[:place])
        value = number if is_first else b.emit_at(depth, f"urem i32 {number}, {size}")
        if not is_first:
            number = b.emit_at(depth, f"udiv i32 {number}, {size}")
        found[name] = Position(b.emit_at(depth, f"zext i32 {value} to i64"), 0, depth)
    return found


def point_of(
    b: FunctionBuilder, at: Numbered, positions: Mapping[str, Position]
) -> tuple[str, dict[str, Position]]:
    """An `i1`, whether a space has a point with a number; and its variables there."""
    address = Address(at.number.terms, at.number.constant)
    value, constant, depth = linear_value(b, address, positions)
    if constant:
        value = b.emit_at(depth, f"add i64 {value}, {constant}")
    short = b.emit_at(depth, f"trunc i64 {value} to i32")
    inside = b.emit_at(depth, f"icmp ult i32 {short}, {at.count}")
    return inside, variables(b, short, at.space, depth)


def holds(b: FunctionBuilder, bounds: Sequence[Bound], positions: dict[str, Position]) -> str:
    """An `i1`: whether all bounds hold."""
    condition = ""
    for bound in bounds:
        value, constant, _ = linear_value(b, Address(bound.index.terms, 0), positions)
        constant = bound.below - bound.index.constant - constant
        test = b.emit(f"icmp slt i64 {value}, {constant}")
        condition = b.emit(f"and i1 {condition}, {test}") if condition else test
    return condition or "true"


def gathered(
    b: FunctionBuilder,
    thread: str,
    how: BlockReduction,
    accum: str,
    type: ValueType,
    load: Callable[[str], str],
) -> str:
    """Accumulates the values that lie `how.step` threads apart in the group of a thread, in order."""
    first = first_of_group(b, thread, how)

    def step(value: str, number: str) -> str:
        return combine(b, accum, value, load(b.emit(f"add i64 {first}, {number}")), type)

    value = load(first)
    if how.count <= UNROLLED_PARTS:
        for k in range(1, how.count):
            value = step(value, str(k * how.step))
        return value
    loop = b.open_loop(1, how.count, 1, [(type.text, value)])
    value = step(loop.phis[0], b.emit(f"mul i64 {loop.index}, {how.step}"))
    b.close_loop(loop, [value])
    return value


def first_of_group(b: FunctionBuilder, thread: str, how: BlockReduction) -> str:
    """The first of the threads whose values a thread accumulates."""
    group = how.stride * how.size
    inner = b.emit(f"urem i64 {thread}, {how.step}")
    number = b.emit(f"udiv i64 {thread}, {group}")
    start = b.emit(f"mul i64 {number}, {group}")
    return b.emit(f"add i64 {start}, {inner}")
