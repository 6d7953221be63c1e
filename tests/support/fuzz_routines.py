"""Runs random routines with each load and store checked to be inside of its array.

    python -m support.fuzz_routines 100000 --seed 1      # in tests/

A routine has expressions, products, gathers, parts, updates of memory by static indices, and gradients; it is
called and looped over. Some have `Features`, too, and some scans and parameters that are trained from run to
run. An access outside of an array raises `oc.DeviceError`; ids that are not positions are told, and go on.
All values are compared with NumPy's. Several are compiled together, for one of several processors: where
something fails, each is run alone. `fuzz_steadily` runs programs of `random_systems` beside them.

Most are compiled without LLVM's optimisations, in a third of the time: the checks are in what LLVM is given.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np

import ocannl as oc
from ocannl.runtime.cpu import native
from ocannl.runtime.host.jit import compile_llvm

from . import random_systems
from .random_arithmetic import features as arithmetic
from .random_checkpoints import checkpoints
from .random_features import Feature, Features
from .random_routines import COUNT, Derivative, Known, Routine
from .random_updates import updates

# The processors that code is for: what a machine lacks is not run there.
TARGETS = (None, None, "x86-64-v3", "x86-64-v2")
FEATURES, ARITHMETIC, CHECKPOINTS = 0.3, 0.3, 0.1
"""The shares of routines with a feature, with one of arithmetic, and with a second derivative or dropout."""
UPDATES, EPOCHS = 0.15, 2
"""The share of routines with memory that each run goes on with, and the runs through all slices."""
SYSTEMS = 0.01
"""The share of programs that run alone."""
UNCHECKED = 0.1
LEVELS = (*(0,) * 9, 2)
"""The levels of LLVM's optimisation; 2 is what users have."""


@contextmanager
def compiled_by_chance(chance: np.random.Generator) -> Generator[bool]:
    """How routines are compiled here; gives whether each load and store is checked."""
    # Checked code adds up products in plain loops, so some routines are not checked.
    is_checked = chance.random() >= UNCHECKED
    level = int(chance.choice(LEVELS))
    with (
        patch.dict(os.environ, {"OCANNL_CHECK": str(int(is_checked))}),
        patch.object(native, "compile_llvm", partial(compile_llvm, opt_level=level)),
    ):
        yield is_checked


def run_together(seeds: Sequence[tuple[int, int]]) -> Counter[str]:
    """Runs routines together; counts them, those that were checked, and whether they told of ids outside.
    Raises what else is raised.
    """
    chance = np.random.default_rng(seeds[0])
    target = TARGETS[chance.integers(len(TARGETS))]
    with compiled_by_chance(chance) as is_checked:
        threads, winograd = int(chance.integers(1, 3)), bool(chance.random() < 0.7)
        ctx = oc.Context.cpu(threads=threads, target=target, winograd=winograd)
        tells = tells_of_ids(ctx, seeds)
    return Counter({"routines": len(seeds), "checked": is_checked * len(seeds), "told of ids": int(tells)})


def tells_of_ids(ctx: oc.Context, seeds: Sequence[tuple[int, int]]) -> bool:
    """Runs routines together; whether they told of ids outside. Raises what else is raised."""
    i, features, known = oc.index("i", COUNT), list[Feature](), list[Known]()
    derivatives, trained = list[Derivative](), list[Feature]()
    try:
        with oc.code("random") as code:
            for seed in seeds:
                own = np.random.default_rng(seed)
                routine = Routine(own)
                known += routine.statements(i)
                derivatives += routine.derivatives
                features += Features(own).some(int(own.random() < FEATURES))
                features += arithmetic(own) if own.random() < ARITHMETIC else []
                features += checkpoints(own) if own.random() < CHECKPOINTS else []
                trained += updates(own, 1 + EPOCHS * COUNT) if own.random() < UPDATES else []
            for feature in features:
                oc.run(oc.forward(feature.value))
        step = ctx.compile(code)
        ctx.init_params(code)
        step(i=0)
        step.run_loop(epochs=EPOCHS)
    except oc.OcannlError as error:
        if "is outside of 0 to" not in str(error):
            raise
        told = True
    else:
        told = False
    for feature in features if told else features + trained:
        feature.check(ctx[feature.value])
    # The run that tells of ids is the last one.
    for one in known[1::2] if told else known:
        one.check(ctx[one.tensor])
    for derivative in () if told else derivatives:
        derivative.check(ctx)
    return told


TOGETHER = 24
"""Eight a time would take a fifth longer."""


def run_cases(numbers: Sequence[int]) -> dict[str, int]:
    """Runs routines together, and those programs that run alone; counts these by what they are."""
    counts = Counter[str]()
    alone = {number: np.random.default_rng((1, number)) for number in numbers}
    together = [(0, number) for number in numbers if alone[number].random() >= SYSTEMS]
    if together:
        counts += run_together(together)
    for number in numbers:
        if (0, number) not in together:
            counts[random_systems.run(alone[number])] += 1
    return counts


def fuzz(count: int, seed: int, together: int = TOGETHER) -> int:
    """Runs so many routines, some in one; returns how often ids outside were told. What else they raise notes
    the seeds.
    """
    told = 0
    for first in range(0, count, together):
        seeds = [(seed, number) for number in range(first, min(first + together, count))]
        try:
            told += run_together(seeds)["told of ids"]
        # Whatever it is, its seeds are noted, as few as do it.
        except Exception as error:
            for one in seeds if len(seeds) > 1 else ():
                try:
                    run_together([one])
                except Exception as alone:
                    alone.add_note(f"the seed is {one}")
                    raise
            error.add_note(f"the seeds are {seeds}")
            raise
        done = seeds[-1][1] + 1
        if done % 1000 < together:
            print(f"{done} routines, told of ids {told} times", flush=True)
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fuzz(options.count, options.seed)
