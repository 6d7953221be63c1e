"""Parameters from PyTorch and to it: values and gradients of each block that has a counterpart there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn
from ocannl.interop.counterparts import COUNTERPARTS
from ocannl.interop.torch import to_arrays

Array = NDArray[Any]
RNG = np.random.default_rng(1)


def random(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


# Layouts, without PyTorch.


def test_a_linear_layer_is_as_it_is():
    weight, bias, x = random(4, 3), random(4), random(5, 3)
    layer, ctx = nn.linear(out_dim=4), oc.Context.cpu()
    oc.interop.from_torch(ctx, layer, {"weight": weight, "bias": bias})
    np.testing.assert_allclose(ctx[layer(oc.data(x))], x @ weight.T + bias, rtol=1e-5)
    assert layer.w.shape == "3->4"
    assert [*to_arrays(ctx, layer)] == ["weight", "bias"]


def test_rows_of_several_axes_are_one():
    weight, ctx = random(6, 4), oc.Context.cpu()
    layer = nn.linear(out_dim=[2, 3], bias=False)
    y = layer(oc.data(random(5, 2, 2), axes="boo"))
    oc.infer(y)
    oc.interop.from_torch(ctx, layer, {"weight": weight})
    np.testing.assert_array_equal(ctx[layer.w], weight.reshape(2, 3, 2, 2))
    np.testing.assert_array_equal(to_arrays(ctx, layer)["weight"], weight)


def test_parameters_that_are_used_in_a_narrower_float_are_set_as_they_are_kept():
    """Mixed precision begins from PyTorch's weights, and gives all of their bits back."""
    with oc.precision(np.float32, compute=oc.bfloat16):
        layer, ctx = nn.linear(out_dim=2), oc.Context.cpu()
    arrays = {"weight": np.array([[1.001, 2, 3], [4, 5, 6]], "f"), "bias": np.array([1.001, 2], "f")}
    oc.interop.from_torch(ctx, layer, arrays)
    np.testing.assert_array_equal(ctx[layer.params["linear.w"]], arrays["weight"])
    assert ctx[layer.w][0, 0] == 1
    found = to_arrays(ctx, layer)
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())


def test_channels_of_a_kernel_are_last():
    weight, ctx = random(5, 2, 3, 4), oc.Context.cpu()
    layer = nn.conv2d(kernel_size=(3, 4), out_channels=5, bias=False)
    oc.interop.from_torch(ctx, layer, {"weight": weight})
    np.testing.assert_array_equal(ctx[layer.w], weight.transpose(0, 2, 3, 1))


def test_parts_are_named_by_their_path():
    """Blocks in lists, parameters alone, and modules of other names."""

    @oc.block
    def model(p: Any, x: oc.Tensor) -> oc.Tensor:
        return p.scale(1.0, output=3) * layers[1](oc.tanh(layers[0](x)))

    layers = [nn.linear(out_dim=3, bias=False, label=f"l{k}") for k in range(2)]
    net, x, ctx = model(), oc.data(random(5, 3)), oc.Context.cpu()
    y = net(x)
    given = {"body.0.weight": random(3, 3), "body.1.weight": random(3, 3), "scale": random(3)}
    oc.interop.from_torch(ctx, net, given, map={"body": "layers"})
    hidden = np.tanh(ctx[x] @ given["body.0.weight"].T)
    np.testing.assert_allclose(ctx[y], given["scale"] * (hidden @ given["body.1.weight"].T), rtol=2e-5)
    back = to_arrays(ctx, net, {"layers": "body"})
    assert back.keys() == given.keys()
    for name, array in given.items():
        np.testing.assert_array_equal(back[name], array)


def test_nothing_changes_unless_all_fits():
    layer, ctx = nn.linear(out_dim=4, bias=True), oc.Context.cpu()
    y = layer(oc.data(random(5, 3)))
    ctx.init_params(y)
    before = ctx[layer.w]
    with pytest.raises(oc.StateError) as error:
        oc.interop.from_torch(ctx, layer, {"weight": random(4, 2), "gain": random(4)})
    place, *lines = str(error.value).splitlines()
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+: nothing was taken over", place)
    assert lines == ["  missing: bias", "  not in the block: gain"]
    with pytest.raises(oc.StateError, match=r"w: 3->4 in the block, \(4, 2\) given"):
        oc.interop.from_torch(ctx, layer, {"weight": random(4, 2), "bias": random(4)})
    np.testing.assert_array_equal(ctx[layer.w], before)


