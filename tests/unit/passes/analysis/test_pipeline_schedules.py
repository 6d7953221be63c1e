"""The order of microbatches in the stages of a pipeline."""

import itertools

import pytest

from ocannl.passes.analysis.pipeline_schedules import SCHEDULES, Schedule, bubble, in_flight, slots


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("stages", "microbatches"), [*itertools.product((1, 2, 3, 4, 8), (1, 2, 3, 5, 8, 16))]
)
def test_a_schedule_ends_in_the_time_of_its_bubble(
    stages: int, microbatches: int, schedule: Schedule
) -> None:
    """Simulated with turns that take equally long: no stage waits for another one in vain."""
    left = [[*slots(stage, stages, microbatches, schedule)] for stage in range(stages)]
    assert all(len(own) == len({*own}) == 2 * microbatches for own in left)
    done: set[tuple[int, str, int]] = set()
    kept, ticks = [0] * stages, 0
    while any(left):
        now: list[tuple[int, str, int]] = []
        for stage, own in enumerate(left):
            if own and is_ready(stage, stages, *own[0], done):
                now.append((stage, *own.pop(0)))
        assert now
        for stage, turn, _ in now:
            kept[stage] += 1 if turn == "forward" else -1
            assert kept[stage] <= in_flight(stage, stages, microbatches, schedule)
        done |= {*now}
        ticks += 1
    assert ticks * (1 - bubble(stages, microbatches)) == 2 * microbatches


def is_ready(stage: int, stages: int, turn: str, number: int, done: set[tuple[int, str, int]]) -> bool:
    if turn == "forward":
        return stage == 0 or (stage - 1, turn, number) in done
    return (stage + 1, turn, number) in done if stage < stages - 1 else (stage, "forward", number) in done
