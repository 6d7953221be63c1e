"""Why a nest has its register tile: the candidates, with their estimated costs, and measured ones if any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.loops import NestOp
from ocannl.dialects.loops.schedule import Schedule, schedule_text
from ocannl.lowering.pipelines import PIPELINES, for_target, run_passes
from ocannl.passes.analysis.canonical_text import canonical_text
from ocannl.passes.analysis.nests import functions, nests
from ocannl.passes.analysis.schedule_candidates import Chooser
from ocannl.passes.analysis.target import TargetDescription
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.passes.loops.unfold_layers import UnfoldLayersPass
from ocannl.program.reasons import Line
from ocannl.runtime.cache.tunings import Tunings

TARGET = "cpu"
# The candidates that are listed, the cheapest first.
MOST = 5


def nests_before_schedule(module: ModuleOp, target: TargetDescription) -> list[NestOp]:
    """The nests of a program, taken in place, as they are when their schedules are chosen."""
    passes = PIPELINES[TARGET][: PIPELINES[TARGET].index(SchedulePass)]
    run_passes(module, [*for_target(passes, target), UnfoldLayersPass])
    return [nest for func in functions(module) for nest in nests(func)]


def tile_lines(
    nest: NestOp, taken: Schedule | None, target: TargetDescription, tunings: Tunings | None
) -> Iterator[Line]:
    """The candidates for the tile of a nest without a schedule, and the one that was taken first."""
    chooser = Chooser.of(nest, target)
    if chooser is None:
        return
    tiles: dict[str, float] = {}
    for tile in chooser.candidates():
        tiles.setdefault(_tile(tile), chooser.cost(tile)[0])
    measured = _measured(nest, min(tiles, key=tiles.__getitem__), tunings)
    own = None if taken is None else _tile(taken)
    cheapest = sorted(tiles, key=lambda name: (name != own, tiles[name]))
    place = location_text(nest)
    for name in cheapest[:MOST]:
        cost = f"about {tiles[name]:,.0f} cycles"
        if name in measured:
            cost += f", measured {measured[name]:.2f} times the fastest"
        yield Line(place, f"{'its tile' if name == own else 'another tile'}, {name}: {cost}")


def _measured(nest: NestOp, modelled: str, tunings: Tunings | None) -> Mapping[str, float]:
    """Times that `oc.tune` has measured of tiles of a nest that stands alone, relative to the fastest. A
    choice that is left to the cost model is the modelled one.
    """
    if tunings is None:
        return {}
    found = tunings.measured(canonical_text(nest))
    ticks: dict[str, float] = {}
    for (choice,), count in [(choices, count) for choices, count in found.items() if len(choices) == 1]:
        name = modelled if choice is None else _tile(choice.schedule)
        ticks[name] = min(count, ticks.get(name, count))
    return {name: count / min(ticks.values()) for name, count in ticks.items()}


def _tile(schedule: Schedule) -> str:
    """The register tile of a schedule as text."""
    if not schedule.tiles:
        return "one point"
    return schedule_text(Schedule(rows=schedule.rows, lanes=schedule.lanes)).strip("<>")
