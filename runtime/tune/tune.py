"""The tuning of a routine's schedules: trial runs, in which the time of each nest is measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.lowering.entry import EntryLayout, entry_layout
from ocannl.lowering.pipelines import PIPELINES, for_target, run_passes
from ocannl.passes.analysis.equality.canonical_text import canonical_text
from ocannl.passes.analysis.nests import Opaque, all_steps, functions, nests_of, steps
from ocannl.passes.analysis.schedules.schedule_alternatives import alternatives
from ocannl.passes.analysis.schedules.schedule_candidates import Choices, FindChoices
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.cpu.profile import Clocked
from ocannl.runtime.interface import the_func
from ocannl.runtime.memory import ArgBlock
from ocannl.runtime.tune.search import search

# Nests and groups that take less than this part of the time stay as they are.
NOTABLE = 0.01
# A sample lasts so long at least, and there are so many of each trial; fewer if they take too long together.
SAMPLE_SECONDS, MOST_SAMPLES, LEAST_SAMPLES, ROUND_SECONDS = 2e-4, 15, 5, 0.5


class Tuner:
    """The search for one routine.

    Args:
        module: the routine as it is before `schedule`.
        pipeline: the name of the passes.
        target: the processor.
        find: the tuned schedules of a nest or group from before, at which the search begins.
        bind: arguments for code with slots as given.
        restore: gives the nodes that runs have written their values from before.
    """

    def __init__(
        self,
        module: ModuleOp,
        pipeline: str,
        target: TargetDescription,
        find: FindChoices,
        bind: Callable[[EntryLayout], ArgBlock],
        restore: Callable[[], None],
    ) -> None:
        self.module = module
        self.target = target
        passes = PIPELINES[pipeline]
        self.passes = passes[passes.index(SchedulePass) :]
        self.bind = bind
        self.restore = restore
        found = steps_of(module)
        self.texts = [canonical_text(step) for step in found]
        self.steps = dict(zip(self.texts, found, strict=True))
        self.start: dict[str, Choices] = {
            text: find(text) or (None,) * len(nests_of(step)) for text, step in self.steps.items()
        }
        self.round_seconds = 0.0
        self.measured: dict[str, dict[Choices, float]] = {}
        """The median of the clock ticks of each choice that was run, by the text of a nest or group."""

    def tune(self, seconds: float) -> dict[str, Choices]:
        """The schedules that are faster than those at the start, by the text of a nest or group."""
        self.end = time.perf_counter() + seconds
        (times,) = self.measure([{}])
        least = NOTABLE * sum(sum(found) for found in times.values())
        notable = {text: self.start[text] for text, found in times.items() if sum(found) >= least}
        best = search(notable, self.others, self.measure, self.has_time)
        return {text: choices for text, choices in best.items() if choices != notable[text]}

    def has_time(self) -> bool:
        """Whether half of the time of the last round is left."""
        return time.perf_counter() + self.round_seconds / 2 < self.end

    def others(self, text: str, choices: Choices) -> Iterable[Choices]:
        """The alternatives to the schedules of a nest or group, the most promising first."""
        return alternatives(self.steps[text], choices, self.target)

    def measure(self, trials: list[dict[str, Choices]]) -> list[dict[str, list[float]]]:
        """For each trial that there is time for, samples of the clock ticks of each nest or group."""
        begin = time.perf_counter()
        variants: list[Variant] = []
        for trial in trials:
            if len(variants) < 2 or time.perf_counter() < self.end:
                variants.append(Variant(self, trial))
        start = time.perf_counter()
        for variant in variants:
            variant.sample(1)
        once = (time.perf_counter() - start) / len(variants)
        runs = max(1, int(SAMPLE_SECONDS / once))
        samples = int(ROUND_SECONDS / (once * runs * len(variants)))
        for _ in range(min(MOST_SAMPLES, max(LEAST_SAMPLES, samples))):
            self.restore()
            for variant in variants:
                variant.keep_sample(runs)
        self.round_seconds = time.perf_counter() - begin
        for trial, variant in zip(trials, variants, strict=False):
            for text, choices in trial.items():
                self.measured.setdefault(text, {})[choices] = statistics.median(variant.times[text])
        return [variant.times for variant in variants]


def steps_of(module: ModuleOp) -> list[NestOp | GroupOp]:
    """The nests and groups of a routine and of the bodies that it repeats."""
    return [step for func in functions(module) for step in steps(func)]


class Variant:
    """The routine compiled with some schedules in place of those at the start, with a clock at each nest."""

    def __init__(self, tuner: Tuner, choices: Mapping[str, Choices]) -> None:
        module = tuner.module.clone()
        func = the_func(module)
        original = dict(zip(steps_of(module), tuner.texts, strict=True))
        run_passes(module, for_target(tuner.passes, tuner.target, (tuner.start | dict(choices)).get))
        self.owners: list[str | None] = []
        copies = 0
        for step in (step for each in functions(module) for step in all_steps(each)):
            if isinstance(step, Opaque):
                self.owners.append(None)
                continue
            copies += 1
            known = [original[own] for own in (step, *nests_of(step)) if own in original]
            if known:
                self.owners += known[:1] * copies
                copies = 0
        self.clocked = Clocked(module, tuner.bind(entry_layout(func)), tuner.target)
        self.times: dict[str, list[float]] = {text: [] for text in tuner.texts}

    def sample(self, runs: int) -> dict[str, float]:
        """The ticks of each nest or group with the copies that are made for it, equal ones together."""
        total = dict.fromkeys(self.times, 0.0)
        for text, ticks in zip(self.owners, self.clocked.run(runs), strict=True):
            if text is not None:
                total[text] += float(ticks)
        return total

    def keep_sample(self, runs: int) -> None:
        """Adds a sample to the times."""
        for text, ticks in self.sample(runs).items():
            self.times[text].append(ticks)
