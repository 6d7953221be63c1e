"""Strip mining for the second-level cache: a product of large matrices reads all panels of one operand for
one strip of rows of the other after the other (Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", 2008), and a copy into panels reads some of them row by row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.loops import LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.passes.analysis.nests import names_in, variable_sizes
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.blocked_reductions import loads_in, sum_of_products

# The part of the second-level cache that rows, and the results of a panel, may fill without strips.
FITS = 4 / 5
# A strip has this part of the second-level cache, where results and panels go through, or so many tiles of
# rows that panels are not read too often, as long as these have another part of it at most.
PART, ROOM = 1 / 4, ((8, 1 / 2), (4, 3 / 4))
# The panels that a copy writes at a time.
PANELS = 8
# The rows of a matrix of which a transposing copy reads a few columns after the other, whose lines and pages
# stay near.
TRANSPOSED_ROWS = 256


def in_strips(nest: NestOp, schedule: Schedule, target: TargetDescription) -> Schedule | None:
    """The schedule of a product of matrices with strips of rows, if the second-level cache does not hold all
    rows; None where it does, or where that would read more from beyond it.
    """
    found, loops = sum_of_products(nest), loops_of_tiles(nest, schedule)
    if found is None or schedule.lanes is None or len(loops) != 2 or schedule.lanes[0] == loops[-1]:
        return None
    panel, rows = loops
    panels = [op for op in loads_in(found) if panel in names_in(op.indices.data)]
    others = [op for op in loads_in(found) if not names_in(op.indices.data).isdisjoint(rows.split("*"))]
    if len(panels) != 1 or len(others) != 1 or panels == others:
        return None
    sizes = variable_sizes(nest) | schedule.loops(nest.space.data)
    of_panels, of_rows = (touched(op, sizes) for op in (panels[0], others[0]))
    size = strip(sizes[rows], schedule.tile(rows), of_rows, target)
    count = math.ceil(sizes[panel] / schedule.tile(panel))
    near = of_rows + touched_after(nest, sizes | {panel: schedule.tile(panel)})
    if size is None or near <= FITS * target.l2_bytes or of_panels > target.last_level_bytes:
        return None
    # A copy in panels is written and read once more.
    times = 2 * (panel != schedule.lanes[0]) + math.ceil(sizes[rows] / size)
    return replace(schedule, strips=(rows, size)) if times * of_panels < count * of_rows else None


def loops_of_tiles(nest: NestOp, schedule: Schedule) -> list[str]:
    """The loops of a nest that run over more than one tile."""
    sizes = schedule.loops(nest.space.data)
    return [loop for loop in schedule.order if sizes[loop] > schedule.tile(loop)]


def touched(op: LoadOp | StoreOp, sizes: Mapping[str, int]) -> int:
    """The bytes that an access touches for some sizes of variables, each once."""
    return element_bytes(op.node) * math.prod(sizes.get(name, 1) for name in names_in(op.indices.data))


def touched_after(nest: NestOp, sizes: Mapping[str, int]) -> int:
    """The bytes that a nest touches outside of its sum, each once."""
    accesses = [op for op in nest.body.block.ops if isinstance(op, LoadOp | StoreOp)]
    return sum({(op.node, op.indices.data): touched(op, sizes) for op in accesses}.values())


def strip(size: int, tile: int, bytes: int, target: TargetDescription) -> int | None:
    """The points of a strip of a loop that reads so many bytes: strips are few, and as long as each other but
    for a tile. None if there is no room for some tiles.
    """
    of_tile, tiles = bytes * tile / size, math.ceil(size / tile)
    enough = next((count for count, part in ROOM if count * of_tile <= part * target.l2_bytes), 0)
    most = max(int(PART * target.l2_bytes / of_tile), enough)
    return math.ceil(tiles / math.ceil(tiles / most)) * tile if most >= ROOM[-1][0] else None


def copied_in_strips(nest: NestOp, schedule: Schedule, target: TargetDescription) -> Schedule:
    """The schedule of a copy of large matrices into panels: where rows of the matrix lie along neighbouring
    panels, some of these are written at a time, so that more than a few elements of a row are read at once.
    """
    accesses = [op for op in nest.body.block.ops if isinstance(op, LoadOp | StoreOp)]
    sizes, (rows, height) = dict(nest.space.data), schedule.rows or ("", 1)
    if schedule.lanes is None or sizes.get(rows, 1) != height or len(accesses) != 2 or nest.clashing:
        return schedule
    (source, copy), (lanes, width) = map(address_of, accesses), schedule.lanes
    panel = next((loop for loop in loops_of_tiles(nest, schedule) if source.stride(loop) == width), None)
    # What stands in rows beside each other, as pairs do, is interleaved in the copy.
    is_row = sizes.get(lanes) == width and source.stride(lanes) == 1 and copy.stride(lanes) == height
    if panel is None or not is_row or touched(accesses[0], sizes) <= target.l2_bytes // 2:
        return schedule
    order = tuple(loop for loop in schedule.order if loop not in (panel, lanes))
    strips = (panel, PANELS) if sizes[panel] > PANELS else None
    return replace(schedule, order=(*order, panel, lanes), strips=strips)


def transposed_in_strips(nest: NestOp, schedule: Schedule, target: TargetDescription) -> Schedule:
    """The schedule of a copy of a large matrix that transposes squares: it goes through the columns of one
    strip of rows after the other, so that a line that several squares read comes once, and few pages are read
    at a time.
    """
    accesses = [op for op in nest.body.block.ops if isinstance(op, LoadOp | StoreOp)]
    if schedule.rows is None or schedule.lanes is None or schedule.strips is not None or nest.clashing:
        return schedule
    if len(accesses) != 2 or any(op.regions for op in nest.body.block.ops):
        return schedule
    (source, copy), columns, rows = map(address_of, accesses), schedule.rows[0], schedule.lanes[0]
    innermost = rows.rpartition("*")[2]
    is_transposed = source.stride(columns.rpartition("*")[2]) == 1 == copy.stride(innermost)
    if not is_transposed or touched(accesses[0], dict(nest.space.data)) <= target.l2_bytes:
        return schedule
    sizes = schedule.loops(nest.space.data)
    loop, *inside = schedule.order[schedule.order.index(columns) + 1 :] or [rows]
    size = max(TRANSPOSED_ROWS // math.prod(sizes[name] for name in inside), schedule.tile(loop))
    return replace(schedule, strips=(loop, size)) if size < sizes[loop] else schedule
