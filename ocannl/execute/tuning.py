"""Tuning: the search for schedules that run faster than those of the cost model."""

from __future__ import annotations

import math
import time

from ocannl.dialects.ir.errors import DeviceError
from ocannl.execute.meshes import refuse_mesh
from ocannl.execute.routine import Routine
from ocannl.lowering.pipelines import PIPELINES, for_target, run_passes
from ocannl.passes.analysis.schedules.schedule_candidates import no_choices
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.passes.loops.unfold_layers import UnfoldLayersPass
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.module.extract import extract
from ocannl.runtime.cache.object_cache import environment_cache
from ocannl.runtime.cache.tunings import keep_tunings, tuned_target, with_tunings
from ocannl.runtime.tune.search import fastest
from ocannl.runtime.tune.tune import Tuner

TARGET = "cpu"
# The part of the time in which the whole routines are compared, how many samples that has at least and at
# most, how long one of them lasts at least, and the least gain.
COMPARISON, FEWEST, MOST, SAMPLE_SECONDS, GAIN = 0.15, 7, 51, 1e-3, 0.01


def tune(step: Routine, seconds: float = 10.0) -> Routine:
    """Searches for faster schedules of the nests that take most of a routine's time, for about `seconds`.
    Returns the routine compiled with these, or `step` itself if that is not faster.

    It runs the routine with the values that its nodes and indices have now. All nodes keep their values. Sums
    may be added up in another order than before, so results may differ by rounding. The schedules are kept in
    the cache on disk, for later compilations of equal nests. Raises `ArgumentError` for a wrong argument,
    `DeviceError` for a routine that is not of the CPU, and the errors of a run.
    """
    if not isinstance(step, Routine):
        raise ArgumentError(f"oc.tune takes a compiled routine, found {step!r}")
    if not 0 < float(seconds) < math.inf:
        raise ArgumentError(f"the seconds of tuning are a positive number, found {seconds!r}")
    if step.context.target != TARGET:
        raise DeviceError(f"schedules are tuned for the CPU; this routine runs on {step.context.backend!r}")
    refuse_mesh(step.context.device, "schedules are tuned")
    base = step.context.compile(step.code, step.name, step.tunings)
    base.take_indices(step)
    end = time.perf_counter() + seconds
    module = extract(step.code.statements, step.name, step.context.numbering.copy()).module
    target = step.context.device.target
    passes = for_target(PIPELINES[TARGET][: PIPELINES[TARGET].index(SchedulePass)], target)
    # The nests of all layers count.
    run_passes(module, [*passes, UnfoldLayersPass])
    find = no_choices if step.tunings is None else step.tunings.find
    with base.unchanged() as restore:
        tuner = Tuner(module, TARGET, target, find, base.bind, restore)
        found = tuner.tune(seconds * (1 - COMPARISON))
    if not found:
        return step
    tuned = step.context.compile(step.code, step.name, with_tunings(step.tunings, found, tuner.measured))
    tuned.take_indices(step)
    if not is_faster(tuned, step, end):
        return step
    if (store := environment_cache()) is not None:
        keep_tunings(store, tuned_target(TARGET, target), found, tuner.measured)
    return tuned


def is_faster(tuned: Routine, step: Routine, end: float) -> bool:
    """Whether `tuned` is faster than `step`, by alternating runs until `end`; nodes keep their values."""
    times: list[list[float]] = [[], []]
    with tuned.unchanged(), step.unchanged() as restore:
        tuned()
        runs = max(1, math.ceil(SAMPLE_SECONDS / timed(step, 1)))
        while len(times[0]) < FEWEST or (len(times[0]) < MOST and time.perf_counter() < end):
            restore()
            for routine, found in zip((step, tuned), times, strict=True):
                found.append(timed(routine, runs))
    return fastest(times, GAIN) == 1


def timed(routine: Routine, runs: int) -> float:
    """The seconds that some runs take."""
    start = time.perf_counter()
    for _ in range(runs):
        routine()
    return time.perf_counter() - start
