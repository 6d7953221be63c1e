"""The choice of parallel loops of a nest or a group, and of the blocks in which threads take them."""

from __future__ import annotations

from collections.abc import Iterable

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.passes.analysis.schedules.nest_facts import nest_facts
from ocannl.passes.analysis.targets.target import TargetDescription

# Less work is done before other threads could help, or before a task of its own would pay.
SHARED_CYCLES, TASK_CYCLES = 2.0**15, 2.0**12
# Several tasks for every core even out their differences. The rows of a matrix that a product with a vector
# reads once are long streams where there are fewer.
TASKS_PER_CORE, STREAMS_PER_CORE = 4, 1
# A reduction that every task computes anew costs this part of the nest at most.
REPEATED = 0.01


def parallel_nest(
    nest: NestOp, schedule: Schedule, cycles: float, target: TargetDescription
) -> tuple[tuple[str, int], ...]:
    """The `parallel` blocks for a nest that is about to get a schedule, and takes so many cycles."""
    if isinstance(nest.parent_op(), GroupOp) or not is_shared(cycles, target):
        return ()
    facts = nest_facts(nest, schedule.merged)
    heavy = [s for s in facts.walk() if s is not facts and s.points * max(1, s.work) > REPEATED * cycles]
    clashing = nest.clashing
    strips = dict([schedule.strips] if schedule.strips else [])
    loops = [
        (loop, facts.space[loop], strips.get(loop) or schedule.tile(loop))
        for loop in dict.fromkeys([*strips, *schedule.order])
        if clashing.isdisjoint(loop.split("*")) and all(loop in scope.varies for scope in heavy)
    ]
    is_stream = (
        schedule.rows is not None and schedule.lanes is not None and (schedule.lanes[0] not in schedule.order)
    )
    return blocks(loops, cycles, target, STREAMS_PER_CORE if is_stream else TASKS_PER_CORE)


def parallel_group(group: GroupOp, cycles: float, target: TargetDescription) -> tuple[tuple[str, int], ...]:
    """The `parallel` blocks for a group whose nests take so many cycles together."""
    if not is_shared(cycles, target):
        return ()
    clashing = group.clashing
    return blocks(
        ((name, size, 1) for name, size in group.space.data if name not in clashing), cycles, target
    )


def is_shared(cycles: float, target: TargetDescription) -> bool:
    return target.cores > 1 and cycles >= SHARED_CYCLES


def blocks(
    loops: Iterable[tuple[str, int, int]],
    cycles: float,
    target: TargetDescription,
    each: int = TASKS_PER_CORE,
) -> tuple[tuple[str, int], ...]:
    """Blocks of loops, which are given by variable, size and tile from the outside in, until there are tasks
    enough, `each` for a core.
    """
    tasks = min(each * target.cores, int(cycles / TASK_CYCLES))
    found: list[tuple[str, int]] = []
    for name, size, tile in loops:
        tiles = size // tile
        block = -(-tiles // tasks)
        if tiles > block:
            found.append((name, block * tile))
            tasks //= -(-tiles // block)
        if tasks < 2:
            break
    return tuple(found)
