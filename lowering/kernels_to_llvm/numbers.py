"""The variables of a kernel from the numbers of its blocks and threads."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.addresses import Address
from ocannl.dialects.bounds import Bound
from ocannl.dialects.linear import Space
from ocannl.lowering.loops_to_llvm.builder import FunctionBuilder, Position
from ocannl.lowering.loops_to_llvm.nest import linear_value


def variables(b: FunctionBuilder, number: str, space: Space) -> dict[str, Position]:
    """The variables of a space at its point `number`, an `i32`; the last varies fastest."""
    found: dict[str, Position] = {}
    for place, (name, size) in reversed(list(enumerate(space))):
        if size == 1:
            found[name] = Position(None, 0)
            continue
        is_first = all(s == 1 for _, s in space[:place])
        value = number if is_first else b.emit(f"urem i32 {number}, {size}")
        if not is_first:
            number = b.emit(f"udiv i32 {number}, {size}")
        found[name] = Position(b.emit(f"zext i32 {value} to i64"), 0, b.depth)
    return found


def holds(b: FunctionBuilder, bounds: Sequence[Bound], positions: dict[str, Position]) -> str:
    """Whether all bounds hold: an `i1`."""
    condition = ""
    for bound in bounds:
        value, constant, _ = linear_value(b, Address(bound.index.terms, 0), positions)
        constant = bound.below - bound.index.constant - constant
        test = b.emit(f"icmp slt i64 {value}, {constant}")
        condition = b.emit(f"and i1 {condition}, {test}") if condition else test
    return condition or "true"


def first_of_group(b: FunctionBuilder, thread: str, stride: int, size: int, step: int) -> str:
    """The first of the threads, `step` apart, whose values a thread accumulates."""
    inner = b.emit(f"urem i64 {thread}, {step}")
    group = b.emit(f"udiv i64 {thread}, {stride * size}")
    start = b.emit(f"mul i64 {group}, {stride * size}")
    return b.emit(f"add i64 {start}, {inner}")
