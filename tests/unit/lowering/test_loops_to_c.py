"""C text of nests, groups and loops, compiled without a warning, against an interpreter and the CPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.c_on_cpu import CC, address, c_compiler, c_context, compile_c, entry_text
from support.interpret_loops import run_func
from support.nests import compare, nest_functions, parse_module, random_arrays
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, f64, i1, i8, i32, i64
from xdsl.ir import Attribute

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import OcannlError
from ocannl.lowering.entry import entry_layout
from ocannl.lowering.loops_to_c import to_c
from ocannl.lowering.loops_to_c.types import literal
from ocannl.passes.analysis.nests import functions
from ocannl.runtime.memory import ArgBlock, bind_call

NEEDS_CC = pytest.mark.skipif(CC is None, reason="there is no C compiler: install gcc or clang")
RANDOM = settings(
    max_examples=1,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
INDICES = {"step": 2, "batch": 3}


def check(texts: list[str], tolerance: float = 1e-3) -> None:
    """Each function computes what an interpreter of its nests does."""
    named = [re.sub(r"@\w+", f"@f{k}", text, count=1) for k, text in enumerate(texts)]
    module = parse_module("\n".join(named))
    funcs = functions(module)
    entries = [
        entry_text(entry_layout(f), f.sym_name.data).replace("entry", f"entry{k}")
        for k, f in enumerate(funcs)
    ]
    library = compile_c("".join([to_c(module), *entries]))
    for k, func in enumerate(funcs):
        found = random_arrays(func)
        expected = {label: array.copy() for label, array in found.items()}
        run_func(func, expected, INDICES)
        layout = entry_layout(func)
        block = ArgBlock(layout.slots)
        for label, slot in layout.node_slots.items():
            block.set_pointer(slot, found[label])
        for slot, name in enumerate(layout.indices, layout.index_slot):
            block.values[slot] = INDICES[name]
        bind_call(address(library, f"entry{k}"), block)()
        compare(found, expected, tolerance)


@NEEDS_CC
@RANDOM
@given(st.lists(nest_functions(), min_size=12, max_size=12))
def test_random_nests(texts: list[str]):
    check(texts)


@NEEDS_CC
def test_a_step_without_points_leaves_no_variable():
    nest = """
  loops.nest "y" (i = 0) {
    %a = loops.load %x[i]
    loops.store %a, %y[i]
  }"""
    check(
        [
            f"""loops.func @f indices (step = 3, batch = 4) {{
  %x = assign.node "x" constant : memref<4xf32>
  %y = assign.node "y" on_device : memref<4xf32>{body}
}}"""
            for body in (nest, "")
        ]
    )


@NEEDS_CC
def test_extremes_of_integers():
    numbers = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = oc.data(numbers, label="x", axes="bo")
    with c_compiler():
        ctx = c_context()
        np.testing.assert_array_equal(ctx[oc.einmax("b | o => b | ", x & 5)], (numbers & 5).max(1))
        np.testing.assert_array_equal(ctx[oc.einmin("b | o => b | ", x ^ 6)], (numbers ^ 6).min(1))


def model(ctx: oc.Context) -> dict[str, Any]:
    """A training step with random numbers, ids, a loop with a flag, numbers of 16 bits and many rows."""
    rng, n = np.random.default_rng(0), oc.index("n", 3)
    x = oc.data(rng.normal(size=(3, 40, 12)).astype(np.float32), label="x", axes="bbo")[n]
    ids = oc.data(rng.integers(0, 9, (3, 40)), label="ids", axes="bb")[n]
    table = nn.embedding(num=9, dim=12)(ids)
    hidden = nn.layer_norm()(nn.mlp(hid_dims=[16], out_dim=12)(x + table))
    hidden = oc.cast(oc.cast(hidden, "bfloat16"), "float32")
    scores = nn.dropout(rate=0.25)(oc.sin(hidden) + oc.erf(hidden), train_step=n)
    grown = oc.while_loop(lambda v: v < 100, lambda v: v * v + 1, oc.abs(scores).sum() + 1.5, most=6)
    loss = (nn.cross_entropy(scores, ids).mean() + oc.log(grown)).named("loss")
    step = ctx.compile(train.grad_update(loss) + train.adam_update(loss, learning_rate=0.01), name="main")
    ctx.init_params(loss)
    losses: list[float] = []
    for number in range(3):
        step(n=number)
        losses.append(float(ctx[loss]))
    return {"losses": np.array(losses), **{name: ctx[p] for name, p in oc.params(loss).items()}}


@pytest.mark.exhaustive
@NEEDS_CC
def test_a_training_step_is_that_of_the_cpu():
    wanted = model(oc.Context.cpu(1))
    with c_compiler():
        found = model(c_context())
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def test_equal_nests_share_a_function_that_has_the_users_lines(tmp_path: Path):
    file, first = tmp_path / "net.py", "x = oc.data(np.ones((4, 3), np.float32), label='x')\n"
    file.write_text(f"{first}y = nn.mlp(hid_dims=[3, 3, 3], out_dim=3)(x) \\\n    + 1")
    names: dict[str, Any] = {"oc": oc, "np": np, "nn": nn}
    exec(compile(file.read_text(), str(file), "exec"), names)
    text = oc.Context.cpu().compile(names["y"], name="f").ir("c")
    assert len(re.findall(r"^static void \w+_nest\($", text, re.MULTILINE)) < 4
    assert "// net.py:2: y = nn.mlp(hid_dims=[3, 3, 3], out_dim=3)(x)\n" in text
    assert text == oc.Context.cpu().compile(names["y"], name="f").ir("c")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("assign.routine @f {\n}", "`assign.routine` has no loops yet: run the pipeline first, `-p c`"),
        (
            'loops.func @f {\n  kernel.launch "x" block (i = 3) {\n  }\n}',
            "`kernel.launch` is for a GPU: for C, run `-p c` in place of lower-loops-to-kernels",
        ),
    ],
)
def test_what_has_no_text(text: str, message: str):
    with pytest.raises(OcannlError, match=re.escape(message)):
        to_c(parse_module(text))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (FloatAttr(0.1, f32), "0.1f"),
        (FloatAttr(0.1, f64), "0.1"),
        (FloatAttr(-0.0, f32), "(-0.0f)"),
        (FloatAttr(1e20, f32), "1e+20f"),
        (FloatAttr(float("-inf"), f64), "(-INFINITY)"),
        (FloatAttr(float("nan"), f32), "NAN"),
        (IntegerAttr(-5, i32), "(-5)"),
        (IntegerAttr(-(2**31), i32), "INT32_MIN"),
        (IntegerAttr(-(2**63), i64), "INT64_MIN"),
        (IntegerAttr(2**40, i64), "INT64_C(1099511627776)"),
        (IntegerAttr(-1, i1), "true"),
        (IntegerAttr(-128, i8), "INT8_MIN"),
    ],
    ids=str,
)
def test_literals(value: Attribute, wanted: str):
    assert literal(value) == wanted
