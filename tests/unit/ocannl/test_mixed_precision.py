"""Training in small floats, with parameters of the same type or of f32; blocks in bf16 against f32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import moons
import numpy as np
import pytest
from numpy.typing import NDArray
from support import device_programs as programs
from support.nn.tables import fresh_cases

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import PrecisionError

Array = NDArray[Any]
HALVES = pytest.mark.parametrize("dtype", [oc.float16, oc.bfloat16], ids=["f16", "bf16"])


def wide(array: Array) -> NDArray[np.float32]:
    return np.asarray(array).astype(np.float32)


def trained_moons(
    dtype: Any, scope: AbstractContextManager[None]
) -> tuple[float, dict[str, oc.Tensor], oc.Context]:
    """How many of the points are classified, after 300 steps; the parameters."""
    points, classes = moons.half_moons(200, seed=1)
    with scope:
        model = nn.mlp(hid_dims=[16, 16], out_dim=1)
    x, sides = oc.data(points.astype(dtype)), oc.data(classes.astype(np.float32).reshape(-1, 1))
    scores = oc.cast(model(x), oc.float32)
    margins = (sides * scores).named("margins")
    loss = (oc.relu(1 - margins).einsum("...|... => 0") / 200).named("loss")
    ctx = oc.Context.cpu()
    update = train.sgd_update(loss, learning_rate=0.1, momentum=0.9)
    step = ctx.compile(train.grad_update(loss) + update + oc.forward(margins))
    ctx.init_params(loss)
    for _ in range(300):
        step()
    assert ctx[loss].dtype == np.float32
    return float(np.mean(ctx[margins] > 0)), oc.params(loss), ctx


class TestMoons:
    @HALVES
    def test_all_in_one_type(self, dtype: Any):
        """Data say the type: parameters, activations and gradients have it, the loss is f32."""
        right, params, ctx = trained_moons(dtype, nullcontext())
        assert right > 0.98
        for p in params.values():
            assert ctx[p].dtype == ctx[p.grad].dtype == dtype

    @pytest.mark.exhaustive
    @HALVES
    def test_parameters_are_kept_in_f32(self, dtype: Any):
        right, params, ctx = trained_moons(dtype, oc.precision(oc.float32, compute=dtype))
        assert right > 0.98
        for p in params.values():
            assert ctx[p].dtype == ctx[p.grad].dtype == np.float32


class TestPrecision:
    def test_a_default_for_parameters(self):
        with oc.precision(oc.bfloat16):
            w, b = oc.param("w", output=3), oc.param("b", 0.0, output=3, dtype=oc.float32)
        ctx = oc.Context.cpu()
        ctx.init_params(w + b)
        assert (ctx[w].dtype, ctx[b].dtype) == (oc.bfloat16, np.float32)

    def test_the_gradient_is_that_of_what_is_kept(self):
        with oc.precision(oc.float32, compute=oc.bfloat16):
            w = oc.param("w", np.array([1.001, 2.0], np.float32))
        loss = (w * w).sum()
        ctx = oc.Context.cpu(1)
        with oc.code() as clipped:
            oc.run(train.grad_update(loss))
            w.grad *= 0.5
        step = ctx.compile(clipped + train.sgd_update(loss, learning_rate=1.0))
        ctx.init_params(loss)
        step()
        np.testing.assert_allclose(ctx[w.grad], [1.0, 2.0], rtol=1e-2)
        np.testing.assert_allclose(ctx[oc.params(w)["w"]], [0.001, 0.0], atol=1e-6)
        assert ctx[w.grad].dtype == np.float32

    def test_what_is_kept_is_what_is_set(self):
        with oc.precision(oc.float32, compute=oc.bfloat16):
            w = oc.param("w", np.ones(2, np.float32))
        ctx = oc.Context.cpu(1)
        with pytest.raises(oc.OcannlError, match=r"oc\.params\(w\)\['w'\] is what is kept"):
            ctx[w] = np.zeros(2, np.float32)
        with oc.code(), pytest.raises(oc.OcannlError, match=r"oc\.params\(w\)\['w'\] is what is kept"):
            w[...] = 0
        ctx[oc.params(w)["w"]] = np.full(2, 1.001, np.float32)
        np.testing.assert_array_equal(ctx[w], np.ones(2))

    def test_what_is_used_names_what_is_trained(self):
        with oc.precision(oc.float32, compute=oc.bfloat16):
            layer = nn.linear(in_dim=2, out_dim=2)
        optimizer = train.sgd(0.1, momentum=0.9)
        loss = nn.mse(layer(oc.data(np.ones((3, 2), np.float32))), 0.0)
        _code = optimizer.step(loss, params=[layer.w])
        assert {*oc.state(optimizer)} == {"sgd.steps", "sgd.linear.w.sgd_momentum"}

    def test_outside_it_is_inferred(self):
        with oc.precision(oc.bfloat16):
            pass
        w = oc.param("w", output=3)
        ctx = oc.Context.cpu()
        ctx.init_params(w)
        assert ctx[w].dtype == np.float32

    def test_what_is_used_is_rounded(self):
        with oc.precision(oc.float32, compute=oc.bfloat16):
            w = oc.param("w", [1.001, 1.01, 3.3])
        y = w * oc.data(np.ones(3, oc.bfloat16))
        ((name, kept),) = oc.params(y).items()
        ctx = oc.Context.cpu()
        ctx.init_params(y)
        assert name == "w"
        np.testing.assert_array_equal(ctx[kept], np.array([1.001, 1.01, 3.3], np.float32))
        np.testing.assert_array_equal(wide(ctx[y]), wide(ctx[kept].astype(oc.bfloat16)))

    @pytest.mark.parametrize("kept", [oc.bfloat16, np.float32])
    def test_factors_alone_are_rounded(self, kept: Any):
        """Bits of the weights beyond bf16 count where these are used otherwise; no result is rounded."""
        with oc.precision(kept, compute=oc.float32, factors=oc.bfloat16):
            w = oc.param("w", input=40, output=30)
        x = np.random.default_rng(7).normal(size=(20, 40)).astype(np.float32)
        y = w @ oc.data(x)
        loss = oc.sum(y) + oc.sum(w)
        ctx = oc.Context.cpu(1)
        step = ctx.compile(train.grad_update(loss) + oc.forward(y))
        ctx.init_params(loss)
        step()
        ((_, param),) = oc.params(loss).items()
        weights, rounded = (wide(a.astype(oc.bfloat16)).astype(np.float64) for a in (ctx[param], x))
        assert ctx[y].dtype == np.float32
        np.testing.assert_allclose(ctx[y], rounded @ weights.T, rtol=1e-5, atol=1e-6)
        slopes = np.broadcast_to(rounded.sum(0) + 1, weights.shape)
        np.testing.assert_allclose(wide(ctx[param.grad]), slopes, rtol=0.01, atol=0.02)

    @pytest.mark.parametrize("dtype", [np.float32, oc.bfloat16])
    def test_factors_have_fewer_bits(self, dtype: Any):
        with (
            pytest.raises(PrecisionError, match=f"factors have fewer bits .* found {np.dtype(dtype)} beside"),
            oc.precision(dtype, factors=dtype),
        ):
            pass

    def test_in_line_parameters(self):
        @oc.block
        def scaled(p: Any, x: oc.Tensor) -> oc.Tensor:
            return p.w(output=3) @ x

        with oc.precision(oc.float32, compute=oc.bfloat16):
            y = scaled()(oc.data(np.ones((4, 2), oc.bfloat16))).einsum("... | ... => 0")
        ctx = oc.Context.cpu()
        ctx.init_params(y)
        (w,) = oc.params(y).values()
        assert (ctx[w].dtype, ctx[y].dtype) == (np.float32, oc.bfloat16)

    def test_not_of_integers(self):
        with (
            pytest.raises(PrecisionError, match="parameters are of a floating dtype, found int32"),
            oc.precision(np.int32),
        ):
            pass


@HALVES
def test_small_steps_are_not_lost(dtype: Any):
    """In bf16, 1 - 0.001 is 1; what an optimizer keeps is f32, and so is what parameters are kept in."""
    with oc.precision(oc.float32, compute=dtype):
        w = oc.param("w", 1.0, output=1)
    loss = (w * oc.data(np.ones(1, dtype))).einsum("... | ... => 0")
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(loss) + train.adam_update(loss, learning_rate=0.001))
    ctx.init_params(loss)
    for _ in range(50):
        step()
    (kept,) = oc.params(loss).values()
    np.testing.assert_allclose(ctx[kept], 0.95, rtol=1e-3)


@HALVES
def test_nodes_are_at_least_f32(dtype: Any):
    p, n = oc.param("p", 1.0, output=2, dtype=dtype), oc.node("n", output=2, init=0.0)
    like = oc.node("like", like=p, init=0.0)
    with oc.code("count") as code:
        n += p
        like += 1
    ctx = oc.Context.cpu()
    ctx.init_params(p)
    step = ctx.compile(code)
    for _ in range(300):
        step()
    assert ctx[n].dtype == ctx[like].dtype == np.float32
    np.testing.assert_array_equal(ctx[n], [300, 300])


BLOCKS, IN_F32 = fresh_cases(), fresh_cases()
# Where two values are one in bf16, another one of them is the greatest.
KINKS = ("pool: max", "vision")
SAMPLE = 60


def check_block(name: str) -> None:
    wanted = IN_F32[name].found_on(oc.Context.cpu(threads=1), np.float32)
    dtype: Any = oc.bfloat16
    found = BLOCKS[name].found_on(oc.Context.cpu(threads=1), dtype)
    programs.close(wide(found.value), wide(wanted.value), 0.03, "value")
    if name.startswith(KINKS):
        return
    for param, gradient in wanted.param_gradients.items():
        programs.close(wide(found.param_gradients[param]), wide(gradient), 0.1, param)
    for k, gradient in enumerate(wanted.input_gradients):
        programs.close(wide(found.input_gradients[k]), wide(gradient), 0.1, f"input {k}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(BLOCKS)[::SAMPLE])
def test_blocks(name: str):
    check_block(name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BLOCKS)
def test_all_blocks(name: str):
    check_block(name)


def test_gradients_of_another_precision():
    """Each is rounded once, in its own precision: of 300 products of bf16, the sum is exact in f32."""
    x = (1 + np.arange(300) / 128).astype(oc.bfloat16)
    with oc.precision(oc.bfloat16, grads=oc.float32):
        w, b = oc.param("w", 0.5), oc.param("b", 0.0, output=2)
    loss = oc.cast((w @ oc.data(x.reshape(300, 1)) + b).einsum("...|...=>0"), oc.float32).named("loss")
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.grad_update(loss))
    ctx.init_params(loss)
    step()
    assert [ctx[p].dtype for p in (w, b)] == [oc.bfloat16] * 2
    assert ctx[w.grad].dtype == ctx[b.grad].dtype == np.float32
    np.testing.assert_array_equal(ctx[w.grad], np.full((2, 1), wide(x).sum(dtype=np.float64)))
    np.testing.assert_array_equal(ctx[b.grad], [300, 300])
    assert "texpr.grad %w : !texpr.tensor<1 -> 2, f32>" in train.grad_update(loss).ir("infer-precisions")
    assert oc.grad(loss, w).ir("infer-precisions").count("bf16") > 1


def autocast_of_torch(
    model: Callable[[Any, Mapping[str, Any], Any], Any], x: Array, params: Mapping[str, Array]
) -> tuple[Array, dict[str, Array]]:
    """The value of a model under PyTorch's autocast, and the gradients of the mean of its squares."""
    torch = pytest.importorskip("torch")
    p = {name: torch.tensor(np.array(value), requires_grad=True) for name, value in params.items()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(torch, p, torch.tensor(x)).float()
    (y**2).mean().backward()
    return y.detach().numpy(), {name: t.grad.numpy() for name, t in p.items()}


def torch_mlp(torch: Any, p: Mapping[str, Any], x: Any) -> Any:
    linear = torch.nn.functional.linear
    for layer in ("layer1", "layer2"):
        x = torch.relu(linear(x, p[f"mlp.{layer}.w"], p[f"mlp.{layer}.b"]))
    return linear(x, p["mlp.w_out"])


def torch_conv(torch: Any, p: Mapping[str, Any], x: Any) -> Any:
    kernel = p["conv.w"].permute(0, 3, 1, 2)
    return torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), kernel, p["conv.b"], padding=1).permute(
        0, 2, 3, 1
    )


