"""Stores of a body that fill the gaps between each other's elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import Block

from ocannl.dialects.loops import LoadOp, StoreOp
from ocannl.dialects.loops.values import address_of


def stores_side_by_side(op: StoreOp) -> tuple[StoreOp, ...]:
    """The stores of a body that are in neighbouring cells at each point, the first cell's first, of which one
    is given; this one alone where a load of their node stands among them, or cells are written twice.
    """
    if op.positions:
        return (op,)
    block, own = op.parent, address_of(op)
    assert isinstance(block, Block)
    found = {
        address_of(other).constant: other
        for other in block.ops
        if isinstance(other, StoreOp)
        and other.node is op.node
        and not other.positions
        and address_of(other).terms == own.terms
    }
    constants = sorted(found)
    is_dense = all(after == before + 1 for before, after in pairwise(constants))
    if not is_dense or found[own.constant] is not op or _is_read_between(block, list(found.values())):
        return (op,)
    return tuple(found[constant] for constant in constants)


def ends_group(op: StoreOp, group: Sequence[StoreOp]) -> bool:
    """Whether a store is the last one of a group in their body."""
    return not any(op.is_before_in_block(other) for other in group)


def _is_read_between(block: Block, stores: list[StoreOp]) -> bool:
    """Whether the node of stores is touched otherwise between the first and the last of them."""
    ops, touched = list(block.ops), set(stores)
    places = [place for place, op in enumerate(ops) if op in touched]
    return any(
        isinstance(inner, LoadOp | StoreOp) and inner.node is stores[0].node and inner not in touched
        for op in ops[places[0] : places[-1] + 1]
        for inner in op.walk()
    )
