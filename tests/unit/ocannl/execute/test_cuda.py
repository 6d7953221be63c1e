"""Whole programs on an NVIDIA GPU, whose driver has a stand-in, give what they give on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from support.cuda_on_cpu import FakeDriver, install
from support.device_programs import close, train_decoder, train_moons

import ocannl as oc
from ocannl import nn, train
from ocannl.runtime.cuda.ptxas import find_ptxas

Array = NDArray[np.float32]


# What happens when objects go away is tested, too.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    install(monkeypatch, found)
    return found


def test_moons_train_alike(driver: FakeDriver):
    """With a loop; ptxas takes the text that the driver is given."""
    driver.assembles = "sm_80" if find_ptxas() else None
    found = train_moons(oc.Context.cuda())
    np.testing.assert_array_equal(found, train_moons(oc.Context.emulated_gpu()))
    np.testing.assert_allclose(found, train_moons(oc.Context.cpu()), rtol=1e-4)


@pytest.mark.parametrize("tf32", [False, True])
def test_products_on_tensor_cores(driver: FakeDriver, tf32: bool):
    rng = np.random.default_rng(0)
    w, x = (rng.standard_normal((64, 32)).astype(np.float32) for _ in range(2))
    y = oc.data(w, axes="oi") @ oc.data(x, axes="bo")
    ctx = oc.Context.cuda(tf32=tf32)
    step = ctx.compile(y, name="step")
    step()
    assert ("mma.sync" in step.ptx()) == tf32
    close(ctx[y], x @ w.T, 5e-3 if tf32 else 1e-5, "product")


@pytest.mark.exhaustive
def test_a_decoder_trains_alike(driver: FakeDriver):
    wanted, found = train_decoder(oc.Context.cpu()), train_decoder(oc.Context.cuda())
    for name, array in wanted.items():
        close(found[name], array, 2e-5, name)


def train_lenet(ctx: oc.Context) -> tuple[Array, list[Array]]:
    rng = np.random.default_rng(0)
    n = oc.index("n", 2)
    images = oc.data(rng.standard_normal((2, 4, 12, 12, 1)).astype(np.float32), axes="bbbbo", label="images")
    classes = oc.data(rng.integers(0, 10, (2, 4)), axes="bb", label="classes")
    loss = nn.cross_entropy(nn.lenet(num_classes=10)(images[n]), classes[n])
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss, seed=3)
    losses = step.run_loop(epochs=2, record=[loss])[loss]
    return losses, [ctx[p] for p in oc.params(loss).values()]


@pytest.mark.exhaustive
def test_lenet_trains_alike(driver: FakeDriver):
    (wanted, parameters), (found, others) = train_lenet(oc.Context.cpu()), train_lenet(oc.Context.cuda())
    close(found, wanted, 2e-5, "losses")
    for parameter, other in zip(parameters, others, strict=True):
        close(other, parameter, 2e-5, "parameter")
