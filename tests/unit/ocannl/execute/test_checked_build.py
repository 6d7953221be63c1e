"""`OCANNL_CHECK=1`: each load and store of the CPU's code is checked to be inside of its array."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from steps import PROBLEMS
from steps_ocannl import Runs
from support.fuzz_routines import fuzz
from support.random_features import Feature
from support.random_updates import narrow_parameters, trained_scan
from support.targets.functions import PROGRAMS

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import DeviceError
from ocannl.runtime.cpu.native import NativeDevice


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> oc.Context:
    monkeypatch.setenv("OCANNL_CHECK", "1")
    return oc.Context.cpu(threads=2)


def test_an_access_that_nobody_foresaw_is_an_error_and_changes_nothing(checked: oc.Context):
    """The check of indices before a run is passed by."""
    i = oc.index("i")
    table, total = oc.node("table", batch=3, output=4), oc.node("total", output=4)
    with oc.code("move") as move:
        total += oc.data(np.ones((3, 4), np.float32), label="x")[i]
    step = checked.compile(move, name="step")
    step(i=2)
    for wrong in (3, -1, 2**40):
        step._args.values[step._slots["i"]] = wrong
        with pytest.raises(DeviceError, match=rf"`x`: an access is outside at element {4 * wrong}"):
            step()
    before = checked[total]
    step(i=0)
    np.testing.assert_array_equal(checked[total] - before, np.ones(4))
    assert table not in checked


@pytest.mark.sampled(17)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_touch_what_is_theirs(checked: oc.Context, name: str):
    """They have the bits that they have without checks."""
    plain = oc.Context("cpu", 2, NativeDevice())
    found, expected = PROGRAMS[name](checked, np.float32), PROGRAMS[name](plain, np.float32)
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)


def test_random_routines_touch_what_is_theirs():
    fuzz(5, seed=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [trained_scan, narrow_parameters])
def test_random_updates(checked: oc.Context, make: Callable[[np.random.Generator, int], list[Feature]]):
    """Training goes on from run to run as in NumPy."""
    with oc.code("random") as code:
        found = [feature for seed in range(2) for feature in make(np.random.default_rng(seed), 3)]
    step = checked.compile(code)
    checked.init_params(code)
    for _ in range(3):
        step()
    for feature in found:
        feature.check(checked[feature.value])


def test_gradients_of_attention_in_one_routine(monkeypatch: pytest.MonkeyPatch):
    """A group of online-softmax that stood before the one that it reads, which a second run shows."""
    monkeypatch.setenv("OCANNL_CHECK", "1")
    ctx = oc.Context.cpu(threads=2, target="x86-64-v3")
    rng = np.random.default_rng(1)
    q, k, v, weights = (rng.normal(size=(n, 16)) for n in (64, 130, 130, 64))
    mask = rng.random((64, 130)) < 0.5
    qt, kt, vt = (oc.data(a.astype(np.float32), axes="oo") for a in (q, k, v))
    scores = oc.where(oc.data(mask, axes="oo"), 0.1 * oc.einsum("s,d; t,d => s,t", qt, kt), -1e9)
    powers = oc.exp(scores - oc.max(scores, -1, True))
    y = oc.einsum("s,t; t,e => s,e", powers / oc.sum(powers, -1, True), vt)

    def loss() -> oc.Tensor:
        return (y * oc.data(weights.astype(np.float32), axes="oo")).sum()

    slopes = [oc.grad(loss(), leaf) for leaf in (qt, kt, vt)]
    step = ctx.compile(sum(map(oc.forward, slopes), y.forward))
    step()
    step()
    p = np.where(mask, np.exp(0.1 * q @ k.T), 0)
    p /= p.sum(-1, keepdims=True)
    inner = weights @ v.T
    inner = 0.1 * p * (inner - (inner * p).sum(-1, keepdims=True))
    for slope, wanted in zip(slopes, (inner @ k, inner.T @ q, p.T @ weights), strict=True):
        np.testing.assert_allclose(ctx[slope], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.exhaustive
def test_many_random_routines_touch_what_is_theirs():
    fuzz(100_000, seed=1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["moons", "lenet"])
def test_benchmarked_steps_touch_what_is_theirs(name: str, monkeypatch: pytest.MonkeyPatch):
    losses: list[list[float]] = []
    for check in ("1", "0"):
        monkeypatch.setenv("OCANNL_CHECK", check)
        runs = Runs(PROBLEMS[name]())
        runs.first()
        losses.append(runs.values()["losses"])
    assert losses[0] == losses[1]


def encoder(x: oc.Tensor) -> oc.Tensor:
    return nn.transformer_encoder(1, 2, d_k=3, d_v=3, d_ff=7)(x)


def images(x: oc.Tensor) -> oc.Tensor:
    return nn.batch_norm2d()(nn.conv2d(out_channels=5)(nn.max_pool2d()(x)), train_step=oc.index("n"))


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("model", "shape"),
    [(encoder, (3, 5, 6)), (images, (2, 10, 6, 3)), (lambda x: nn.lstm(hid_dim=5)(x), (3, 4, 6))],
    ids=["encoder", "images", "lstm"],
)
def test_training_steps_of_odd_sizes(
    checked: oc.Context, model: Callable[[oc.Tensor], oc.Tensor], shape: tuple[int, ...]
):
    x = oc.data(
        np.random.default_rng(1).normal(size=shape).astype(np.float32), axes="b" * (len(shape) - 1) + "o"
    )
    loss = oc.einsum("...|... => 0", model(x) ** 2)
    step = checked.compile(train.grad_update(loss) + train.adam_update(loss, learning_rate=0.1), name="step")
    checked.init_params(loss)
    step()
    step()
    assert np.isfinite(float(checked[loss]))
