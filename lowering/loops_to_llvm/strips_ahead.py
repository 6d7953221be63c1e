"""Prefetches of the rows of the next strip of a product, a part of them in each tile of the strip before.

The first panel of a strip waits for its rows, which come from beyond the caches; where panels are few, that
is much of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.lowering.loops_to_llvm.panels_ahead import NextPanel
from ocannl.lowering.loops_to_llvm.rows_ahead import array_bytes
from ocannl.lowering.loops_to_llvm.tile import strip_start
from ocannl.lowering.placement import Level, Placement

# An operand of fewer bytes is near enough. With more panels, rows are waited for seldom.
FAR, FEW_PANELS = 2**22, 8


def has_strips(placement: Placement, schedule: Schedule) -> bool:
    """Whether a loop of a nest is cut into strips: one that is shorter than a tile is a remainder alone."""
    if schedule.strips is None:
        return False
    loop = schedule.strips[0]
    return any(level.variable == loop and level.size >= schedule.tile(loop) for level in placement.levels)


def strips_ahead(placement: Placement, schedule: Schedule) -> dict[Operation, NextPanel]:
    """The parts of the next strip of large operands whose rows lie one after the other that steps prefetch,
    for a product of few panels, whose sum is one loop.
    """
    if schedule.strips is None or len(placement.reductions) != 1:
        return {}
    (reduction,), rows, own = placement.reductions.values(), schedule.strips[0], placement.levels
    panels = math.prod(
        -(-level.size // schedule.tile(level.variable)) for level in own if level.variable != rows
    )
    if len(reduction.levels) != 1 or own[-1].variable != rows or panels > FEW_PANELS:
        return {}
    (level,), found = reduction.levels, dict[Operation, NextPanel]()
    for op in level.ops:
        if isinstance(op, LoadOp) and not op.positions and array_bytes(op.node) >= FAR:
            address = placement.addresses[op]
            if address.stride(level.variable) == 1 and address.stride(rows) == level.size:
                part = part_of_strip(address, element_bytes(op.node), level, own, schedule)
                found[op] = NextPanel(part, level.variable)
    return found


def part_of_strip(
    address: Address, bytes: int, summed: Level, own: Sequence[Level], schedule: Schedule
) -> Address:
    """The byte of the next strip that a step of a sum prefetches: as many bytes lie between two steps as the
    tiles of all panels, one after the other, need to fetch all of it.
    """
    assert schedule.strips is not None
    rows, size = schedule.strips
    tile = schedule.tile(rows)
    panels = {level.variable: -(-level.size // schedule.tile(level.variable)) for level in own[:-1]}
    step = -(-tile * bytes // math.prod(panels.values()))
    of_row = -(-step * summed.size // tile)
    terms = [(summed.variable, step), (rows, of_row), (strip_start(rows), summed.size * bytes - of_row)]
    of_panel = of_row * size
    for variable in reversed(panels):
        terms.append((variable, of_panel // schedule.tile(variable)))
        of_panel *= panels[variable]
    return Address(tuple(terms), (address.constant + size * summed.size) * bytes)