def torch_attention(torch: Any, p: Mapping[str, Any], x: Any) -> Any:
    q, k, v = (torch.einsum("bsi,hdi->bhsd", x, p[f"attention.{w}"]) for w in ("w_q", "w_k", "w_v"))
    weights = torch.softmax(q @ k.transpose(-1, -2) / 3**0.5, -1)
    return torch.einsum("bhsd,ohd->bso", weights @ v, p["attention.w_o"])


UNDER_AUTOCAST: dict[str, tuple[Callable[[], Any], tuple[int, ...], Callable[..., Any]]] = {
    "mlp": (lambda: nn.mlp(hid_dims=[40, 24], out_dim=10), (32, 48), torch_mlp),
    "conv2d": (lambda: nn.conv2d(out_channels=5), (2, 8, 8, 3), torch_conv),
    "attention": (
        lambda: nn.multi_head_attention(num_heads=2, d_k=3, d_v=3, out_dim=7),
        (2, 5, 6),
        torch_attention,
    ),
}


@pytest.mark.parametrize("name", UNDER_AUTOCAST)
def test_products_of_f32_are_those_of_autocast(name: str):
    """With parameters that are used in bf16, products of f32 data are computed in bf16; all else is f32."""
    make, shape, in_torch = UNDER_AUTOCAST[name]
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    with oc.precision(oc.float32, compute=oc.bfloat16):
        block = make()
    y = block(oc.data(x)).named("y")
    loss = nn.mean(y**2)
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.grad_update(loss) + oc.forward(y))
    ctx.init_params(loss)
    step()
    params = oc.params(loss)
    assert ctx[y].dtype == ctx[loss].dtype == np.float32
    value, slopes = autocast_of_torch(in_torch, x, {key: ctx[p] for key, p in params.items()})
    programs.close(ctx[y], value, 0.01, "value")
    for key, p in params.items():
        programs.close(ctx[p.grad], slopes[key], 0.03, key)
    for stage in ("autocast", "differentiate"):
        text = train.grad_update(loss).ir(stage)
        wide = [line for line in text.splitlines() if "add= mul(" in line and line.endswith("f32>")]
        assert not wide, wide


