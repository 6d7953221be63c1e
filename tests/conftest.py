"""Assertions of helpers say what they compare, as those of tests do; no example fails by its time; all tests
together run on all cores.
"""

import gc
import os
from collections import defaultdict
from collections.abc import Generator
from itertools import count
from math import gcd

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("support")
MOST_YOUNG = 1_000_000
# Threads that wait for others sleep, and NumPy's products have none.
BESIDE_OTHERS = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
CHECKS = [HealthCheck.too_slow]
settings.register_profile("sampled", max_examples=12, deadline=None, suppress_health_check=CHECKS)
settings.register_profile("exhaustive", deadline=None, suppress_health_check=CHECKS)
settings.load_profile("sampled")


def pytest_configure(config: pytest.Config) -> None:
    """Properties have more examples where all tests run. Processes beside others leave them their cores."""
    if config.option.markexpr != "not exhaustive":
        settings.load_profile("exhaustive")
    if hasattr(config, "workerinput"):
        for name, value in BESIDE_OTHERS.items():
            os.environ.setdefault(name, value)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Where no files are named, and no number of processes (`-n`), each core has one."""
    options, is_worker = config.option, hasattr(config, "workerinput")
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not is_worker
    if is_whole and config.pluginmanager.hasplugin("xdist") and options.numprocesses is None:
        options.numprocesses, options.dist = "auto", "worksteal"


def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[pytest.Item] | None:
    """No items are made of the many cases of a test that all are exhaustive, where none of these run."""
    is_test = name.lower().startswith("test")  # Others may answer to any name, as tinygrad's tensors here do.
    if not is_test or collector.config.option.markexpr != "not exhaustive":
        return None
    marks: list[pytest.Mark] = getattr(obj, "pytestmark", [])
    return [] if any(mark.name == "exhaustive" for mark in marks) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without garbage collections, and later ones pass over what is there then: what is collected stays.
    They come seldom, as `runtime/collector.py` has it where nobody has frozen objects.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(MOST_YOUNG, 2, 2)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Later garbage collections pass over what the tests of a file have left, too."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test comes first, lest a process is left alone with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)
    leave_out_samples(items)


def leave_out_samples(items: list[pytest.Item]) -> None:
    """Of each test with the mark `sampled(n)` all cases but each n-th are marked exhaustive. n grows until it
    has no divisor in common with the number of cases: the values of each parameter then take turns.
    """
    cases = defaultdict[str, list[tuple[pytest.Item, int]]](list)
    for item in items:
        if sampled := item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append((item, sampled.args[0]))
    for found in cases.values():
        step = next(step for step in count(found[0][1]) if gcd(step, len(found)) == 1)
        for place, (item, _) in enumerate(found):
            if place % step:
                item.add_marker("exhaustive")
