"""Products on matrix units: groups of blocks compute what the nest did, and their schedules fit."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from support.dot_products import product, small_numbers
from support.interpret_loops import run_func
from support.nests import parse_module, the_func
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.dialects.loops.dot_instructions import DOT_INSTRUCTIONS
from ocannl.passes.analysis.nests import nests, steps
from ocannl.passes.analysis.patterns import dot_products
from ocannl.passes.loops.schedule.dot_products import Part, parts
from ocannl.passes.loops.schedule.schedule import SchedulePass

pytestmark = pytest.mark.usefixtures("at_any_cost")
SIZES = {"b": 45, "o": 70, "k": 66}
PAYS = dot_products.PAYS


@pytest.fixture
def at_any_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dot_products, "PAYS", math.inf)


def scheduled(text: str, cpu: str = "graniterapids") -> ModuleOp:
    module = parse_module(text)
    SchedulePass(cpu=cpu).apply(Context(), module)
    module.verify()
    return module


def instructions(module: ModuleOp) -> set[str]:
    schedules = [nest.schedule.data for nest in nests(the_func(module)) if nest.schedule is not None]
    return {schedule.dot for schedule in schedules} - {""}


def check_values(text: str, cpu: str = "graniterapids") -> ModuleOp:
    """The scheduled program computes what the text does, to the bit."""
    module = scheduled(text, cpu)
    expected = small_numbers(the_func(module))
    found = {label: array.copy() for label, array in expected.items()}
    run_func(the_func(parse_module(text)), expected)
    run_func(the_func(module), found)
    np.testing.assert_array_equal(found["y"], expected["y"])
    return module


@pytest.mark.parametrize("x", ["b, k", "k, b"])
@pytest.mark.parametrize("w", ["k, o", "o, k"])
@pytest.mark.parametrize("y", ["b, o", "o, b"])
def test_all_layouts(x: str, w: str, y: str):
    assert instructions(check_values(product(SIZES, x, w, y))) == {"tdpbf16ps"}


@pytest.mark.parametrize("types", [*itertools.product(("i8", "ui8"), repeat=2)])
def test_integers(types: tuple[str, str]):
    text = product(SIZES | {"k": 103}, w="o, k", types=types)
    assert len(instructions(check_values(text))) == 1


def test_halves_where_there_is_an_instruction_for_them():
    text = product(SIZES, types=("f16", "f16"))
    assert instructions(check_values(text)) == {"tdpfp16ps"}
    assert instructions(scheduled(text, "sapphirerapids")) == set()


@pytest.mark.parametrize("k", [67, 37 * 2 + 1, 512, 2 * 31])
@pytest.mark.parametrize("b", [7, 32, 64, 300])
def test_remainders_of_each_size(b: int, k: int):
    assert instructions(check_values(product({"b": b, "o": 97, "k": k}, w="o, k")))


def test_batches_and_further_axes_of_rows_and_of_the_sum():
    sizes = {"h": 3, "b": 4, "t": 20, "o": 33, "i": 5, "k": 32}
    text = product(sizes, "h, b, t, i, k", "h, i, k, o", "h, b, t, o", summed="i, k")
    assert instructions(check_values(text))


def test_rows_are_an_axis_along_which_results_are_neighbours():
    """Of the heads and the features of queries, keys and values."""
    sizes = {"b": 64, "p": 3, "h": 12, "o": 64, "k": 64}
    module = check_values(product(sizes, "b, k", "p, h, o, k", "b, p, h, o"), "znver4")
    schedules = [nest.schedule.data for nest in nests(the_func(module)) if nest.schedule is not None]
    assert {schedule.rows[0] for schedule in schedules if schedule.dot and schedule.rows} == {"o"}


def test_windows_of_a_convolution():
    text = product({"b": 4, "o": 48, "k": 64, "j": 3}, "b, j, k", "j, o, k", "b, o", summed="j, k")
    windows = text.replace("memref<4x3x64xbf16>", "memref<20x64xbf16>").replace(
        "%x[b, j, k]", "%x[4*b + j, k]"
    )
    assert instructions(check_values(windows))


def test_small_and_other_products_stay_as_they_are():
    for text in (
        product({"b": 8, "o": 8, "k": 16}),
        product(SIZES, types=("bf16", "bf16")).replace("reduce add", "reduce max"),
        product(SIZES, types=("bf16", "f16")),
    ):
        assert instructions(scheduled(text)) == set()


@pytest.mark.parametrize(
    ("cpu", "types", "name"),
    [
        ("znver4", ("bf16", "bf16"), "vdpbf16ps"),
        ("znver4", ("f16", "f16"), None),
        ("cascadelake", ("ui8", "i8"), "vpdpbusd"),
        ("alderlake", ("i8", "i8"), "vpdpbusd"),
        ("alderlake", ("ui8", "ui8"), "vpmaddwd"),
        ("x86-64-v3", ("i8", "i8"), "vpmaddwd"),
        ("x86-64-v2", ("i8", "i8"), None),
        ("cascadelake", ("bf16", "bf16"), None),
        ("neoverse-n1", ("i8", "i8"), "sdot"),
        ("apple-m2", ("i8", "ui8"), "usdot"),
    ],
)
def test_instructions_of_processors(cpu: str, types: tuple[str, str], name: str | None):
    module = check_values(product(SIZES, types=types), cpu)
    assert instructions(module) == ({name} if name else set())


def test_bf16_on_vectors_where_these_multiply_more_numbers_than_of_f32(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dot_products, "PAYS", PAYS)
    text = product({"b": 256, "o": 256, "k": 256})
    assert instructions(scheduled(text, "znver4")) == {"vdpbf16ps"}
    assert instructions(scheduled(text, "znver5")) == set()


def test_few_rows_whose_weights_vectors_of_f32_would_copy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dot_products, "PAYS", PAYS)
    text = product({"b": 8, "o": 4096, "k": 4096}, w="o, k")
    assert instructions(scheduled(text, "znver4")) == {"vdpbf16ps"}


@pytest.mark.parametrize(("k", "types", "rows"), [(2048, "bf16", 8), (2080, "bf16", 13), (4096, "i8", 8)])
def test_rows_that_meet_in_few_sets_of_a_cache_are_as_many_as_it_holds(k: int, types: str, rows: int):
    module = scheduled(product({"b": 64, "o": 64, "k": k}, w="o, k", types=(types, types)), "znver4")
    found = [nest.schedule.data for nest in nests(the_func(module)) if nest.schedule is not None]
    assert max(schedule.rows[1] for schedule in found if schedule.dot and schedule.rows) == rows


def test_a_copy_serves_all_products_until_its_source_is_written():
    first = product({"b": 64, "o": 64, "k": 64})
    head, tail = first.split('loops.nest "y"')
    nest = f'loops.nest "y"{tail[:-1]}'
    twice = head + nest + nest.replace('"y"', '"z"').replace("%sum", "%s").replace("%old", "%o") + "}"
    assert copies(scheduled(twice)) == 1
    writing = 'loops.nest "w" (k = 64, o = 64) { %c = arith.constant 1.0 : bf16 loops.store %c, %w[k, o] }'
    assert copies(scheduled(head + nest + writing + nest.replace('"y"', '"z"') + "}")) == 2


def copies(module: ModuleOp) -> int:
    return sum("packed" in step.label.data for step in steps(the_func(module)) if isinstance(step, NestOp))


@pytest.mark.parametrize("size", range(1, 400))
def test_parts_cover_all_points_once(size: int):
    covered = [
        part.start + (point * part.blocks + block) * 32 + place
        for part in parts(size, 32, 8)
        for point in range(part.points)
        for block in range(part.blocks)
        for place in range(part.width)
    ]
    assert sorted(covered) == list(range(size))
    assert all(part.blocks <= 8 and isinstance(part, Part) for part in parts(size, 32, 8))


def test_threads_share_blocks_of_large_products():
    module = scheduled(product({"b": 512, "o": 512, "k": 512}))
    (group,) = [step for step in steps(the_func(module)) if isinstance(step, GroupOp)]
    assert group.schedule is not None
    assert group.schedule.data.parallel


def dot_text() -> str:
    return str(scheduled(product({"b": 32, "o": 32, "k": 64}, w="o, k")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dot = tdpbf16ps", "dot = tdpbssd", "tdpbssd adds up products over groups of 4 neighbours"),
        ("rows = b : 32", "rows = b : 64", "equal tiles of at most 32"),
        ("rows = b : 32", "rows = b : 24", "equal tiles of at most 32"),
        ("rows = b : 32, ", "", "has rows and lanes"),
        ("rows = b : 32, lanes = o : 32, dot", "rows = o : 32, lanes = b : 32, dot", "laid out"),
    ],
)
def test_schedules_that_do_not_fit(old: str, new: str, message: str):
    text = dot_text()
    assert old in text
    with pytest.raises(VerifyException, match=message):
        parse_module(text.replace(old, new))


def test_the_table_of_instructions():
    assert {dot.depth for dot in DOT_INSTRUCTIONS} == {2, 4}
    assert len({(dot.name, dot.operands) for dot in DOT_INSTRUCTIONS}) == len(DOT_INSTRUCTIONS)
