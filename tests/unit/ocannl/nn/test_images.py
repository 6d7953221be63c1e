"""Norms and sizes of images, and normalized weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from support.nn.check import Case, check_all
from support.nn.images import CASES, X

import ocannl as oc
from ocannl import nn, train

NO_BLOCK: Any = oc.relu


@pytest.mark.sampled(2)
@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def test_a_spectral_norm_moves_after_the_gradients_of_its_loss():
    """In code, and in a function that returns the loss."""
    block, x = nn.spectral_norm(nn.linear(out_dim=3)), np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    ctx = oc.Context.cpu(threads=1)
    w, v = block.params["linear.w"], block.state["spectral_norm.v"]

    @oc.function(ctx=ctx)
    def step(x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        loss = nn.mse(block(x), 1.0)
        train.grad_update(loss)
        return loss, w.grad

    given = nn.mse(block(oc.data(x)), 1.0)
    ctx.init_params(given)
    before, wanted = np.array(ctx[v]), (ctx[given], ctx[oc.grad(given, w)])
    for found, value in zip(step(x), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5)
    assert not np.array_equal(ctx[v], before)


def test_spectral_norm_is_a_power_iteration():
    """Each training step is one step of it; applying the block is none."""
    with oc.precision(np.float64):
        block = nn.spectral_norm(nn.conv2d(out_channels=3, bias=False))
        result = block(oc.data(X, label="x"))
    ctx = oc.Context.cpu(threads=1)
    step = ctx.compile(train.grad_update(nn.mean(result)))
    ctx.init_params(result)
    w = np.asarray(ctx[oc.params(result)["conv.w"]])
    rows = w.reshape(3, -1)
    v = np.ones(rows.shape[1])
    for _ in range(3):
        u = rows @ v / np.linalg.norm(rows @ v)
        v = rows.T @ u / np.linalg.norm(rows.T @ u)
        np.testing.assert_allclose(ctx[block.w], w / (u @ rows @ v), rtol=1e-12)
        step()
        kept = ctx[block.state["spectral_norm.v"]]
        np.testing.assert_allclose(kept.ravel(), v, rtol=1e-12)


UNKNOWN: Any = "row"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.interpolate(), "either the `size` or the `scale`"),
        (lambda: nn.interpolate(size=[2], scale=2.0), "either the `size` or the `scale`"),
        (
            lambda: nn.interpolate(scale=2.0, mode="area"),
            "interpolation is nearest, nearest-exact, linear, cubic",
        ),
        (lambda: nn.interpolate(scale=[1.0, -1.0]), "a positive number"),
        (lambda: nn.weight_norm(nn.linear(out_dim=2), "v"), "has no weights `v`"),
        (lambda: nn.weight_norm(NO_BLOCK), "found function"),
        (lambda: nn.weight_norm(nn.linear(out_dim=2), per=UNKNOWN), "per output, channel, all, found 'row'"),
        (lambda: nn.spectral_norm(nn.linear(out_dim=2), steps=-1), "an int from 0, found -1"),
    ],
)
def test_settings_that_there_are_not(make: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message):
        make()


def test_sizes_that_are_not_known():
    images = oc.param("images", batch=[oc.Dim("h"), oc.Dim("w")])
    with pytest.raises(oc.ShapeError, match="not known yet"):
        nn.interpolate(scale=2.0)(images)


def test_channels_that_are_no_groups():
    with pytest.raises(oc.ShapeError, match="not divisible by 3"):
        oc.infer(nn.group_norm(num_groups=3)(oc.data(X)))


def test_groups_of_channels_are_summed_last():
    """The sums over images have all channels as their points, which are side by side in memory."""
    y = nn.group_norm(num_groups=2)(oc.data(np.zeros((2, 6, 6, 32), np.float32)))
    text = y.forward.ir("inline-nodes")
    assert text.count("loops.reduce add (n0 = 6, n1 = 6)") == 2
    assert text.count("loops.reduce add (c = 16)") == 2


def test_cells_that_are_repeated_are_no_gather():
    """Nor is their gradient a scatter; an axis whose size has a basis is gathered."""
    with_basis = [2, oc.Dim("h", 5, basis="px"), 3]
    for batch, gathers in (([2, 5, 3], 0), (with_basis, 1)):
        x = oc.param("x", batch=batch, output=[2], input=[])
        y = nn.interpolate(size=[10, 6])(x)
        assert y.shape.batch == (2, 10, 6)
        assert y.forward.ir("assign").count('assign.node "cells') == gathers


@pytest.mark.parametrize("layer", [nn.conv2d(out_channels=4), nn.max_pool2d(), nn.avg_pool2d()])
@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((5, 784), r"array\.reshape\(-1, 28, 28, 1\) has these axes"),
        ((5, 3072), r"array\.reshape\(-1, 32, 32, 3\) has these axes"),
        ((28, 30), r"x\[\.\.\., None\] has an axis of one channel"),
    ],
)
def test_images_have_height_and_width(layer: Any, shape: tuple[int, ...], hint: str):
    said = rf"an image is batch, height, width \| channels, and `x` is .*\n  hint: {hint}"
    with pytest.raises(oc.ShapeError, match=said):
        layer(oc.data(np.zeros(shape), label="x"))


def test_signals_have_positions():
    with pytest.raises(oc.ShapeError, match=r"an image is batch, position \| channels, and `x` is 7"):
        nn.conv1d(out_channels=4)(oc.data(np.zeros(7), label="x"))


def test_gray_images_need_an_axis_of_one_channel():
    """A batch of them looks like one image of many channels; nothing is said where that cannot be."""
    conv = nn.conv2d(out_channels=4)
    told = r"`x` \(5,28\|28\) is taken for one image, of 5 x 28 with 28 channels: x\[\.\.\., None\] is 5 gray"
    with pytest.warns(UserWarning, match=told):
        conv(oc.data(np.zeros((5, 28, 28)), label="x"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in [(28, 28, 3), (5, 28, 28, 28), (8, 9, 16)]:
            nn.conv2d(out_channels=4)(oc.data(np.zeros(shape)))
