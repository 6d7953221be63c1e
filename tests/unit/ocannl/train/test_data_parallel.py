"""Data parallel training in several contexts: what one context gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

rng = np.random.default_rng(2)
POINTS, TARGETS = rng.normal(size=(12, 5)), rng.normal(size=(12, 2))
WEIGHTS = rng.normal(size=(8, 5)), rng.normal(size=(2, 8))
UPDATES: list[Callable[[], Any]] = [
    lambda: lambda loss: train.sgd_update(loss, learning_rate=0.1, momentum=0.9),
    lambda: train.adamw(lr=1e-2, clip_norm=1.0),
    lambda: train.sgd(lr=0.1, accumulate=2),
]


def trained(contexts: Any, update: Any, reduction: Any = "mean") -> list[NDArray[Any]]:
    """The losses of some steps on two batches, and the parameters of the last context."""
    w1, w2 = oc.param("w1", WEIGHTS[0]), oc.param("w2", WEIGHTS[1])
    driver = train.data_parallel(
        lambda x, y: nn.mse(w2 @ oc.tanh(w1 @ x), y),
        POINTS,
        TARGETS,
        contexts=contexts,
        update=update,
        reduction=reduction,
    )
    losses: list[float] = []
    for scale in (1, 1, 2, 2):
        driver.set_batch(scale * POINTS, scale * TARGETS)
        driver.step()
        losses.append(driver.loss)
    assert all(np.array_equal(ctx[w1], driver.owner[w1]) for ctx in driver.contexts)
    return [np.array(losses), driver.contexts[-1][w1], driver.contexts[-1][w2]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("count", [2, 3])
def test_the_mean_of_parts_is_that_of_one_context(update: Callable[[], Any], count: int) -> None:
    for one, several in zip(trained(1, update()), trained(count, update()), strict=True):
        np.testing.assert_allclose(several, one, rtol=0, atol=1e-12)


def test_each_run_has_the_same_bits() -> None:
    for first, second in zip(trained(4, UPDATES[0]()), trained(4, UPDATES[0]()), strict=True):
        assert np.array_equal(first, second)


def test_contexts_of_different_devices() -> None:
    mixed = [oc.Context.cpu(threads=1), oc.Context.emulated_gpu()]
    for one, several in zip(trained(1, UPDATES[0]()), trained(mixed, UPDATES[0]()), strict=True):
        np.testing.assert_allclose(several, one, rtol=0, atol=1e-12)


def test_a_sum_of_losses_and_an_index() -> None:
    """Batches in steps, divided along their second axis."""
    step_n = oc.index("step_n", 3)
    xs, ys = POINTS.reshape(3, 4, 5), TARGETS.reshape(3, 4, 2)

    def losses(count: int) -> list[float]:
        w = oc.param("w", WEIGHTS[1][:, :5])
        driver = train.data_parallel(
            lambda x, y: oc.sum((w @ x[step_n] - y[step_n]) ** 2),
            oc.data(xs, label="xs"),
            oc.data(ys, label="ys"),
            contexts=count,
            update=lambda loss: train.sgd_update(loss, learning_rate=0.01),
            reduction="sum",
            axis=1,
        )
        found: list[float] = []
        for number in range(3):
            driver.step(step_n=number)
            found.append(driver.loss)
        return found

    np.testing.assert_allclose(losses(2), losses(1), rtol=1e-12)


def test_random_numbers_of_parts_differ() -> None:
    w = oc.param("w", np.zeros(1))
    driver = train.data_parallel(
        lambda x, y: oc.sum(oc.uniform(0, like=x) + 0 * y) + oc.sum(w * 0),
        np.zeros((4, 1)),
        np.zeros((4, 1)),
        contexts=2,
        update=lambda loss: train.sgd_update(loss, learning_rate=0.0),
    )
    driver.step()
    first, second = (float(ctx[loss]) for ctx, loss in zip(driver.contexts, driver.losses, strict=True))
    assert first != second


def test_shards_are_gathered_again() -> None:
    data = oc.data(np.arange(24).reshape(2, 4, 3), axes="bbo", bases={2: "rgb"}, label="pixels")
    shards = train.shard_along(data, 2, axis=1)
    assert [str(shard.shape) for shard in shards] == ["2,2|3:rgb"] * 2
    again = train.gather(shards, axis=1)
    assert str(again.shape) == str(data.shape)
    assert np.array_equal(oc.Context.cpu()[again], np.arange(24).reshape(2, 4, 3))


def test_what_cannot_be_divided() -> None:
    data, w = oc.data(POINTS, label="points"), oc.param("w", WEIGHTS[0])
    with pytest.raises(oc.ArgumentError, match="has 12 elements along axis 0, which are not 5 equal"):
        train.shard_along(data, 5)
    with pytest.raises(oc.ArgumentError, match="none of number 2"):
        train.shard_along(data, 2, axis=2)
    with pytest.raises(oc.ArgumentError, match="`w` has no array of its own"):
        train.shard_along(w, 2)
    with pytest.raises(oc.ArgumentError, match="at least 1"):
        train.shard_along(data, 0)
    with pytest.raises(oc.ArgumentError, match="there are none"):
        train.gather([])
    with pytest.raises(oc.ArgumentError, match="does not continue"):
        train.gather([data, oc.data(TARGETS)])


def test_an_update_is_an_optimizer_or_a_function() -> None:
    name: Any = "sgd"
    w = oc.param("w", WEIGHTS[0])
    with pytest.raises(oc.ArgumentError, match=r"such as train\.sgd\(lr=0\.1\), .* found 'sgd'"):
        train.data_parallel(lambda x, y: nn.mse(w @ x, y), POINTS, TARGETS, contexts=2, update=name)


def test_an_error_of_one_part_is_raised_when_all_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the next step finds none of them running."""
    w, ended = oc.param("w", np.ones((1, 2))), list[bool]()
    training = train.data_parallel(
        lambda x, y: nn.mse(w @ x, y), np.ones((2, 2)), np.ones((2, 1)), contexts=2, update=train.sgd(0.1)
    )

    def fail() -> None:
        raise oc.OcannlError("of the first part")

    def end() -> None:
        time.sleep(0.05)
        ended.append(True)

    monkeypatch.setattr(training, "_gradients", [fail, end])
    with pytest.raises(oc.OcannlError, match="of the first part"):
        training.step()
    assert ended == [True]