def test_names_that_a_map_would_tell():
    """`nn.Sequential` numbers its modules, so that names of both sides end alike and begin otherwise."""
    model, ctx = nn.mlp(hid_dims=[4], out_dim=2), oc.Context.cpu()
    given = {"0.weight": random(4, 3), "0.bias": random(4), "2.weight": random(2, 4)}
    with pytest.raises(oc.StateError, match=r"hint: .*map=\{'0': 'layers\.0'\}"):
        oc.interop.from_torch(ctx, model, given)
    layers = [nn.linear(out_dim=2) for _ in range(5)]
    numbered = {f"{2 * k}.{part}": random(2) for k in range(5) for part in ("weight", "bias")}
    shown = {f"{2 * k}": f"layers.{k}" for k in range(4)}
    with pytest.raises(oc.StateError, match=re.escape(f"map={shown}, and 1 more")):
        oc.interop.from_torch(ctx, lambda x: [layer(x) for layer in layers], numbered)
    with pytest.raises(oc.StateError, match=r"in `map`: '1\.\*' fits no name of PyTorch here"):
        oc.interop.from_torch(ctx, model, given, map={"1.*": "layers.0.*", "2.weight": "w_out"})
    for first in ({"0": "layers.0"}, {"0.*": "layers.0.*"}):
        oc.interop.from_torch(ctx, model, given, map={**first, "2.weight": "w_out"})
        np.testing.assert_array_equal(ctx[model.w_out], given["2.weight"])
    module = type("Module", (), {"state_dict": given.copy})()
    with pytest.raises(oc.ArgumentError, match=r"the arrays of a module are its state_dict\(\)"):
        oc.interop.from_torch(ctx, model, module)


def test_axes_that_are_known_of_an_open_row_are_kept():
    """The input row is open yet, and what the layer is applied to has 3 features: arrays for 2 do not fit."""
    layer, ctx = nn.linear(out_dim=4), oc.Context.cpu()
    y = layer(oc.data(random(5, 3)))
    with pytest.raises(oc.StateError) as error:
        oc.interop.from_torch(ctx, layer, {"weight": random(4, 2), "bias": random(4)})
    line = str(error.value).splitlines()[1]
    assert line.endswith(",3->4 in the block, (4, 2) given")
    weight, bias = random(4, 3), random(4)
    oc.interop.from_torch(ctx, layer, {"weight": weight, "bias": bias})
    assert ctx[y].shape == (5, 4)


# PyTorch.

