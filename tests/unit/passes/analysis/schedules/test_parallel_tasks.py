"""The tasks of a nest: blocks that cut its loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nests import parse_module, the_func

from ocannl.passes.analysis.nests import steps
from ocannl.passes.analysis.schedules.parallel_tasks import Cut, cuts, task_count


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 30))
def test_blocks_have_all_whole_tiles(tile: int, tiles_of_a_block: int, tiles: int):
    block, whole = tile * tiles_of_a_block, tile * tiles
    cut = Cut("i", tile, block, whole, 0)
    starts = range(0, whole, block)
    assert cut.count == len(starts)
    assert all(whole - start >= tile for start in starts)


def step(schedule: str, space: str = "i = 100, j = 64", kind: str = "nest"):
    body = "%v = loops.load %x[i, j]\n loops.store %v, %y[i, j]"
    if kind == "group":
        text = f'loops.group "y" (i = 100) {schedule} {{ loops.nest "y" (j = 64) {{ {body} }} }}'
    else:
        text = f'loops.nest "y" ({space}) {schedule} {{ {body} }}'
    nodes = "\n".join(f'%{n} = assign.node "{n}" on_device : memref<100x64xf32>' for n in "xy")
    (found,) = steps(the_func(parse_module(f"loops.func @f {{ {nodes}\n {text} }}")))
    return found


@pytest.mark.parametrize(
    ("schedule", "expected", "count"),
    [
        ("", [], 1),
        ("schedule <order = (i, j), lanes = j : 16>", [], 1),
        ("schedule <order = (i, j), parallel = (i : 30), lanes = j : 16>", [Cut("i", 1, 30, 100, 0)], 4),
        ("schedule <order = (i, j), parallel = (i : 100), lanes = j : 16>", [], 1),
        (
            "schedule <order = (i, j), parallel = (i : 48, j : 32), rows = i : 6, lanes = j : 16>",
            [Cut("i", 6, 48, 96, 4), Cut("j", 16, 32, 64, 0)],
            4,
        ),
        (
            "schedule <merged = (i*j), order = (i*j), parallel = (i*j : 1600), lanes = i*j : 16>",
            [Cut("i*j", 16, 1600, 6400, 0)],
            4,
        ),
    ],
)
def test_cuts(schedule: str, expected: list[Cut], count: int):
    found = step(schedule)
    assert cuts(found) == expected
    assert task_count(found) == count


def test_a_group_is_cut_too():
    assert task_count(step("schedule <parallel = (i : 40)>", kind="group")) == 3
    assert task_count(step("", kind="group")) == 1
