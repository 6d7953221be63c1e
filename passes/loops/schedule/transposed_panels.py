"""Tiling of large transpositions by panels, so that each fetched cache line is used as a whole."""

from __future__ import annotations

from dataclasses import replace

from ocannl.dialects.loops import LoadOp, NestOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.loops.values import address_of
from ocannl.passes.analysis.costs.footprints import NestFootprint
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.pack import split

# How many tiles are beside each other in a panel.
TILES = 2


def in_panels(nest: NestOp, schedule: Schedule, target: TargetDescription) -> Schedule:
    """Tiles the variable along which a nest reads, if it transposes more than the caches hold; returns its
    new schedule.

    The tiles of a panel run one after the other, so that they read all of the lines that the processor
    prefetches.
    """
    variable = crossed_variable(nest, schedule)
    if variable is None or sum(NestFootprint.of(nest).reach.values()) <= target.lasting_bytes:
        return schedule
    width = TILES * schedule.tile(variable)
    size = dict(nest.space.data)[variable]
    if size <= width or size % width:
        return schedule
    _, schedule = split(nest, schedule, variable, width)
    return replace(schedule, order=(*(name for name in schedule.order if name != variable), variable))


def crossed_variable(nest: NestOp, schedule: Schedule) -> str | None:
    """The variable of a square tile along which a nest reads, if the innermost loop is the other one; else
    None.
    """
    if schedule.rows is None or schedule.lanes is None or schedule.rows[1] != schedule.lanes[1]:
        return None
    sizes, last = dict(nest.space.data), schedule.order[-1]
    for variable, _ in (schedule.rows, schedule.lanes):
        loads = [op for op in nest.body.block.ops if isinstance(op, LoadOp)]
        if (
            variable != last
            and variable in sizes
            and any(address_of(op).stride(variable) == 1 for op in loads)
        ):
            return variable
    return None
