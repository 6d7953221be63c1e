"""Training recipes against NumPy."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Floats = NDArray[np.float64]

X = np.random.default_rng(1).normal(size=(5, 3))
Y = np.random.default_rng(2).normal(size=(5, 2))
START = np.random.default_rng(3).normal(size=(2, 3))
RATE, BETA1, BETA2, EPSILON = 0.05, 0.8, 0.9, 1e-6


def numpy_adam(steps: int, weight_decay: float) -> Floats:
    """AdamW on the mean squared error of a linear map."""
    p, m, v = START.copy(), np.zeros_like(START), np.zeros_like(START)
    for t in range(1, steps + 1):
        gradient = 2 / 5 * (X @ p.T - Y).T @ X
        m = BETA1 * m + (1 - BETA1) * gradient
        v = BETA2 * v + (1 - BETA2) * gradient**2
        update = m / (1 - BETA1**t) / (np.sqrt(v / (1 - BETA2**t)) + EPSILON)
        p = p - RATE * (update + weight_decay * p)
    return p


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("apart", [False, True], ids=["one routine", "two routines"])
def test_adam(weight_decay: float, apart: bool):
    p = oc.param("p", START)
    loss = ((p @ oc.data(X) - oc.data(Y)) ** 2).einsum("...|... => 0") / 5
    update = train.adam_update(
        loss, learning_rate=RATE, beta1=BETA1, beta2=BETA2, epsilon=EPSILON, weight_decay=weight_decay
    )
    ctx = oc.Context.cpu()
    gradients = train.grad_update(loss)
    routines = [ctx.compile(code) for code in ([gradients, update] if apart else [gradients + update])]
    ctx.init_params(loss)
    for _ in range(7):
        for routine in routines:
            routine()
    np.testing.assert_allclose(ctx[p], numpy_adam(7, weight_decay), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("update", [train.sgd_update, train.adam_update])
def test_what_no_derivative_goes_to_stays(update: Any):
    """As PyTorch leaves out what has no gradient, also where weights decay."""
    body, head = oc.param("p", START), oc.param("p", START[:, :2])
    loss = ((head @ oc.stop_gradient(body @ oc.data(X))) ** 2).einsum("...|... => 0")
    assert list(oc.params(loss)) == ["p_1", "p"]
    trained = oc.params(loss, trained=True)
    assert len(trained) == 1
    assert next(iter(trained.values())).shape == head.shape
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(loss) + update(loss, learning_rate=RATE, weight_decay=0.1))
    ctx.init_params(loss)
    step()
    np.testing.assert_array_equal(ctx[body], START)
    assert np.abs(ctx[head] - START[:, :2]).min() > 1e-6


def test_parameters_that_code_trains_are_those_of_its_tensor():
    loss = (oc.param("p", START) ** 2).einsum("...|...->... => 0")
    with pytest.raises(
        oc.ArgumentError, match="parameters are trained by derivatives of a tensor, found code"
    ):
        oc.params(loss.forward, trained=True)


@pytest.mark.parametrize("update", [train.sgd_update, train.adam_update])
def test_nothing_to_train(update: Any):
    loss = oc.data(X).einsum("...|... => 0")
    with pytest.raises(oc.ArgumentError, match="nothing to train: the loss is computed without a"):
        update(loss, learning_rate=0.1)


def test_no_gradient_reaches_a_parameter():
    loss = oc.stop_gradient(nn.linear(out_dim=2)(oc.data(X))).sum()
    with pytest.raises(oc.ArgumentError, match=r"no gradient .* its parameters `linear\.w`, `linear\.b`;"):
        train.adamw(1e-3).step(loss)


def test_all_parameters_are_frozen():
    loss = nn.mlp(hid_dims=[4, 4], out_dim=2).freeze()(oc.data(X)).sum()
    with pytest.raises(oc.ArgumentError, match=r"`mlp\.\S+` and 2 more; they are frozen"):
        train.sgd(0.1).step(loss)


WRONG: Any = train


@pytest.mark.parametrize(
    ("update", "options", "message"),
    [
        ("sgd", {"momentum": oc.param("m")}, "momentum of sgd_update is a number, found <m"),
        ("sgd", {"momentum": -1.0}, "momentum of sgd_update is not negative, found -1.0"),
        ("sgd", {"learning_rate": -1.0}, "learning_rate of sgd_update is not negative, found -1.0"),
        ("sgd", {"learning_rate": float("nan")}, "learning_rate of sgd_update is not negative, found nan"),
        ("sgd", {"learning_rate": "fast"}, "learning_rate of sgd_update is a number, an expression or"),
        ("sgd", {"learning_rate": train.cosine(0.1, 10)}, r"an expression, as a schedule of an index"),
        ("sgd", {"nesterov": True}, "nesterov of sgd_update asks for momentum"),
        ("adam", {"beta1": -1}, "beta1 of adam_update is not negative, found -1"),
        ("adam", {"beta1": 1}, "beta1 of adam_update is less than 1, found 1"),
        ("adam", {"beta2": 2}, "beta2 of adam_update is less than 1, found 2"),
        ("adam", {"epsilon": -1}, "epsilon of adam_update is not negative, found -1"),
        ("adam", {"weight_decay": float("nan")}, "weight_decay of adam_update is not negative, found nan"),
    ],
)
def test_options_are_numbers_that_make_sense(update: str, options: Any, message: str):
    loss = (oc.param("p", START) ** 2).einsum("...|...->... => 0")
    with pytest.raises(oc.ArgumentError, match=message):
        getattr(WRONG, f"{update}_update")(loss, **{"learning_rate": 0.1, **options})
