"""The selection of tuning, with made-up times."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from ocannl.runtime.tune.search import MARGIN, WIDTH, fastest, search

POSITIVE = st.floats(1e-6, 1e3)
SAMPLES = st.lists(POSITIVE, min_size=1, max_size=5)
Trial = dict[str, int]


@given(st.lists(SAMPLES, min_size=1, max_size=6))
def test_what_is_chosen_is_the_first_or_faster_by_a_margin(times: list[list[float]]):
    chosen = fastest(times)
    medians = [statistics.median(found) for found in times]
    assert chosen == 0 or medians[chosen] <= medians[0] * (1 - MARGIN)
    assert medians[0] * (1 - MARGIN) <= min(medians) or medians[chosen] == min(medians)


def test_a_single_fast_sample_does_not_win():
    assert fastest([[1.0, 1.0, 1.0], [0.1, 1.2, 1.3]]) == 0
    assert fastest([[1.0, 1.0, 1.0], [0.9, 0.9, 1.3]]) == 1


def all_options(key: str, option: int) -> Iterator[int]:
    yield from range(10)


COSTS = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.sampled_from((1.0, 2.0, 4.0, 8.0)), min_size=10, max_size=10)
)


@given(COSTS)
def test_with_time_for_all_the_cheapest_options_are_found(costs: dict[str, list[float]]):
    def measure(trials: list[Trial]) -> list[dict[str, list[float]]]:
        assert len(trials) <= 1 + WIDTH
        return [{key: [costs[key][option]] for key, option in trial.items()} for trial in trials]

    best = search(dict.fromkeys(costs, 0), all_options, measure, lambda: True)
    assert {key: costs[key][option] for key, option in best.items()} == {k: min(c) for k, c in costs.items()}


@given(COSTS, st.integers(0, 4), st.integers(1, 4))
def test_however_little_time_there_is_nothing_becomes_slower(
    costs: dict[str, list[float]], rounds: int, measured: int
):
    left = [rounds]

    def has_time() -> bool:
        left[0] -= 1
        return left[0] >= 0

    def measure(trials: list[Trial]) -> list[dict[str, list[float]]]:
        return [{key: [costs[key][o]] for key, o in trial.items()} for trial in trials[:measured]]

    best = search(dict.fromkeys(costs, 0), all_options, measure, has_time)
    assert all(costs[key][option] <= costs[key][0] for key, option in best.items())
    assert (rounds > 0 and measured > 1) or set(best.values()) <= {0}


def test_no_option_is_measured_twice():
    seen: list[int] = []

    def measure(trials: list[Trial]) -> list[dict[str, list[float]]]:
        seen.extend(trial["a"] for trial in trials[1:])
        return [{"a": [1.0]} for _ in trials]

    assert search({"a": 3}, all_options, measure, lambda: True) == {"a": 3}
    assert sorted(seen) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