def test_a_model_of_each_part_is_an_error() -> None:
    with pytest.raises(oc.ArgumentError, match="`loss_of` makes new parameters each time"):
        train.data_parallel(
            lambda x, y: nn.mse(nn.linear(out_dim=2)(x), y),
            POINTS,
            TARGETS,
            contexts=2,
            update=train.sgd(lr=0.1),
        )


@pytest.mark.exhaustive
def test_its_state_is_what_goes_on(tmp_path: Path) -> None:
    """No gradients, which are zeroed first, but the statistics of norms, which a step updates."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 1))

    def trained() -> train.DataParallel:
        hidden, norm, out = nn.linear(out_dim=4), nn.batch_norm1d(), nn.linear(out_dim=1)
        step_n = oc.index("step_n")
        return train.data_parallel(
            lambda x, y: nn.mse(out(oc.relu(norm(hidden(x), train_step=step_n))), y),
            inputs=x,
            targets=y,
            contexts=2,
            update=train.adamw(lr=0.01),
        )

    first, second = trained(), trained()
    state = oc.state(first)
    assert not [name for name in state if name.endswith(".grad")]
    assert set(state.kinds.values()) == {"parameter", "statistic", "moment", "counter"}
    first.step(step_n=0)
    first.owner.save(tmp_path / "state.npz", first)
    second.owner.load(tmp_path / "state.npz", second)
    second.share_params()
    for driver in (first, second):
        driver.step(step_n=1)
    again = oc.state(second)
    for name, entry in state.items():
        np.testing.assert_array_equal(first.owner[entry], second.owner[again[name]])
