"""Prefetches of the next panel of a packed operand, a part of it in each tile that reads the one before.

A panel that comes from beyond the second-level cache is waited for by the first tile of rows that reads it,
while the others of a strip read nothing else from there.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_llvm.tile import strip_start
from ocannl.lowering.placement import Placement, Reduction
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.costs.far_arrays import array_bytes

# An operand of fewer bytes stays in the second-level cache.
FAR = 2**19


@dataclass(frozen=True, slots=True)
class NextPanel:
    """The byte of the next panel that a step of a sum prefetches, and the innermost loop of the sum."""

    address: Address
    variable: str

    @property
    def apart(self) -> int:
        """The steps from one that prefetches to the next, so that no line is left out."""
        return max(1, LINE // self.address.stride(self.variable))


def panels_ahead(placement: Placement, schedule: Schedule) -> dict[Operation, NextPanel]:
    """The next panels of large operands, for a product whose strips read them panel by panel."""
    if schedule.lanes is None or schedule.strips is None or len(placement.reductions) != 1:
        return {}
    (reduction,) = placement.reductions.values()
    loops = [level.variable for level in placement.levels if level.variable != schedule.lanes[0]]
    found: dict[Operation, NextPanel] = {}
    for op in reduction.levels[-1].ops if reduction.levels else ():
        if isinstance(op, LoadOp) and not op.positions and array_bytes(op.node) >= FAR:
            address = placement.addresses[op]
            panel = next((loop for loop in reversed(loops) if address.stride(loop)), None)
            if panel not in (None, schedule.strips[0]) and is_panel(address, reduction, schedule.lanes):
                next_panel = address.after(-address.stride(panel))
                part = part_of_panel(next_panel, element_bytes(op.node), reduction, schedule)
                found[op] = NextPanel(part, reduction.levels[-1].variable)
    return found


def is_panel(address: Address, reduction: Reduction, lanes: tuple[str, int]) -> bool:
    """Whether the steps of a sum read neighbours, of as many elements as there are lanes."""
    variable, step = lanes
    for level in reversed(reduction.levels):
        if address.stride(level.variable) != step:
            return False
        step *= level.size
    return address.stride(variable) == 1


def part_of_panel(panel: Address, bytes: int, reduction: Reduction, schedule: Schedule) -> Address:
    """The byte of a panel that a step prefetches: steps move by so little that the tiles of a strip, one
    after the other, fetch all of it.
    """
    assert schedule.lanes is not None
    assert schedule.strips is not None
    (lanes, width), (strip, size) = schedule.lanes, schedule.strips
    summed = {level.variable: level.size for level in reduction.levels}
    step = -(-width * bytes // -(-size // schedule.tile(strip)))
    terms = [(name, stride * bytes) for name, stride in panel.terms if name not in {lanes, *summed}]
    of_tile = step * math.prod(summed.values()) // schedule.tile(strip)
    terms += [(strip, of_tile), (strip_start(strip), -of_tile)]
    for name in reversed(summed):
        terms.append((name, step))
        step *= summed[name]
    return Address(tuple(terms), panel.constant * bytes)
