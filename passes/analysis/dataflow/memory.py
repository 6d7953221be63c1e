"""The bytes that nodes take, and their places in memory."""

from __future__ import annotations

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.loops import FuncOp, GroupOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import nodes, steps

ADDRESSES = 2**48  # the bytes that a processor tells apart


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The memory of one node: `offset` is its place in the arena, `why` the reason for its mode."""

    label: str
    bytes: int
    mode: str
    offset: int | None
    why: str


def memory_report(func: FuncOp) -> list[NodeMemory]:
    """The memory of all nodes of a function in the order of declaration, then of those in its groups. A
    virtual node takes no bytes.
    """
    inside = [node for step in steps(func) if isinstance(step, GroupOp) for node in step.nodes]
    return [
        NodeMemory(
            node.label.data,
            0 if node.mode.data == "virtual" else byte_size(node),
            node.mode.data,
            None if node.offset is None else node.offset.data,
            node.why.data,
        )
        for node in (*nodes(func), *inside)
    ]


def byte_size(node: NodeOp) -> int:
    """The size of a node. Raises `OcannlError` for more than the address space holds."""
    type = node.result.type
    assert isinstance(type, MemRefType)
    element = type.element_type
    assert isinstance(element, FixedBitwidthType)
    size = element.size * type.element_count()
    if size > ADDRESSES:
        raise OcannlError(at_line(node, f"`{node.label.data}` would take {size} bytes"))
    return size