def test_sums_norms_and_losses_stay_in_f32():
    x = np.random.default_rng(5).normal(size=(4, 300)).astype(np.float32)
    with oc.precision(oc.float32, compute=oc.bfloat16):
        norm = nn.layer_norm()
    y = norm(oc.data(x))
    target = np.abs(x) / np.abs(x).sum(-1, keepdims=True)
    loss = nn.cross_entropy(y, oc.data(target))
    ctx = oc.Context.cpu(1)
    ctx.init_params(loss)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(ctx[y], wanted, rtol=1e-5, atol=1e-5)
    logits = wanted - np.log(np.exp(wanted).sum(-1, keepdims=True))
    np.testing.assert_allclose(float(ctx[loss]), -(target * logits).sum(-1).mean(), rtol=1e-5)


def test_matrix_units_multiply_what_is_rounded():
    with oc.precision(oc.float32, compute=oc.bfloat16):
        model = nn.mlp(hid_dims=[256], out_dim=64)
    loss = nn.mean(model(oc.data(np.ones((128, 192), np.float32))) ** 2)
    text = train.grad_update(loss).ir("schedule", target="sapphirerapids")
    # Two products forward, and for each the gradient of its weights; for the second that of its input.
    assert text.count("dot = tdpbf16ps") == 5