IMAGE, SEQUENCE = (2, 9, 10, 4), (2, 7, 8)
BLOCKS: dict[str, tuple[Callable[[], Any], str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "linear": (lambda: nn.linear(out_dim=5), "Linear", (8, 5), {}, (3, 8)),
    "linear without bias": (lambda: nn.linear(out_dim=5, bias=False), "Linear", (8, 5, False), {}, (3, 8)),
    "conv1d": (lambda: nn.conv1d(out_channels=6, padding=1), "Conv1d", (8, 6, 3), {"padding": 1}, SEQUENCE),
    "conv2d": (
        lambda: nn.conv2d(kernel_size=(3, 2), stride=2, padding=1, out_channels=6),
        "Conv2d",
        (4, 6, (3, 2)),
        {"stride": 2, "padding": 1},
        IMAGE,
    ),
    "conv2d in groups": (
        lambda: nn.conv2d(groups=2, padding=1, out_channels=6),
        "Conv2d",
        (4, 6, 3),
        {"groups": 2, "padding": 1},
        IMAGE,
    ),
    "conv3d": (
        lambda: nn.conv3d(kernel_size=2, use_padding=False, out_channels=3),
        "Conv3d",
        (2, 3, 2),
        {},
        (2, 4, 5, 6, 2),
    ),
    "conv_transpose2d": (
        lambda: nn.conv_transpose2d(kernel_size=3, stride=2, padding=1, out_channels=6),
        "ConvTranspose2d",
        (4, 6, 3),
        {"stride": 2, "padding": 1},
        IMAGE,
    ),
    "conv_transpose2d in groups": (
        lambda: nn.conv_transpose2d(kernel_size=2, stride=2, padding=0, groups=2, out_channels=6),
        "ConvTranspose2d",
        (4, 6, 2),
        {"stride": 2, "groups": 2},
        IMAGE,
    ),
    "conv_transpose1d": (
        lambda: nn.conv_transpose1d(kernel_size=4, stride=2, padding=1, out_channels=6),
        "ConvTranspose1d",
        (8, 6, 4),
        {"stride": 2, "padding": 1},
        SEQUENCE,
    ),
    "conv_transpose3d": (
        lambda: nn.conv_transpose3d(kernel_size=2, stride=2, padding=0, output_padding=1, out_channels=3),
        "ConvTranspose3d",
        (2, 3, 2),
        {"stride": 2, "output_padding": 1},
        (2, 2, 3, 2, 2),
    ),
    "group_norm": (lambda: nn.group_norm(num_groups=2), "GroupNorm", (2, 4), {}, IMAGE),
    "instance_norm": (lambda: nn.instance_norm(affine=True), "InstanceNorm2d", (4,), {"affine": True}, IMAGE),
    "mlp_layer": (lambda: nn.mlp_layer(hid_dim=5), "Linear", (8, 5), {}, (3, 8)),
    "layer_norm": (lambda: nn.layer_norm(), "LayerNorm", (8,), {}, (3, 8)),
    "rms_norm": (lambda: nn.rms_norm(), "RMSNorm", (8,), {"eps": 1e-5}, (3, 8)),
    "batch_norm1d": (lambda: nn.batch_norm1d(), "BatchNorm1d", (8,), {}, (3, 8)),
    "batch_norm2d": (lambda: nn.batch_norm2d(), "BatchNorm2d", (4,), {}, IMAGE),
    "group_norm plain": (
        lambda: nn.group_norm(num_groups=2, affine=False),
        "GroupNorm",
        (2, 4),
        {"affine": False},
        IMAGE,
    ),
    "layer_norm plain": (
        lambda: nn.layer_norm(affine=False),
        "LayerNorm",
        (8,),
        {"elementwise_affine": False},
        (3, 8),
    ),
    "rms_norm plain": (
        lambda: nn.rms_norm(affine=False),
        "RMSNorm",
        (8,),
        {"eps": 1e-5, "elementwise_affine": False},
        (3, 8),
    ),
    "batch_norm2d plain": (
        lambda: nn.batch_norm2d(affine=False),
        "BatchNorm2d",
        (4,),
        {"affine": False},
        IMAGE,
    ),
    "lstm": (lambda: nn.lstm(5), "LSTM", (8, 5), {"batch_first": True}, SEQUENCE),
    "gru": (lambda: nn.gru(5), "GRU", (8, 5), {"batch_first": True}, SEQUENCE),
    "rnn": (lambda: nn.rnn(5), "RNN", (8, 5), {"batch_first": True}, SEQUENCE),
    "multi_head_attention": (
        lambda: nn.multi_head_attention(num_heads=2, d_k=4, d_v=4, out_dim=8, bias=True),
        "MultiheadAttention",
        (8, 2),
        {"batch_first": True},
        SEQUENCE,
    ),
}


def applied(module: Any, name: str, x: Any) -> Any:
    """The module on channels that are last."""
    if name.startswith(("conv", "group", "instance")) or "norm2d" in name:
        return module(x.movedim(-1, 1)).movedim(1, -1)
    if name == "multi_head_attention":
        return module(x, x, x, need_weights=False)[0]
    if name == "mlp_layer":
        return module(x).relu()
    return module(x)[0] if name in ("lstm", "gru", "rnn") else module(x)


@pytest.mark.parametrize("name", BLOCKS)
def test_values_and_gradients_are_those_of_pytorch(name: str):
    torch = pytest.importorskip("torch")
    make, theirs, args, options, shape = BLOCKS[name]
    torch.manual_seed(1)
    module = getattr(torch.nn, theirs)(*args, **options).eval()
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.ndim:
                tensor.copy_(torch.rand(tensor.shape) + 0.1)
    array = random(*shape)
    x = oc.param("x", array, batch=list(shape[:-1]), output=shape[-1], input=[], dtype=np.float32)
    block, ctx = make(), oc.Context.cpu(threads=1)
    y = block(x)
    ctx.init_params(x)
    oc.interop.from_torch(ctx, block, module.state_dict())

    given = torch.tensor(array, requires_grad=True)
    wanted = applied(module, name, given)
    np.testing.assert_allclose(ctx[y], wanted.detach(), rtol=2e-4, atol=2e-5)
    (wanted**2).sum().backward()
    gradient = ctx[oc.grad((y * y).einsum("...|... => |"), x)]
    np.testing.assert_allclose(gradient, given.grad, rtol=1e-3, atol=1e-3)

    again = getattr(torch.nn, theirs)(*args, **options).eval()
    again.load_state_dict(oc.interop.to_torch(ctx, block))
    np.testing.assert_allclose(applied(again, name, given).detach(), wanted.detach(), rtol=1e-5, atol=1e-6)


def test_every_counterpart_is_compared():
    """Apart from those whose inputs are ids or two sequences, which have tests of their own, and from the
    vectors of positions, which are a parameter in PyTorch.
    """
    compared = {name.partition(" ")[0] for name in BLOCKS} | {"embedding", "cross_attention"}
    assert set(COUNTERPARTS) - compared == {"learned_positions"}


def test_an_embedding():
    torch = pytest.importorskip("torch")
    module, block, ctx = torch.nn.Embedding(6, 4), nn.embedding(num=6, dim=4), oc.Context.cpu()
    ids = np.array([[0, 5, 3]], np.int32)
    oc.interop.from_torch(ctx, block, module.state_dict())
    np.testing.assert_array_equal(ctx[block(oc.data(ids, axes="bb"))], module(torch.tensor(ids)).detach())
    assert oc.interop.to_torch(ctx, block)["weight"].shape == (6, 4)


def test_small_floats_of_pytorch():
    torch = pytest.importorskip("torch")
    block, ctx = nn.linear(out_dim=4, bias=False), oc.Context.cpu()
    weight = torch.rand(4, 3).to(torch.bfloat16)
    oc.interop.from_torch(ctx, block, {"weight": weight})
    np.testing.assert_array_equal(ctx[block.w], weight.float())


def test_pytorch_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(oc.OcannlError, match="to_torch needs PyTorch: pip install torch"):
        oc.interop.to_torch(oc.Context.cpu(), nn.linear(out_dim=4))
