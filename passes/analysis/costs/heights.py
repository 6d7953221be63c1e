"""How many operations values depend on, one upon the other."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue


def heights(block: Block) -> dict[SSAValue, int]:
    """The length of the longest chain of operations that each value made in a block depends on."""
    found: dict[SSAValue, int] = {}
    for op in block.ops:
        height = 1 + max((found.get(value, 0) for value in op.operands), default=0)
        found.update(dict.fromkeys(op.results, height))
    return found
