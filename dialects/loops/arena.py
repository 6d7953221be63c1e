"""A check of the places that local nodes of a routine have in its arena."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import prod

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.loops.steps import StepOp
from ocannl.dialects.routine import RoutineOp

Live = tuple[int, int, NodeOp]
"""A node that is in use: where it begins, and its number."""


def check_arena(func: RoutineOp) -> None:
    """Checks that the arena of a routine, its attribute `arena`, has room for all nodes with places in it,
    and that two of them share bytes only if the one is no longer in use when the other one begins to be.
    """
    arena = func.attributes.get("arena")
    if arena is not None and not (isinstance(arena, IntegerAttr) and arena.value.data >= 0):
        raise VerifyException(f"`arena` is a number of bytes, as `64 : i64`, found {arena}")
    placed = [op for op in func.body.block.ops if isinstance(op, NodeOp) and op.offset is not None]
    for node in placed:
        name, (start, end), element = node.label.data, place(node), element_bytes(node.result)
        if start % element:
            raise VerifyException(f"node {name!r} of {element} bytes an element is not aligned at {start}")
        if arena is not None and end > arena.value.data:
            room = f"an arena of {arena.value.data} bytes has no room for node {name!r}"
            raise VerifyException(f"{room}, which ends at {end}")
    check_apart(func, placed)


def place(node: NodeOp) -> tuple[int, int]:
    """Where a node begins and ends in the arena, in bytes."""
    start = 0 if node.offset is None else node.offset.data
    return start, start + element_bytes(node.result) * prod(memref_shape(node.result))


def check_apart(func: RoutineOp, placed: Sequence[NodeOp]) -> None:
    """Checks that nodes which are in use at the same time have places that do not overlap."""
    steps: list[Operation] = [op for op in func.body.block.ops if isinstance(op, StepOp)]
    positions = {step: position for position, step in enumerate(steps)}
    used = [(found, node) for node in placed if (found := uses(node.result, positions))]
    live: list[Live] = []  # by their places, none of which overlap
    ends: list[tuple[int, int, Live]] = []
    for number, (found, node) in enumerate(sorted(used, key=lambda use: min(use[0]))):
        while ends and ends[0][0] < min(found):
            live.remove(heappop(ends)[2])
        start, end = place(node)
        if start == end:
            continue
        at = bisect_left(live, start, key=lambda entry: entry[0])
        for _, _, other in live[max(at - 1, 0) : at + 1]:
            if place(other)[0] < end and start < place(other)[1]:
                names = f"nodes {other.label.data!r} and {node.label.data!r}"
                raise VerifyException(f"{names} share bytes of the arena, and are in use at the same time")
        live.insert(at, (start, number, node))
        heappush(ends, (max(found), number, live[at]))


def uses(node: SSAValue, positions: Mapping[Operation, int]) -> list[int]:
    """The positions of the steps that touch a node; what is taken out of the function does not count."""
    found: list[int] = []
    for use in node.uses:
        step: Operation | None = use.operation
        while step is not None and step not in positions:
            step = step.parent_op()
        if step is not None:
            found.append(positions[step])
    return found
