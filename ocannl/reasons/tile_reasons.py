"""Why a nest has its register tile: the candidates, with their estimated costs, and measured ones if any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.loops import FuncOp, NestOp
from ocannl.dialects.loops.schedule import Schedule, schedule_text
from ocannl.lowering.pipelines import PIPELINES, for_target, run_passes
from ocannl.passes.analysis.equality.canonical_text import canonical_text
from ocannl.passes.analysis.nests import functions, nests
from ocannl.passes.analysis.schedules.schedule_candidates import Chooser
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.passes.loops.unfold_layers import UnfoldLayersPass
from ocannl.program.why.reasons import Line
from ocannl.runtime.cache.tunings import Tunings

TARGET = "cpu"
# The candidates that are listed, the cheapest first.
MOST = 5


def nests_before_schedule(module: ModuleOp, target: TargetDescription) -> list[NestOp]:
    """The nests of a program, taken in place, as they are when their schedules are chosen: those of the
    bodies of its loops first.
    """
    passes = PIPELINES[TARGET][: PIPELINES[TARGET].index(SchedulePass)]
    run_passes(module, [*for_target(passes, target), UnfoldLayersPass])
    return [nest for func in functions(module) for nest in nests(func)]


def key_of(nest: NestOp) -> tuple[str, str]:
    """The names of a nest and of its function, which no pass changes from scheduling on."""
    func = nest.parent_op()
    while func is not None and not isinstance(func, FuncOp):
        func = func.parent_op()
    assert func is not None
    return func.sym_name.data, nest.label.data


@dataclass(frozen=True)
class Tile:
    """A register tile that a nest could have: the cycles that the cost model expects, and where it was
    measured its time, relative to the fastest.
    """

    name: str
    cycles: float
    times: float | None

    def text(self, is_taken: bool) -> str:
        measured = "" if self.times is None else f", measured {self.times:.2f} times the fastest"
        which = "its tile" if is_taken else "another tile"
        return f"{which}, {self.name}: about {self.cycles:,.0f} cycles{measured}"


def candidates(nest: NestOp, target: TargetDescription, tunings: Tunings | None) -> list[Tile]:
    """The tiles that a nest without a schedule could have, the cheapest first."""
    chooser = Chooser.of(nest, target)
    if chooser is None:
        return []
    cycles: dict[str, float] = {}
    for schedule in chooser.candidates():
        cycles.setdefault(tile_name(schedule), chooser.cost(schedule)[0])
    measured = _measured(nest, min(cycles, key=cycles.__getitem__), tunings)
    found = [Tile(name, cost, measured.get(name)) for name, cost in cycles.items()]
    return sorted(found, key=lambda tile: tile.cycles)


def ranked(tiles: Sequence[Tile], taken: str) -> list[Tile]:
    """The tile that was taken, if it is among them, and the cheapest others."""
    return sorted(tiles, key=lambda tile: tile.name != taken)[:MOST]


def tile_lines(
    nest: NestOp, taken: Schedule | None, target: TargetDescription, tunings: Tunings | None
) -> Iterator[Line]:
    """The candidates for the tile of a nest without a schedule, and the one that was taken first. A nest that
    got none has its loops as written.
    """
    place, own = location_text(nest), tile_name(taken)
    for tile in ranked(candidates(nest, target, tunings), own):
        yield Line(place, tile.text(tile.name == own))


def _measured(nest: NestOp, modelled: str, tunings: Tunings | None) -> Mapping[str, float]:
    """Times that `oc.tune` has measured of tiles of a nest that stands alone, relative to the fastest. A
    choice that is left to the cost model is the modelled one.
    """
    if tunings is None:
        return {}
    found = tunings.measured(canonical_text(nest))
    ticks: dict[str, float] = {}
    for (choice,), count in [(choices, count) for choices, count in found.items() if len(choices) == 1]:
        name = modelled if choice is None else tile_name(choice.schedule)
        ticks[name] = min(count, ticks.get(name, count))
    return {name: count / min(ticks.values()) for name, count in ticks.items()}


def tile_name(schedule: Schedule | None) -> str:
    """The register tile of a schedule as text."""
    if schedule is None or not schedule.tiles:
        return "one point"
    return schedule_text(Schedule(rows=schedule.rows, lanes=schedule.lanes)).strip("<>")
