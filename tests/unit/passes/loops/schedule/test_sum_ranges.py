"""Products whose sums are added up in ranges compute what they do as a whole, on any number of threads."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.interpret_loops import run_func
from support.nests import parse_module, random_arrays, run_compiled, scheduled, the_func
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.passes.analysis.dataflow.routine_facts import routine_facts
from ocannl.passes.analysis.nests import nests
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.loops.schedule.sum_ranges import Product, ranges, split_in_ranges
from ocannl.runtime.host.processor import host

SAPPHIRE_RAPIDS = processor("sapphirerapids")


def product(rows: int, columns: int, depth: int, element: str = "f64") -> str:
    return f"""
loops.func @product {{
  %x = assign.node "x" on_device : memref<{rows}x{depth}x{element}>
  %w = assign.node "w" on_device : memref<{depth}x{columns}x{element}>
  %y = assign.node "y" on_device : memref<{rows}x{columns}x{element}>
  loops.nest "y" (i = {rows}, j = {columns}) {{
    %sum = loops.reduce add (k = {depth}) : {element} {{
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : {element}
      loops.yield %p
    }}
    loops.store %sum, %y[i, j]
  }}
}}"""


def labels(module: ModuleOp) -> list[str]:
    return [nest.label.data for nest in nests(the_func(module)) if nest.label.data.startswith("y")]


@given(st.integers(1, 12))
def test_ranges_compute_what_the_whole_did(size: int):
    module = parse_module(product(5, 6, 13))
    func = the_func(module)
    expected = random_arrays(func)
    found = {label: array.copy() for label, array in expected.items()}
    run_func(func, expected, {})
    (nest,) = nests(func)
    others = split_in_ranges(nest, size)
    Rewriter.insert_op(others, InsertPoint.after(nest))
    module.verify()
    assert len(others) == -(-13 // size) - 1
    run_func(func, found, {})
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-12, atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.skipif(host().vector_bytes < 32, reason="tiles of these targets are others")
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("columns", [480, 485])
def test_values_and_bits(columns: int, element: str):
    few_rows = 2**12 * host().vector_bytes * int(element[1:]) // 8
    target = replace(host(), l2_bytes=few_rows)
    module = scheduled(product(700, columns, 2011, element), target)
    assert any("from" in label for label in labels(module))
    arrays = [random_arrays(the_func(module)) for _ in range(2)]
    for threads, own in enumerate(arrays, 1):
        run_compiled(module, own, threads=threads, target=target)
    found, again = arrays
    expected = found["x"].astype(np.float64) @ found["w"].astype(np.float64)
    tolerance = 1e-4 if element == "f32" else 1e-12
    np.testing.assert_allclose(found["y"], expected, rtol=tolerance, atol=50 * tolerance)
    np.testing.assert_array_equal(found["y"], again["y"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("reduce add", "reduce max"),
        ("store %sum", "store %sum, %y[i, j]\n    loops.store %sum"),
        ("i = 2048, j", "i = 64, j"),
    ],
)
def test_other_nests_stay_whole(before: str, after: str):
    """Another accumulation, a sum that is stored twice, and rows that the second-level cache holds."""
    text = product(2048, 2048, 2048)
    assert labels(scheduled(text, SAPPHIRE_RAPIDS)) == ["y", "y from 704", "y from 1408"]
    assert not any(
        "from" in label for label in labels(scheduled(text.replace(before, after), SAPPHIRE_RAPIDS))
    )


@given(st.integers(1, 10_000), st.sampled_from([256, 512]))
def test_ranges_are_long(depth: int, least: int):
    for size in ranges(depth, least):
        assert least <= size < depth
        assert size % 64 == 0
        # The blocks of a range and the ranges add no more often than the blocks of the whole sum.
        assert math.ceil(size / 256) + math.ceil(depth / size) - 1 <= math.ceil(depth / 256)


@pytest.mark.parametrize(("size", "first"), [(1202, None), (1543, 448), (2048, None)])
def test_short_ranges_where_no_strip_stays(size: int, first: int | None):
    """24 rows of f64 and two panels outgrow 512 KiB from some 1300 numbers on; rows of 2048 meet in few sets,
    so that shorter ones stay no better.
    """
    others = [
        label
        for label in labels(scheduled(product(size, size, size), processor("znver3")))
        if "from" in label
    ]
    assert others[:1] == ([] if first is None else [f"y from {first}"])


def test_rows_that_meet_in_few_sets_have_no_room():
    """Rows 32 KiB apart, of which ranges of 704 numbers fill a sixth of the sets, and rows beside each
    other.
    """
    apart = Product(2048, 12, 2048, 16, 4096, 8, 2**15)
    assert not apart.fits(704, SAPPHIRE_RAPIDS)
    assert replace(apart, pitch=2**15 + 64).fits(704, SAPPHIRE_RAPIDS)


def test_a_routine_writes_all_that_its_ranges_read():
    """A remainder of columns, which is another nest, is stored before ranges read the others."""
    facts = routine_facts(the_func(scheduled(product(2048, 2055, 2048), SAPPHIRE_RAPIDS)))
    assert facts.reads == {"x", "w"}
    assert facts.writes == {"y"}
    assert not facts.parts
