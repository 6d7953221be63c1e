"""Attention and whole transformers from PyTorch and to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn
from ocannl.interop.torch import to_arrays

Array = NDArray[Any]
RNG = np.random.default_rng(1)


def random(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def test_attention_to_another_sequence():
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    block, ctx = nn.cross_attention(num_heads=2, d_k=4, d_v=4, out_dim=8, bias=True), oc.Context.cpu()
    arrays = random(2, 3, 8), random(2, 5, 8)
    x, memory = (oc.data(array, label="x") for array in arrays)
    y = block(x, memory)
    oc.interop.from_torch(ctx, block, module.state_dict())
    given, other = (torch.tensor(array, requires_grad=True) for array in arrays)
    wanted = module(given, other, other, need_weights=False)[0]
    np.testing.assert_allclose(ctx[y], wanted.detach(), rtol=2e-4, atol=2e-5)
    (wanted**2).sum().backward()
    found = oc.grad((y * y).einsum("...|... => |"), [x, memory])
    for gradient, tensor in zip(found, (given, other), strict=True):
        np.testing.assert_allclose(ctx[gradient], tensor.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("bias_kv", "zero_attn"), [(True, False), (False, True), (True, True)])
def test_attention_to_positions_that_it_adds(bias_kv: bool, zero_attn: bool, masked: bool):
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(8, 2, add_bias_kv=bias_kv, add_zero_attn=zero_attn, batch_first=True)
    block, ctx = (
        nn.multi_head_attention(
            num_heads=2, d_k=4, d_v=4, out_dim=8, bias=True, bias_kv=bias_kv, zero_attn=zero_attn
        ),
        oc.Context.cpu(),
    )
    array = random(2, 5, 8)
    x = oc.data(array, axes="bbo")
    y = block(x, nn.causal_mask() if masked else None)
    oc.interop.from_torch(ctx, block, module.state_dict())
    given = torch.tensor(array, requires_grad=True)
    later = torch.nn.Transformer.generate_square_subsequent_mask(5) if masked else None
    wanted = module(given, given, given, need_weights=False, attn_mask=later)[0]
    np.testing.assert_allclose(ctx[y], wanted.detach(), rtol=2e-4, atol=2e-5)
    (wanted**2).sum().backward()
    parts = [x, *([block.bias_k, block.bias_v] if bias_kv else [])]
    theirs = [
        given.grad,
        *([p.grad.reshape(2, 4) for p in (module.bias_k, module.bias_v)] if bias_kv else []),
    ]
    found = oc.grad((y * y).einsum("...|... => |"), parts)
    for gradient, other in zip(found, theirs, strict=True):
        np.testing.assert_allclose(ctx[gradient], other, rtol=1e-3, atol=1e-4)
    back = oc.interop.to_torch(ctx, block)
    assert {*back} == {*module.state_dict()}
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(back[name], tensor)


def test_attention_to_other_features():
    """PyTorch keeps the products apart then."""
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
    block, ctx = nn.cross_attention(num_heads=2, d_k=4, d_v=4, out_dim=8, bias=True), oc.Context.cpu()
    arrays = random(2, 3, 8), random(2, 5, 6)
    y = block(*[oc.data(array) for array in arrays])
    oc.infer(y)
    oc.interop.from_torch(ctx, block, module.state_dict())
    given, other = map(torch.tensor, arrays)
    wanted = module(given, other, other, need_weights=False)[0]
    np.testing.assert_allclose(ctx[y], wanted.detach(), rtol=2e-4, atol=2e-5)
    back = oc.interop.to_torch(ctx, block)
    assert {*back} == {*module.state_dict()}
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(back[name], tensor)


def test_attention_that_pytorch_has_not():
    pytest.importorskip("torch")
    ctx = oc.Context.cpu()
    wrong: list[dict[str, Any]] = [{"d_k": 3, "d_v": 2}, {"d_k": 2, "d_v": 2, "num_kv_heads": 2}]
    for sizes in wrong:
        block = nn.multi_head_attention(num_heads=4, out_dim=8, **sizes)
        ctx.init_params(block(oc.data(random(2, 3, 8))))
        with pytest.raises(
            oc.ArgumentError, match="PyTorch's attention has as many keys and values as queries"
        ):
            oc.interop.to_torch(ctx, block)


SIZES: Any = {"num_heads": 2, "d_k": 4, "d_v": 4, "d_ff": 12, "bias": True}
OF_LAYERS: Any = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0, "batch_first": True}


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("kind", ["layer", "stack", "decoder_layer", "decoder", "whole"])
def test_whole_transformers(kind: str, pre_norm: bool):
    """By PyTorch's names of what is in them."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    options = {**OF_LAYERS, "norm_first": pre_norm}
    how: Any = {**SIZES, "pre_norm": pre_norm}
    norm = torch.nn.LayerNorm(8)
    one, other = (torch.nn.TransformerEncoderLayer(**options), torch.nn.TransformerDecoderLayer(**options))
    module, block = {
        "layer": lambda: (one, nn.encoder_layer(**how)),
        "stack": lambda: (
            torch.nn.TransformerEncoder(one, 2, norm if pre_norm else None, enable_nested_tensor=False),
            nn.transformer_encoder(2, **how),
        ),
        "decoder_layer": lambda: (other, nn.decoder_layer(**how)),
        "decoder": lambda: (
            torch.nn.TransformerDecoder(other, 2, norm),
            nn.transformer_decoder(2, **how, last_norm=True),
        ),
        "whole": lambda: (
            torch.nn.Transformer(num_encoder_layers=2, num_decoder_layers=1, **options),
            nn.transformer(2, **how, num_decoder_layers=1, last_norm=True),
        ),
    }[kind]()
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.add_(torch.rand(tensor.shape) * 0.1)
    arrays = [random(2, 5, 8)] if kind in ("layer", "stack") else [random(2, 5, 8), random(2, 4, 8)]
    ctx = oc.Context.cpu(threads=1)
    given = [torch.tensor(array) for array in arrays]
    ours: dict[str, Any] = {}
    hidden: dict[str, Any] = {}
    if len(arrays) > 1:
        hidden["tgt_mask"] = torch.ones(4, 4, dtype=torch.bool).triu(1)
        # PyTorch's decoders take the memory second.
        arrays, given = (arrays, given) if kind == "whole" else (arrays[::-1], given[::-1])
        ours["mask"] = nn.causal_mask()
    y = block(*[oc.data(array, label="x") for array in arrays], **ours)
    oc.interop.from_torch(ctx, block, module.state_dict())
    np.testing.assert_allclose(ctx[y], module(*given, **hidden).detach(), rtol=5e-4, atol=5e-5)
    back = oc.interop.to_torch(ctx, block)
    assert {*back} == {*module.state_dict()}
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(back[name], tensor)


def test_own_names_of_parts_of_transformers():
    """They are understood, and a map of them goes before PyTorch's names."""
    layer, ctx = nn.encoder_layer(num_heads=2, d_k=2, d_v=2, d_ff=3), oc.Context.cpu()
    ctx.init_params(layer(oc.data(random(2, 3, 4))))
    theirs = to_arrays(ctx, layer)
    assert "linear1.weight" in theirs
    mapped = to_arrays(ctx, layer, {"attend": "attn", "linear2": "c_proj"})
    assert theirs.keys() - mapped.keys() == {
        *("self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear2.weight", "linear2.bias")
    }
    assert mapped.keys() - theirs.keys() == {
        *("attn.in_proj_weight", "attn.out_proj.weight", "c_proj.weight", "c_proj.bias")
    }
    doubled = {name: 2 * array for name, array in mapped.items()}
    oc.interop.from_torch(ctx, layer, doubled, map={"attn": "attend", "c_proj": "feed.out"})
    for name, array in to_arrays(ctx, layer).items():
        np.testing.assert_array_equal(array, 2 * theirs[name])
