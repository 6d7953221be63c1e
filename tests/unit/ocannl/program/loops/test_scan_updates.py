"""Code that belongs to expressions of a scan's cell: it runs once in each iteration."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Array = NDArray[Any]
X = np.random.default_rng(0).normal(size=(2, 5, 3))


def averaged(w: oc.Tensor, m: oc.Tensor) -> Any:
    """A cell that reads memory, and then moves it to the mean of what it is given."""

    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        y = oc.tanh(w * x) * (1 + m) + 0.5 * h
        with oc.code("average") as update:
            m[...] = 0.75 * m + 0.25 * oc.einsum("b | o => | o", x * x) / 2
        oc.add_update(y, update)
        return y, y

    return cell


@pytest.mark.parametrize("every", [None, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_each_iteration_reads_what_the_last_one_set(every: int | None, reverse: bool):
    torch: Any = pytest.importorskip("torch")
    with oc.precision(np.float64):
        w, m = oc.param("w", [0.5, 1.0, -1.0]), oc.node("m", output=[3], init=0.5)
    x = oc.data(X, axes="bbo", label="x")
    ys, last = oc.scan(averaged(w, m), 0.0, x, reverse=reverse, checkpoint_every=every)
    loss = (ys * ys).sum() + last.sum()
    ctx = oc.Context.cpu(1)
    code = train.grad_update(loss)
    ctx.init_params(code)
    step = ctx.compile(code)

    weights: Any = torch.tensor([0.5, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    average = torch.full((3,), 0.5, dtype=torch.float64)
    for _ in range(2):
        step()
        weights.grad, h, total = None, torch.zeros(()), torch.zeros(())
        for t in reversed(range(5)) if reverse else range(5):
            given = torch.tensor(X[:, t])
            h = torch.tanh(weights * given) * (1 + average) + 0.5 * h
            average = 0.75 * average + 0.25 * (given * given).mean(0)
            total = total + (h * h).sum()
        (total + h.sum()).backward()
        grad: Any = weights.grad
        np.testing.assert_allclose(ctx[m], average.numpy(), rtol=1e-12)
        np.testing.assert_allclose(ctx[loss], (total + h.sum()).item(), rtol=1e-12)
        np.testing.assert_allclose(ctx[w.grad], grad.numpy(), rtol=1e-11)


def test_statistics_of_a_norm_in_a_cell_are_those_of_a_loop():
    with oc.precision(np.float64):
        norm = nn.batch_norm1d()
    step = oc.index("step")

    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        y = norm(x, train_step=step)
        return h + y, y

    ys, _ = oc.scan(cell, 0.0, oc.data(X, axes="bbo", label="x"))
    ctx = oc.Context.cpu(1)
    code = train.grad_update((ys * ys * ys).sum())
    ctx.init_params(code)
    ctx.compile(code)(step=0)
    mean, variance = np.zeros(3), np.ones(3)
    for t in range(5):
        mean = 0.9 * mean + 0.1 * X[:, t].mean(0)
        variance = 0.9 * variance + 0.1 * X[:, t].var(0, ddof=1)
    np.testing.assert_allclose(ctx[norm.state["batch_norm.running_mean"]], mean, rtol=1e-12)
    np.testing.assert_allclose(ctx[norm.state["batch_norm.running_variance"]], variance, rtol=1e-12)


def test_updates_of_a_scan_without_iterations_leave_memory():
    with oc.precision(np.float64):
        w, m = oc.param("w", [0.5, 1.0, -1.0]), oc.node("m", output=[3], init=0.5)
    ys, last = oc.scan(averaged(w, m), 0.0, oc.data(X[:, :0], axes="bbo"))
    loss = ys.sum() + last.sum()
    ctx = oc.Context.cpu(1)
    ctx.init_params(loss)
    ctx.compile(oc.updates(loss) + loss.forward)()
    np.testing.assert_array_equal(ctx[m], [0.5] * 3)


def test_memory_goes_on_from_run_to_run():
    with oc.precision(np.float64):
        m = oc.node("count", output=[], init=0.0)

    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        y = x + m
        with oc.code("count") as update:
            m[...] = m + 1
        oc.add_update(y, update)
        return h, y

    zeros = oc.data(np.zeros((1, 3)), axes="bb", label="zeros")
    ys, _ = oc.scan(cell, 0.0, zeros)
    ctx = oc.Context.cpu(1)
    run = ctx.compile(ys.forward + oc.updates(ys))
    found: list[Array] = []
    for _ in range(2):
        run()
        found.append(ctx[ys])
    np.testing.assert_array_equal(np.concatenate(found), [[0, 1, 2], [3, 4, 5]])


def test_code_that_does_more_than_set_memory_is_an_error():
    x = oc.data(X, axes="bbo", label="x")
    m, n = (oc.node(name, output=[3]) for name in "mn")

    def scanned(*statements: Any) -> None:
        def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
            y = (x + h).named("y")
            mean = oc.einsum("b | o => | o", x)
            with oc.code("update") as update:
                for statement in statements:
                    statement(mean)
            oc.add_update(y, update)
            return y, y

        oc.scan(cell, 0.0, x)

    refused = "code belongs to `y`, which a scan cannot run in each iteration: it "
    with pytest.raises(oc.OcannlError, match=refused + "does more than set memory"):
        scanned(lambda mean: oc.accumulate(m, "add", mean))
    with pytest.raises(oc.OcannlError, match=refused + "sets `m` twice"):
        scanned(lambda mean: oc.set(m, mean), lambda mean: oc.set(m, 2 * mean))
    with pytest.raises(oc.OcannlError, match=refused + "reads `m` after it has set it"):
        scanned(lambda mean: oc.set(m, mean), lambda mean: oc.set(n, m + mean))
