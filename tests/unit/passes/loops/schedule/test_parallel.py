"""The shares of threads: blocks of whole tiles, of loops along which points are independent."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nests import parse_module, the_func

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.passes.analysis.nests import steps
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.schedule.parallel import (
    SHARED_CYCLES,
    TASK_CYCLES,
    TASKS_PER_CORE,
    blocks,
    is_shared,
    parallel_group,
    parallel_nest,
)

FOUR, ONE = TargetDescription(cores=4), TargetDescription(cores=1)
LONG = 1e9


def tasks(name: str, size: int, tile: int, found: dict[str, int]) -> int:
    return -(-(size // tile * tile) // found[name]) if name in found else 1


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 16)), max_size=3),
    st.integers(1, 16),
    st.floats(SHARED_CYCLES, 1e7),
)
def test_blocks(loops: list[tuple[int, int]], cores: int, cycles: float):
    """They are of whole tiles, and the tasks no more than cores and work ask for."""
    named = [(f"v{k}", size, tile) for k, (size, tile) in enumerate(loops) if tile <= size]
    target = TargetDescription(cores=cores)
    found = dict(blocks(named, cycles, target))
    most = min(TASKS_PER_CORE * cores, int(cycles / TASK_CYCLES))
    assert list(found) == [name for name, _, _ in named if name in found]
    counts = [tasks(name, size, tile, found) for name, size, tile in named]
    assert all(found[name] % tile == 0 for name, _, tile in named if name in found)
    assert all(count > 1 for (name, _, _), count in zip(named, counts, strict=True) if name in found)
    assert prod(counts) <= most
    if named and named[0][1] // named[0][2] >= most >= 2:
        assert counts[0] > most / 2
        assert named[0][0] in found


def test_outer_loops_are_cut_first():
    assert blocks([("a", 64, 1), ("b", 64, 8)], LONG, FOUR) == (("a", 4),)
    assert blocks([("a", 4, 1), ("b", 64, 8)], LONG, FOUR) == (("a", 1), ("b", 16))
    assert blocks([("a", 3, 1), ("b", 65, 8)], LONG, FOUR) == (("a", 1), ("b", 16))
    assert blocks([("a", 64, 1)], 3 * TASK_CYCLES, FOUR) == (("a", 22),)
    assert blocks([("a", 64, 1)], 1.9 * TASK_CYCLES, FOUR) == ()


def test_what_is_short_or_has_one_core_is_not_shared():
    assert is_shared(SHARED_CYCLES, FOUR)
    assert not is_shared(SHARED_CYCLES - 1, FOUR)
    assert not is_shared(LONG, ONE)


def step(text: str) -> NestOp | GroupOp:
    nodes = "\n".join(f'%{n} = assign.node "{n}" on_device : memref<64x64xf32>' for n in "xyz")
    line = '%s = assign.node "s" on_device : memref<64xf32>'
    (found,) = steps(the_func(parse_module(f"loops.func @f {{ {nodes}\n {line}\n {text} }}")))
    return found


def nest(text: str) -> NestOp:
    found = step(text)
    assert isinstance(found, NestOp)
    return found


COPY = "%v = loops.load %x[i, j]\n loops.store %v, %y[i, j]"
SHARED_SUM = """
  %sum = loops.reduce add (k = 64) : f32 {
    %v = loops.load %x[i, k]
    loops.yield %v
  }
  %w = loops.load %z[i, j]
  %p = arith.mulf %sum, %w : f32
  loops.store %p, %y[i, j]
"""
COLUMNS = "%v = loops.load %x[i, j]\n loops.store %v, %s[j]"
ORDER = Schedule(order=("j", "i"))


@pytest.mark.parametrize(
    ("body", "schedule", "cycles", "expected"),
    [
        (COPY, ORDER, LONG, (("j", 4),)),
        (COPY, Schedule(order=("i", "j"), rows=("i", 6)), LONG, (("i", 6),)),
        (COPY, ORDER, SHARED_CYCLES - 1, ()),
        # Every task of columns would compute the sums of all rows again: much of the work, or little.
        (SHARED_SUM, ORDER, 1e5, (("i", 4),)),
        (SHARED_SUM, ORDER, 1e6, (("j", 4),)),
        # Rows store to the same cells.
        (COLUMNS, Schedule(order=("i", "j")), LONG, (("j", 4),)),
    ],
)
def test_nests(body: str, schedule: Schedule, cycles: float, expected: tuple[tuple[str, int], ...]):
    assert (
        parallel_nest(nest(f'loops.nest "y" (i = 64, j = 64) {{ {body} }}'), schedule, cycles, FOUR)
        == expected
    )


def test_groups():
    inner = 'loops.nest "y" (j = 64) { %v = loops.load %x[i, j]\n loops.store %v, %y[i, j] }'
    group = step(f'loops.group "y" (i = 64) {{ {inner} }}')
    assert isinstance(group, GroupOp)
    assert parallel_group(group, LONG, FOUR) == (("i", 4),)
    assert parallel_group(group, LONG, ONE) == ()
    assert parallel_nest(group.nests[0], Schedule(order=("j",)), LONG, FOUR) == ()
    same = step(
        'loops.group "y" (i = 64) { loops.nest "y" (j = 64) { %v = loops.load %x[i, j]\n'
        " loops.store %v, %s[j] } }"
    )
    assert isinstance(same, GroupOp)
    assert parallel_group(same, LONG, FOUR) == ()
