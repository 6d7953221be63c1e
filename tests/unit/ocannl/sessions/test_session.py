"""Sessions: TorchLean's operations on both backends, values and gradients against PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.layering import ROOT
from support.tensors import Array, arrays_of

import ocannl as oc
from ocannl.sessions.operations import OPERATIONS

Call = tuple[Callable[..., Any], Callable[..., Any], list[tuple[int, ...]]]


def cases(torch: Any) -> dict[str, Call]:
    """By name: the operation here, that of PyTorch, and the shapes of its arguments."""
    f = torch.nn.functional

    def attention(wq: Any, wk: Any, wv: Any, wo: Any, x: Any) -> Any:
        q, k, v = ((x @ w).reshape(4, 2, 3).transpose(0, 1) for w in (wq, wk, wv))
        scores = (q @ k.transpose(1, 2) / 3**0.5).masked_fill(
            ~torch.tril(torch.ones(4, 4)).bool(), -torch.inf
        )
        return (scores.softmax(-1) @ v).transpose(0, 1).reshape(4, 6) @ wo

    def norm(x: Any, g: Any, b: Any) -> Any:
        mean, var = x.mean((1, 2), keepdim=True), x.var((1, 2), keepdim=True, correction=0)
        return (x - mean) / (var + 1e-5).sqrt() * g[:, None, None] + b[:, None, None]

    def smooth(x: Any) -> Any:
        return f.unfold(x[None], 2, stride=1).reshape(2, 4, 12).mul(3).logsumexp(1).reshape(2, 3, 4) / 3

    two: list[tuple[int, ...]] = [(3, 4), (3, 4)]
    one: list[tuple[int, ...]] = [(3, 4)]
    image: list[tuple[int, ...]] = [(2, 4, 5)]
    weights: list[tuple[int, ...]] = [(5, 6)] * 3 + [(6, 5), (4, 5)]
    mask = np.tril(np.ones((4, 4)))
    found: dict[str, Call] = {
        "add": (lambda s, a, b: s.add(a, b), torch.add, two),
        "sub": (lambda s, a, b: s.sub(a, b), torch.sub, two),
        "mul": (lambda s, a, b: s.mul(a, b), torch.mul, two),
        "max": (lambda s, a, b: s.max(a, b), torch.maximum, two),
        "min": (lambda s, a, b: s.min(a, b), torch.minimum, two),
        "scale": (lambda s, a: s.scale(a, 2.5), lambda a: a * 2.5, one),
        "clamp": (lambda s, a: s.clamp(a, -0.5, 1.0), lambda a: a.clamp(-0.5, 1.0), one),
        "inv": (lambda s, a: s.inv(a), torch.reciprocal, one),
        "sqrt": (lambda s, a: s.sqrt(s.exp(a)), lambda a: a.exp().sqrt(), one),
        "log": (lambda s, a: s.log(s.exp(a)), lambda a: a.exp().log(), one),
        "safe_log": (lambda s, a: s.safeLog(a, 0.1), lambda a: a.clamp(min=0.1).log(), one),
        "softmax": (lambda s, a: s.softmax(a), lambda a: a.softmax(-1), one),
        "log_softmax": (lambda s, a: s.logSoftmax(a), lambda a: a.log_softmax(-1), one),
        "softplus": (lambda s, a: s.softplus(a), f.softplus, one),
        "silu": (lambda s, a: s.silu(a), f.silu, one),
        "gelu": (lambda s, a: s.gelu(a), lambda a: f.gelu(a, approximate="tanh"), one),
        "sum": (lambda s, a: s.sum(a), torch.sum, one),
        "flatten": (lambda s, a: s.flatten(a), torch.flatten, one),
        "reshape": (lambda s, a: s.reshape(a, (2, 2, 3)), lambda a: a.reshape(2, 2, 3), one),
        "transpose2d": (lambda s, a: s.transpose2d(a), torch.t, one),
        "transpose3d_first_to_last": (
            lambda s, a: s.transpose3d_first_to_last(a),
            lambda a: a.permute(1, 2, 0),
            image,
        ),
        "transpose3d_last_to_first": (
            lambda s, a: s.transpose3d_last_to_first(a),
            lambda a: a.permute(2, 0, 1),
            image,
        ),
        "transpose3d_last_two": (lambda s, a: s.transpose3d_last_two(a), lambda a: a.transpose(1, 2), image),
        "swap_adjacent_at_depth": (
            lambda s, a: s.swapAdjacentAtDepth(a, 0),
            lambda a: a.transpose(0, 1),
            image,
        ),
        "broadcast_to": (lambda s, a: s.broadcastTo(a, (2, 3, 4)), lambda a: a.expand(2, 3, 4), one),
        "reduce_sum": (lambda s, a: s.reduce_sum(a, 1), lambda a: a.sum(1), image),
        "reduce_mean": (lambda s, a: s.reduce_mean(a, 0), lambda a: a.mean(0), image),
        "gather_scalar": (lambda s, a: s.gather_scalar(a, 2), lambda a: a[2], [(5,)]),
        "gather_scalar_nat": (lambda s, a: s.gather_scalar_nat(a, s.nat(2)), lambda a: a[2], [(5,)]),
        "gather_row": (lambda s, a: s.gather_row(a, 1), lambda a: a[1], one),
        "gather_row_nat": (lambda s, a: s.gather_row_nat(a, s.nat(7)), lambda a: 0 * a[0], one),
        "gather_vec_nat": (
            lambda s, a: s.gather_vec_nat(a, s.nat([3, 0, 3])),
            lambda a: a[[3, 0, 3]],
            [(5,)],
        ),
        "gather_rows_nat": (lambda s, a: s.gather_rows_nat(a, s.nat([2, 0])), lambda a: a[[2, 0]], one),
        "scatter_add_vec": (
            lambda s, a, v: s.scatter_add_vec(a, 3, v),
            lambda a, v: a + v * f.one_hot(torch.tensor(3), 5),
            [(5,), ()],
        ),
        "scatter_add_row": (
            lambda s, a, v: s.scatter_add_row(a, 1, v),
            lambda a, v: a + v * f.one_hot(torch.tensor(1), 3)[:, None],
            [(3, 4), (4,)],
        ),
        "matmul": (lambda s, a, b: s.matmul(a, b), torch.matmul, [(3, 4), (4, 2)]),
        "bmm": (lambda s, a, b: s.bmm(a, b), torch.bmm, [(2, 3, 4), (2, 4, 5)]),
        "concat_vectors": (
            lambda s, a, b: s.concat_vectors(a, b),
            lambda a, b: torch.cat([a, b]),
            [(3,), (2,)],
        ),
        "concat_dim0": (
            lambda s, a, b: s.concat_dim0(a, b),
            lambda a, b: torch.cat([a, b]),
            [(3, 4), (1, 4)],
        ),
        "slice_range0": (lambda s, a: s.slice_range0(a, 1, 2), lambda a: a[1:3], one),
        "max_pool": (lambda s, a: s.max_pool(a, [3], [2]), lambda a: f.max_pool1d(a, 3, 2), [(2, 9)]),
        "max_pool2d": (lambda s, a: s.max_pool2d(a, 2, 1), lambda a: f.max_pool2d(a, 2, 1), image),
        "max_pool2d_pad": (
            lambda s, a: s.max_pool2d_pad(a, 3, 2, 1),
            lambda a: f.max_pool2d(a, 3, 2, 1),
            image,
        ),
        "avg_pool": (lambda s, a: s.avg_pool(a, [3], [2]), lambda a: f.avg_pool1d(a, 3, 2), [(2, 9)]),
        "avg_pool2d": (lambda s, a: s.avg_pool2d(a, 2, 1), lambda a: f.avg_pool2d(a, 2, 1), image),
        "avg_pool2d_pad": (
            lambda s, a: s.avg_pool2d_pad(a, 3, 2, 1),
            lambda a: f.avg_pool2d(a, 3, 2, 1),
            image,
        ),
        "smooth_max_pool": (lambda s, a: s.smooth_max_pool(a, 2, 1, 3.0), smooth, image),
        "smooth_max_pool2d": (lambda s, a: s.smooth_max_pool2d(a, 2, 1, 3.0), smooth, image),
        "global_avg_pool2d": (lambda s, a: s.global_avg_pool2d(a), lambda a: a.mean((1, 2)), image),
        "linear": (
            lambda s, w, b, x: s.linear(w, b, x),
            lambda w, b, x: f.linear(x, w, b),
            [(3, 4), (3,), (4,)],
        ),
        "mse_loss": (lambda s, a, b: s.mseLoss(a, b), f.mse_loss, two),
        "layer_norm": (
            lambda s, x, g, b: s.layerNorm(x, g, b),
            lambda x, g, b: f.layer_norm(x, (4,), g, b),
            [(3, 4), (4,), (4,)],
        ),
        "batchnorm_channel_first": (
            lambda s, x, g, b: s.batchnormChannelFirst(x, g, b),
            norm,
            [(2, 4, 5), (2,), (2,)],
        ),
        "multi_head_attention": (
            lambda s, *args: s.multiHeadAttention(2, *args, mask=mask),
            attention,
            weights,
        ),
        "conv": (
            lambda s, k, b, x: s.conv(k, b, x, 2, 1),
            lambda k, b, x: f.conv1d(x[None], k, b, 2, 1)[0],
            [(3, 2, 3), (3,), (2, 9)],
        ),
        "conv2d": (
            lambda s, k, b, x: s.conv2d(k, b, x, 1, 1),
            lambda k, b, x: f.conv2d(x[None], k, b, 1, 1)[0],
            [(3, 2, 3, 3), (3,), (2, 4, 5)],
        ),
        "conv_transpose": (
            lambda s, k, b, x: s.convTranspose(k, b, x, 2, 1),
            lambda k, b, x: f.conv_transpose1d(x[None], k, b, 2, 1)[0],
            [(2, 3, 3), (3,), (2, 5)],
        ),
        "conv_transpose2d": (
            lambda s, k, b, x: s.conv_transpose2d(k, b, x, 2, 0),
            lambda k, b, x: f.conv_transpose2d(x[None], k, b, 2, 0)[0],
            [(2, 3, 3, 3), (3,), (2, 3, 4)],
        ),
    }
    for name in ("abs", "relu", "sigmoid", "tanh", "exp"):
        found[name] = (lambda s, a, name=name: getattr(s, name)(a), getattr(torch, name), one)
    found["detach"] = (lambda s, a: s.mul(s.detach(a), a), lambda a: a.detach() * a, one)
    return found


def results(session: oc.Session, call: Callable[..., Any], arrays: list[Array], seed: Array) -> list[Array]:
    leaves = [session.use(session.param(array)) for array in arrays]
    y = call(session, *leaves)
    value = session.value(y)
    session.backward_with_seed(y, seed)
    found = [value, *(session.grad(leaf) for leaf in leaves)]
    session.reset()
    return found


def check(name: str) -> None:
    torch = pytest.importorskip("torch")
    call, reference, shapes = cases(torch)[name]
    arrays = arrays_of(*shapes)
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    wanted = reference(*tensors)
    (seed,) = arrays_of(tuple(wanted.shape), seed=9)
    wanted.backward(torch.tensor(seed))
    theirs = [wanted.detach().numpy(), *(t.grad.numpy() for t in tensors)]
    for backend in ("eager", "compiled"):
        found = results(oc.Session(backend), call, arrays, seed)
        for mine, its in zip(found, theirs, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-9, err_msg=name)


SAMPLE = 9
"""Every so many operations are always tested."""


@pytest.mark.parametrize("name", sorted(OPERATIONS)[::SAMPLE])
def test_some_operations_against_pytorch(name: str):
    check(name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_against_pytorch(name: str):
    check(name)


def test_every_operation_has_a_case():
    assert set(OPERATIONS) == set(cases(pytest.importorskip("torch")))


def test_the_page_has_every_operation():
    page = (ROOT / "docs" / "coming_from_torchlean.md").read_text()
    rows = page.partition("| operation of a session |")[2].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("|")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)[`(]", cell)}
    assert named == set(OPERATIONS)


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_steps(kind: str):
    """Both backends give the same bits, and what the rules say."""
    found: list[list[Any]] = []
    for backend in ("eager", "compiled"):
        s = oc.Session(backend)
        w = s.param(np.array([[1.0, -2.0]]))
        x = s.const(np.array([[0.5], [3.0]]))
        seen: list[Any] = []
        for _ in range(3):
            loss = s.sum(s.matmul(s.use(w), x))
            s.backward(s.mul(loss, loss))
            before = s.value(loss)
            getattr(s, f"{kind}_step")(lr=0.1)
            assert s.value(loss) == before
            seen += [before, s.grad(w), s.value(w)]
            s.reset()
        found.append(seen)
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_array_equal(eager, compiled)
    value, mean, square = np.array([[1.0, -2.0]]), 0.0, 0.0
    at = np.array([[0.5], [3.0]])
    for step in range(1, 4):
        gradient = 2 * (value @ at) * at.T
        np.testing.assert_allclose(found[0][3 * step - 2], gradient)
        if kind == "sgd":
            value = value - 0.1 * gradient
        else:
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            delta = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
            value = value * (1 - (0.1 * 0.01 if kind == "adamw" else 0)) - 0.1 * delta
        np.testing.assert_allclose(found[0][3 * step - 1], value)


def test_methods_have_the_names_of_lean_too():
    s = oc.Session()
    for theirs, ours in (
        ("backwardWithSeed", s.backward_with_seed),
        ("sgdStep", s.sgd_step),
        ("adamWStep", s.adamw_step),
        ("randUniform", s.rand_uniform),
    ):
        assert getattr(s, theirs) == ours
    assert {"log_softmax", "sgd_step"} <= {*dir(s)}


def test_random_numbers():
    one, same, other = (oc.Session(b, seed=n) for b, n in (("eager", 1), ("compiled", 1), ("eager", 2)))
    drawn = [s.value(s.uniform((50,))) for s in (one, same, other)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0], one.value(one.uniform((50,))))
    mask = one.value(one.bernoulli_mask(0.25, (400,), seed=3))
    assert set(np.unique(mask)) == {0, 1}
    assert 0.15 < mask.mean() < 0.35
    np.testing.assert_array_equal(mask, same.value(same.bernoulliMask(0.25, (400,), 3)))


@pytest.mark.parametrize("backend", ["eager", "compiled"])
def test_leaves_and_errors(backend: str):
    s = oc.Session(backend)
    with pytest.raises(oc.OcannlError, match="there are no gradients yet"):
        s.sgd_step(0.1)
    x, c = s.input([1.0, 2.0], requires_grad=True), s.const([3.0, 4.0])
    y = s.mul(x, c)
    s.backward(s.sum(y))
    np.testing.assert_array_equal(s.grad(x), [3, 4])
    np.testing.assert_array_equal(s.grad(y), [1, 1])
    with pytest.raises(oc.OcannlError, match="has no gradient: use"):
        s.grad(c)
    with pytest.raises(AttributeError, match="a session has no operation 'conv7d'"):
        s.conv7d(x)


def test_settings_are_checked():
    with pytest.raises(oc.ArgumentError, match="there is no backend 'lazy'; there are eager, compiled"):
        oc.Session("lazy")
    with pytest.raises(oc.ArgumentError, match="there is no matmul precision 'low'"):
        oc.Session(matmul_precision="low")


@pytest.mark.parametrize("backend", ["eager", "compiled"])
def test_a_step_is_of_the_gradients_that_there_are(backend: str):
    """Parameters that were used since `backward` have none, nor has any after one that failed."""
    s = oc.Session(backend)
    p, q = s.param([1.0, 2.0]), s.param([3.0])
    with pytest.raises(oc.OcannlError, match="of one number"):
        s.backward(s.use(p))
    with pytest.raises(oc.OcannlError, match="no gradients yet"):
        s.sgd_step(0.5)
    s.backward(s.sum(s.mul(s.use(p), s.use(p))))
    s.use(q)
    s.sgd_step(0.25)
    np.testing.assert_array_equal(s.value(p), [0.5, 1.0])
    np.testing.assert_array_equal(s.value(q), [3.0])
