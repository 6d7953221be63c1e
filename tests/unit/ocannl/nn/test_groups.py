"""Blocks over arrays so large that their nests are grouped compute what they do nest by nest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn
from ocannl.lowering import pipelines
from ocannl.passes.analysis.targets.processors import nearest
from ocannl.passes.loops.tile_and_fuse.tile_and_fuse import TileAndFusePass
from ocannl.runtime.host.processor import host

ROWS, COLUMNS = 520, 641
Arrays = dict[str, NDArray[np.float32]]
BLOCKS: dict[str, Callable[[], Callable[[oc.Tensor], oc.Tensor]]] = {
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "layer_norm": nn.layer_norm,
    "rms_norm": nn.rms_norm,
    "batch_norm": lambda: batch_norm,
    "cross_entropy": lambda: cross_entropy,
    "attention": lambda: attention,
}


def batch_norm(x: oc.Tensor) -> oc.Tensor:
    return nn.batch_norm1d()(x, train_step=1)


def cross_entropy(x: oc.Tensor) -> oc.Tensor:
    return nn.cross_entropy(x, oc.data(np.arange(ROWS, dtype=np.int32), axes="b", label="ids"))


def attention(x: oc.Tensor) -> oc.Tensor:
    """Of every row to every row, without weights."""
    scores = oc.einsum("s|d; t|d => s|t", x, x) / 25
    return oc.einsum("s|t; t|d => s|d", nn.softmax()(scores), x)


def results(name: str, values: NDArray[np.float32], whole: bool) -> Arrays:
    """The value of a block and the gradients, with tiles of nests that are fused if `whole`."""
    x = oc.param("x", values, batch=[ROWS], output=[COLUMNS], input=[])
    y = BLOCKS[name]()(x)
    parameters = oc.params(y).values()
    zeros = sum((oc.set(p.grad, 0) for p in parameters), oc.Code())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCANNL_CACHE", "off")
        if not whole:
            passes = tuple(p for p in pipelines.PIPELINES["cpu"] if p is not TileAndFusePass)
            patch.setitem(pipelines.PIPELINES, "cpu", passes)
        # By name, since the host's own caches may hold all arrays.
        context = oc.Context.cpu(threads=1, target=nearest(host().arch, host().features).cpu)
        step = context.compile(oc.forward(y) + zeros + y.backprop)
        assert not whole or "loops.group" in step.ir("tile-and-fuse")
    context.init_params(y, seed=1)
    context[y.grad] = np.random.default_rng(2).standard_normal(shape_of(y))
    step()
    arrays = {p.label: np.asarray(context[p.grad]) for p in parameters}
    return {"value": np.asarray(context[y]), **arrays}


def shape_of(y: oc.Tensor) -> list[int]:
    shape = y.shape
    return [size for row in (shape.batch, shape.output, shape.input) for size in row if isinstance(size, int)]


def compare(name: str, values: NDArray[np.float32]) -> None:
    grouped, expected = (results(name, values, whole) for whole in (True, False))
    for label, array in expected.items():
        scale = np.abs(array[np.isfinite(array)]).max(initial=0.0)
        np.testing.assert_allclose(grouped[label], array, rtol=2e-4, atol=2e-5 * scale, err_msg=label)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", BLOCKS)
def test_groups_change_nothing(name: str):
    compare(name, np.random.default_rng(1).standard_normal((ROWS, COLUMNS), np.float32))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "cross_entropy"])
def test_what_is_no_number_stays_in_its_row(name: str):
    values = np.random.default_rng(1).standard_normal((ROWS, COLUMNS), np.float32)
    values[3, :], values[5, 7], values[8, 640], values[9, 0] = -np.inf, np.nan, np.inf, -np.inf
    compare(name, values)
