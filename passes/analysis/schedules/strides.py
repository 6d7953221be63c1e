"""The strides of loads and stores of a nest along its variables."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.ir import Operation

from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.values import address_of


def strides(ops: Iterable[Operation], name: str) -> list[int]:
    """The strides in elements along a variable of the loads and stores among `ops`."""
    return [abs(address_of(op).stride(name)) for op in ops if isinstance(op, LoadOp | StoreOp)]


def contiguous(ops: Iterable[Operation], name: str) -> int:
    """The number of accesses among `ops` that have unit stride along a variable."""
    return strides(ops, name).count(1)


def contiguous_elements(ops: Iterable[Operation], name: str) -> int:
    """The number of elements touched by accesses with unit stride along a variable."""
    total = 0
    for op in ops:
        if isinstance(op, LoadOp | StoreOp) and abs((address := address_of(op)).stride(name)) == 1:
            sizes = scope_sizes(op)
            total += math.prod(sizes.get(moving, 1) for moving, _ in address.terms)
    return total


def in_memory_order(nest: NestOp, names: list[str]) -> list[str]:
    """The variables, with the one along which most stores of the nest are contiguous last."""
    stores = [op for op in nest.body.block.ops if isinstance(op, StoreOp)]
    last = max(names, key=lambda name: (contiguous(stores, name), names.index(name)), default=None)
    return [*(name for name in names if name != last), *(name for name in names if name == last)]
