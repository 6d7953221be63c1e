"""In which order diverged threads go on: those first that are furthest from the end, so that they meet again.

Where a branch ends, its threads have to wait for the others, wherever the compiler has put its instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from support.ptx.text import Function

Edges = Mapping[int, Sequence[int]]


@cache
def distances(function: Function) -> NDArray[np.int64]:
    """A number for each instruction, that of those nearer to the end lower."""
    following, end = flow(function), len(function.instructions)
    starts = sorted(following)
    ranks = ranked(following, end)
    found = np.zeros(end, np.int64)
    for start, stop in zip(starts, [*starts[1:], end], strict=True):
        found[start:stop] = ranks.get(start, 0) * end - np.arange(start, stop)
    return found


def flow(function: Function) -> dict[int, list[int]]:
    """The blocks that may follow each one, by their first instructions."""
    ops = function.instructions
    jumps = {place for place, op in enumerate(ops) if op.name in ("bra", "ret", "exit")}
    starts = sorted({0, *function.labels.values(), *(place + 1 for place in jumps)} - {len(ops)})
    found: dict[int, list[int]] = {}
    for start, stop in zip(starts, [*starts[1:], len(ops)], strict=True):
        last = ops[stop - 1]
        falls = last.name not in ("bra", "ret", "exit") or last.guard is not None
        taken = [function.labels[str(last.operands[0])]] if last.name == "bra" else []
        leaves = [len(ops)] if last.name in ("ret", "exit") else []
        found[start] = [*([stop] if falls else []), *taken, *leaves]
    return found


def ranked(following: Edges, end: int) -> dict[int, int]:
    """Blocks in postorder from the end backwards: of a loop, those before it first and then its body."""
    back = back_edges(following)
    before: dict[int, list[int]] = {}
    for block, others in following.items():
        for other in others:
            before.setdefault(other, []).append(block)
    order = postorder(end, {at: sorted(b, key=lambda b: (b, at) in back) for at, b in before.items()})
    return {block: len(order) - place for place, block in enumerate(order)}


def back_edges(following: Edges) -> set[tuple[int, int]]:
    """Those that lead to a block on the way to themselves."""
    found: set[tuple[int, int]] = set()
    open_blocks, seen, stack = {0}, {0}, [(0, iter(following[0]))]
    while stack:
        block, rest = stack[-1]
        other = next(rest, None)
        if other is None:
            open_blocks.discard(block)
            stack.pop()
        elif other in open_blocks:
            found.add((block, other))
        elif other not in seen:
            open_blocks.add(other)
            seen.add(other)
            stack.append((other, iter(following.get(other, ()))))
    return found


def postorder(first: int, edges: Edges) -> list[int]:
    found: list[int] = []
    seen, stack = {first}, [(first, iter(edges.get(first, ())))]
    while stack:
        block, rest = stack[-1]
        other = next(rest, None)
        if other is None:
            found.append(block)
            stack.pop()
        elif other not in seen:
            seen.add(other)
            stack.append((other, iter(edges.get(other, ()))))
    return found
