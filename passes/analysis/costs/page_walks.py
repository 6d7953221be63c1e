"""Page walks: the waits for addresses of pages that no TLB (translation lookaside buffer) knows, where a copy
reads a few elements of each row of a matrix after the other.
"""

from __future__ import annotations

import math

from ocannl.dialects.index.linear import Space
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.loops.values import address_of

# The bytes of a page, the pages that a TLB of the second level knows, and the cycles to find another.
PAGE, KNOWN, WALK = 2**12, 2**11, 24.0


def walks(op: LoadOp, summed: Space, own: Space, width: int) -> float:
    """The cycles of page walks to copy what an operand reads in a sum into panels of so many columns, which
    lie side by side: panel by panel, row by row.
    """
    columns = math.prod(size for name, size in own if address_of(op).stride(name))
    return WALK * rows(op, summed) * math.ceil(columns / width) if are_walked(op, summed, own) else 0.0


def are_walked(op: LoadOp, summed: Space, own: Space) -> bool:
    """Whether rows of an operand that are summed touch more pages than a TLB has room for, until the next
    columns are read: pages apart by a multiple of a power of two share few of its sets.
    """
    address = address_of(op)
    pitch = math.gcd(*(element_bytes(op.node) * address.stride(name) for name, _ in summed))
    lie_apart = pitch >= PAGE and any(address.stride(name) == 1 for name, _ in own)
    return lie_apart and rows(op, summed) * max(PAGE, pitch & -pitch) > KNOWN * PAGE


def rows(op: LoadOp, summed: Space) -> int:
    return math.prod(size for name, size in summed if address_of(op).stride(name))
