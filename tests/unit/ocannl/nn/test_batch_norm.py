"""Batch normalization in training and after it."""

from __future__ import annotations

import numpy as np
import pytest
from support.nn.batch_norm import CASES, X1
from support.nn.check import Array, Case, arrays_of, check_all

import ocannl as oc
from ocannl import nn, train


@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


class Running:
    """A batch norm over a batch that changes from step to step, trained and then used."""

    def __init__(self, batches: Array, momentum: float) -> None:
        norm = nn.batch_norm2d(momentum=momentum)
        batch_n = oc.index("batch_n", len(batches))
        x = oc.data(batches, label="x")[batch_n]
        loss = nn.mse(norm(x, train_step=batch_n), oc.constant(1.0)).named("loss")
        self.used = norm(oc.data(batches[0], label="test"))
        self.ctx = oc.Context.cpu()
        self.step = self.ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
        self.ctx.init_params(loss)

    def train(self) -> None:
        for _ in self.step.loop():
            pass

    def result(self) -> Array:
        return np.asarray(self.ctx[self.used])


def running_statistics(batches: Array, momentum: float) -> tuple[Array, Array]:
    mean, variance = np.zeros(batches.shape[-1]), np.ones(batches.shape[-1])
    for batch in batches:
        rows = batch.reshape(-1, batch.shape[-1])
        mean = momentum * mean + (1 - momentum) * rows.mean(0)
        variance = momentum * variance + (1 - momentum) * rows.var(0, ddof=1)
    return mean, variance


@pytest.mark.parametrize("momentum", [0.9, 0.5])
def test_running_statistics(momentum: float):
    (batches,) = arrays_of((3, 2, 3, 2, 4))
    running = Running(5 + 2 * batches, momentum)
    running.train()
    mean, variance = running_statistics(5 + 2 * batches, momentum)
    gain, offset = (running.ctx[p] for p in oc.params(running.used).values())
    assert np.any(offset != 0)
    wanted = (5 + 2 * batches[0] - mean) / np.sqrt(variance + 1e-5) * gain + offset
    np.testing.assert_allclose(running.result(), wanted, rtol=1e-12)


def test_running_statistics_against_torch():
    torch = pytest.importorskip("torch")
    (batches,) = arrays_of((3, 2, 3, 2, 4))
    running = Running(batches, 0.9)
    running.train()
    module = torch.nn.BatchNorm2d(4, dtype=torch.float64)
    images = torch.tensor(batches).movedim(-1, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for image in images:
        optimizer.zero_grad()
        ((module(image) - 1) ** 2).mean().backward()
        optimizer.step()
    wanted = module.eval()(images[0]).detach().movedim(1, -1).numpy()
    np.testing.assert_allclose(running.result(), wanted, rtol=1e-12)


def test_used_before_it_is_trained():
    norm = nn.batch_norm1d()
    ctx = oc.Context.cpu()
    used = norm(oc.data(X1))
    use = train.forward_once(ctx, used)
    train.update_once(ctx, nn.mean(norm(oc.data(X1), train_step=oc.index("step_n"))))
    use()
    mean, variance = running_statistics(X1[None], 0.9)
    np.testing.assert_allclose(ctx[used], (X1 - mean) / np.sqrt(variance + 1e-5))


class TestUpdates:
    def test_computing_a_loss_runs_none(self):
        norm = nn.batch_norm1d()
        loss = nn.mean(norm(oc.data(X1), train_step=oc.index("step_n")))
        after = norm(oc.data(X1))
        ctx = oc.Context.cpu()
        train.forward_once(ctx, loss)
        train.forward_once(ctx, after)
        np.testing.assert_allclose(ctx[after], X1 / np.sqrt(1 + 1e-5))
        assert len(oc.updates(after).statements) == 0

    def test_they_are_of_what_a_loss_depends_on(self):
        x = oc.data(np.ones(3), label="x")
        count, other = oc.node("count", output=[], init=0.0), oc.node("other", output=[], init=0.0)
        counted, unused = 2 * x, 3 * x
        oc.add_update(counted, oc.set(count, count + 1))
        oc.add_update(counted, oc.set(count, count * 2))
        oc.add_update(unused, oc.set(other, other + 1))
        ctx = oc.Context.cpu()
        train.update_once(ctx, nn.mean(counted))
        assert float(ctx[count]) == 2
        assert float(ctx[other]) == 0
