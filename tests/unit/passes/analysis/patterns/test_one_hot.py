"""Comparisons that choose one position: which are found, and what is neutral wherever they do not hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.interpret_loops import run_func
from support.nests import parse_module, random_arrays, the_func
from xdsl.dialects.arith import CmpfOp

from ocannl.dialects.loops import FuncOp, StoreOp
from ocannl.passes.analysis.nests import nests, operations
from ocannl.passes.analysis.patterns.one_hot import NeutralElsewhere, one_hots

IDS = np.array([2, 0, 3, 1], np.float32)


def function(*lines: str) -> FuncOp:
    """A nest over ids and a variable that is compared with them, which stores some value last."""
    body = "\n    ".join(lines)
    return the_func(
        parse_module(f"""
loops.func @f indices (n = 3) {{
  %ids = assign.node "ids" on_device : memref<4xf32>
  %w = assign.node "w" on_device : memref<4x4xf32>
  %out = assign.node "out" on_device : memref<4x4xf32>
  loops.nest "out" (b = 4, v = 4) {{
    %zero = arith.constant 0.0 : f32
    %five = arith.constant 5.0 : f32
    %id = loops.load %ids[b]
    %index = loops.index v : f32
    %is = arith.cmpf oeq, %id, %index : f32
    %x = loops.load %w[b, v]
    %is_small = arith.cmpf olt, %x, %zero : f32
    {body}
  }}
}}
""")
    )


def is_neutral(func: FuncOp, neutral: float) -> bool:
    """Whether what is stored is found to be neutral elsewhere. If it is, it has to be."""
    ops = operations(nests(func)[0].body.block)
    comparison = next(op for op in ops if isinstance(op, CmpfOp))
    (store,) = (op for op in ops if isinstance(op, StoreOp))
    holds = NeutralElsewhere(comparison, neutral).holds(store.value)
    arrays = random_arrays(func)
    arrays["ids"][...] = IDS
    run_func(func, arrays, {"n": 1})
    elsewhere = arrays["out"][np.arange(4) != IDS[:, None]]
    assert not holds or (elsewhere == neutral).all(), f"{elsewhere}\n{func}"
    return holds


@st.composite
def values(draw: st.DrawFn) -> tuple[list[str], str]:
    """Lines that compute numbers and conditions, and the last number."""
    numbers, conditions, lines = ["%zero", "%five", "%x"], ["%is", "%is", "%is_small"], list[str]()
    for k in range(draw(st.integers(1, 7))):
        kind = draw(
            st.sampled_from(
                ("float", "float", "mulf", "addf", "subf", "fma", "negf", "select", "and", "test", "sum")
            )
        )
        a, b, c = (draw(st.sampled_from(numbers)) for _ in range(3))
        p, q = (draw(st.sampled_from(conditions)) for _ in range(2))
        predicate = draw(st.sampled_from(("une", "one", "ogt", "oge", "oeq", "olt")))
        lines.append(
            {
                "float": f"%v{k} = arith.uitofp {p} : i1 to f32",
                "fma": f"%v{k} = math.fma {a}, {b}, {c} : f32",
                "negf": f"%v{k} = arith.negf {a} : f32",
                "select": f"%v{k} = arith.select {p}, {a}, {b} : f32",
                "and": f"%v{k} = arith.andi {p}, {q} : i1",
                "test": f"%v{k} = arith.cmpf {predicate}, {a}, %zero : f32",
                "sum": f"%v{k} = loops.reduce add (r = 2) : f32 {{\n loops.yield {a}\n }}",
            }.get(kind, f"%v{k} = arith.{kind} {a}, {b} : f32")
        )
        (conditions if kind in ("and", "test") else numbers).append(f"%v{k}")
    return lines, numbers[-1]


@settings(max_examples=60)
@given(values(), st.sampled_from((0.0, 0.0, 5.0)))
def test_what_is_found_neutral_is(found: tuple[list[str], str], neutral: float):
    lines, result = found
    is_neutral(function(*lines, f"loops.store {result}, %out[b, v]"), neutral)


HOT = "%hot = arith.uitofp %is : i1 to f32"


@pytest.mark.parametrize(
    ("lines", "zero", "five"),
    [
        ((HOT, "%r = arith.mulf %x, %hot : f32"), True, False),
        ((HOT, "%r = arith.mulf %hot, %x : f32"), True, False),
        ((HOT, "%r = arith.addf %hot, %hot : f32"), True, False),
        ((HOT, "%r = arith.subf %hot, %zero : f32"), True, False),
        ((HOT, "%r = arith.addf %hot, %x : f32"), False, False),
        ((HOT, "%r = arith.negf %hot : f32"), True, False),
        ((HOT, "%r = arith.divf %hot, %five : f32"), True, False),
        ((HOT, "%r = arith.divf %five, %hot : f32"), False, False),
        ((HOT, "%r = math.fma %hot, %x, %hot : f32"), True, False),
        ((HOT, "%r = math.fma %x, %hot, %zero : f32"), True, False),
        ((HOT, "%r = math.fma %x, %hot, %five : f32"), False, False),
        ((HOT, "%r = math.fma %x, %x, %hot : f32"), False, False),
        (("%r = arith.select %is, %x, %zero : f32",), True, False),
        (("%r = arith.select %is, %x, %five : f32",), False, True),
        (("%r = arith.select %is_small, %x, %zero : f32",), False, False),
        (("%r = arith.select %is_small, %zero, %zero : f32",), True, False),
        (("%both = arith.andi %is_small, %is : i1", "%r = arith.select %both, %x, %five : f32"), False, True),
        (
            (HOT, "%again = arith.cmpf ogt, %hot, %zero : f32", "%r = arith.select %again, %x, %five : f32"),
            False,
            True,
        ),
        (
            (HOT, "%again = arith.cmpf oge, %hot, %zero : f32", "%r = arith.select %again, %x, %five : f32"),
            False,
            False,
        ),
        ((HOT, "%r = loops.reduce add (k = 3) : f32 {\n loops.yield %hot\n }"), True, False),
        ((HOT, "%r = loops.reduce max (k = 3) : f32 {\n loops.yield %hot\n }"), False, False),
        (("%r = arith.addf %zero, %zero : f32",), True, False),
    ],
)
def test_forms(lines: tuple[str, ...], zero: bool, five: bool):
    func = function(*lines, "loops.store %r, %out[b, v]")
    assert (is_neutral(func, 0.0), is_neutral(func, 5.0)) == (zero, five)


@pytest.mark.parametrize(
    ("comparison", "sizes", "found"),
    [
        ("oeq, %id, %index", {"v": 4}, True),
        ("oeq, %index, %id", {"v": 4}, True),
        ("ueq, %id, %index", {"v": 4}, False),
        ("olt, %id, %index", {"v": 4}, False),
        ("oeq, %id, %index", {"b": 4}, False),
        ("oeq, %id, %index", {"v": 2**24}, True),
        ("oeq, %id, %index", {"v": 2**24 + 1}, False),
        ("oeq, %id, %index", {"v": 0}, False),
        ("oeq, %x, %index", {"v": 4}, False),
        ("oeq, %id, %next", {"v": 4}, False),
        ("oeq, %id, %step", {"v": 4}, False),
        ("oeq, %step, %index", {"v": 4}, True),
    ],
)
def test_choices(comparison: str, sizes: dict[str, int], found: bool):
    func = function(
        "%next = loops.index v + 1 : f32",
        "%step = loops.index n : f32",
        f"%c = arith.cmpf {comparison} : f32",
        "loops.store %x, %out[b, v]",
    )
    *_, last = (op for op in operations(nests(func)[0].body.block) if isinstance(op, CmpfOp))
    hot = [(one.variable, one.size) for one in one_hots([last], sizes)]
    assert hot == ([("v", sizes["v"])] if found else [])
