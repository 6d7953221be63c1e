"""Stores into what rows have behind their columns, which nobody reads."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from xdsl.context import Context

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Linear
from ocannl.lowering.loops_to_kernels import lower
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.lowering.loops_to_kernels.padded_stores import for_neighbours
from ocannl.lowering.pipelines import module_text, parse_text
from ocannl.passes.loops import pad_rows

SIZES = {"block": 3, "lane": 4, "pair": 2, "tile": 4}
INDEX = Linear.of({"block": 32, "lane": 2, "pair": 1, "tile": 8})


def value(index: Linear, point: dict[str, int]) -> int:
    return index.constant + sum(coefficient * point[name] for name, coefficient in index.terms)


@pytest.mark.parametrize(
    ("end", "expected"), [(72, "32*block + 8*tile < 72"), (70, "32*block + 2*lane + 8*tile < 70"), (69, None)]
)
def test_a_bound_for_neighbours(end: int, expected: str | None):
    """It holds where the other one does, and never behind the end; neighbours in registers are alike."""
    bound = Bound(INDEX, 69)
    found = for_neighbours(bound, end, SIZES, {"pair", "tile"})
    assert str(found) == (expected or str(bound))
    for values in itertools.product(*(range(size) for size in SIZES.values())):
        point = dict(zip(SIZES, values, strict=True))
        at, holds = value(INDEX, point), value(found.index, point) < found.below
        assert holds or at >= bound.below
        assert not holds or at < end


def losses() -> tuple[list[float], str]:
    """Of a classifier whose scores have 61 columns, and its kernels."""
    rng = np.random.default_rng(0)
    ctx = oc.Context.emulated_gpu(check=True)
    x = oc.data(rng.standard_normal((32, 40)).astype(np.float32), axes="bo", label="x", dtype=oc.bfloat16)
    with oc.precision(oc.float32, compute=oc.bfloat16):
        scores = oc.param("w", input=[40], output=[61]) @ x
    loss = nn.cross_entropy(oc.cast(scores, oc.float32), oc.data(np.arange(32) % 61, axes="b"))
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss, seed=1)
    return [step() or float(ctx[loss]) for _ in range(2)], step.ir("kernels")


def test_scores_are_stored_in_pairs(monkeypatch: pytest.MonkeyPatch):
    """Of a product for tensor cores; with the same bits."""
    monkeypatch.setattr(pad_rows, "LEAST_ROW", 16)
    monkeypatch.setattr(pad_rows.PadRowsPass.__init__, "__defaults__", (0,))
    found, kernels = losses()
    monkeypatch.setattr(lower, "relax_bounds", lambda launch, columns: None)
    expected, others = losses()
    pairs = r"kernel.where [^{]*_pair[^{]*< 61 {"
    assert re.search(pairs, others)
    assert not re.search(pairs, kernels)
    assert found == expected


PADDED = """
loops.func @f {
  %x = assign.node "x" constant because "data" : memref<512x61xf32>
  %a = assign.node "a" local at 0 because "intermediate value" : memref<512x64xf32>
  %c = assign.node "c" local at 131072 because "intermediate value" : memref<512x64xf32>
  %y = assign.node "y" on_device because "result" : memref<512xf32>
  loops.nest "a" (b = 512, o = 61) {
    %0 = loops.load %x[b, o]
    loops.store %0, %a[b, o]
  }
  loops.nest "c" (b = 512, o = 61) {
    %1 = loops.load %a[b, o]
    %2 = arith.addf %1, %1 : f32
    loops.store %2, %c[b, o]
  }
  loops.nest "y" (b = 512) {
    %3 = loops.reduce add (o = 61) : f32 {
      %4 = loops.load %c[b, o]
      loops.yield %4
    }
    loops.store %3, %y[b]
  }
}"""


def test_points_go_to_the_end_of_rows():
    """Where all that moves along rows is padded: not where data are read, nor in sums."""
    module = parse_text(PADDED)
    LowerLoopsToKernelsPass().apply(Context(), module)
    module.verify()
    first, second, third = module_text(module).split("kernel.launch")[1:]
    assert re.search(r"\b61\b", first)
    assert not re.search(r"\b61\b", second)
    assert re.search(r"\b61\b", third)
