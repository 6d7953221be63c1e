"""Memory of nodes: buffers of their own, or ranges of the routine's arena; and which nodes may alias."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.assign.node import KEPT, OWN_MEMORY
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.dataflow.memory import byte_size

ALIGNMENT = LINE
"""Nodes begin at multiples of so many bytes."""
VERSION, COPIED = -64, -56
"""So many bytes from a node with memory of its own there is a number of 8 bytes: how often it was written, or
less than 1 where that is not counted; and of a kept copy, what that number was of its source.
"""
PADDING = 64
"""So many bytes after a node can be read: a vector that begins at its last element."""


def has_own_memory(node: NodeOp) -> bool:
    """Whether a node has a buffer of its own, passed by pointer, that keeps its values between runs."""
    return node.mode.data in (*OWN_MEMORY, KEPT)


def arena_range(node: NodeOp) -> tuple[int, int]:
    """Offset and size of a local node in the arena, in bytes. Raises `OcannlError` if it has none."""
    if node.mode.data != "local":
        raise OcannlError(at_line(node, f"{node.mode.data} node `{node.label.data}` is in use"))
    if node.offset is None:
        raise OcannlError(
            at_line(node, f"local node `{node.label.data}` has no place in the arena: run plan-memory")
        )
    return node.offset.data, byte_size(node)


def arena_ranges(values: Iterable[SSAValue]) -> dict[SSAValue, tuple[int, int]]:
    """Offsets and sizes in the arena, in bytes, of those values that are nodes in it."""
    owners = {value: value.owner for value in values}
    return {
        value: arena_range(node)
        for value, node in owners.items()
        if isinstance(node, NodeOp) and not has_own_memory(node)
    }


def disjoint(nodes: Sequence[SSAValue], ranges: Mapping[SSAValue, tuple[int, int]]) -> set[SSAValue]:
    """The nodes that alias none of the others; `ranges` are offsets and sizes in the arena."""
    places = sorted([(ranges[node], k) for k, node in enumerate(nodes) if node in ranges])
    shared: set[SSAValue] = set()
    end, last = 0, 0
    for (start, size), k in places:
        if start < end:
            shared |= {nodes[last], nodes[k]}
        if start + size > end:
            end, last = start + size, k
    return set(nodes) - shared
