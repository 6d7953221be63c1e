"""Whisper (Radford et al., 2023): text from sound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ocannl as oc
from ocannl import nn
from ocannl.models.model import Array, Config, batch_of_ids, picked, setting
from ocannl.models.parts import Places, activation


def whisper(config: Config) -> Callable[..., oc.Tensor]:
    """A function of ids, batch, position | , and of a sound's log-mel features, batch, frame | bands, to
    scores of ids. `heard` is what the encoder made of the features: `model.encode(features)`.
    """
    width, count = setting(config, "d_model"), setting(config, "max_target_positions")
    encode = encoder(config)
    with oc.scope("decoder"):
        embed = nn.embedding(num=setting(config, "vocab_size"), dim=width, label="embed_tokens")
        positions = nn.embedding(num=count, dim=width, label="embed_positions")
        layers = [layer(config, "decoder", number) for number in range(setting(config, "decoder_layers"))]
        norm = nn.layer_norm(dim=width, label="layer_norm")

    def model(
        ids: oc.TensorLike,
        features: oc.TensorLike | Array | None = None,
        cache: nn.KVCache | None = None,
        at: oc.Tensor | None = None,
        heard: oc.Tensor | None = None,
    ) -> oc.Tensor:
        if (features is None) == (heard is None):
            raise oc.ArgumentError("a sound is given by its features, or by what the encoder made of them")
        memory = encode(features) if heard is None else heard
        ids = batch_of_ids(ids)
        here = Places.of(ids, cache, embed)
        x = embed(ids) + positions(here.positions)
        for each in layers:
            x = each(x, here, memory)
        return embed.w @ picked(norm(x), at)

    return model


@oc.configurable
def encoder(config: Config) -> Callable[..., oc.Tensor]:
    """Two convolutions, of which one halves the frames, and layers in which all positions see each other."""
    width, bands = setting(config, "d_model"), setting(config, "num_mel_bins")
    with oc.scope("encoder"):
        first = convolution(bands, width, stride=1, label="conv1")
        second = convolution(width, width, stride=2, label="conv2")
        with oc.scope("embed_positions"):
            frames = setting(config, "max_source_positions")
            positions = oc.param("weight", 0.0, batch=[frames], input=[], output=width)
        layers = [layer(config, "encoder", number) for number in range(setting(config, "encoder_layers"))]
        norm = nn.layer_norm(dim=width, label="layer_norm")

    def apply(features: oc.TensorLike | Array) -> oc.Tensor:
        sound = oc.data(features, axes="bbo") if isinstance(features, np.ndarray) else oc.as_tensor(features)
        x = nn.gelu(second(nn.gelu(first(sound)))) + positions
        for each in layers:
            x = each(x, None, None)
        return norm(x)

    return apply


@oc.configurable
def convolution(bands: int, width: int, stride: int, label: str) -> nn.Layer:
    """A convolution over three positions: batch, position | bands to batch, position / stride | width."""
    with oc.scope(label):
        w = oc.param("w", input=[3, bands], output=width)
        b = oc.param("b", 0.0, input=[], output=width)
    spec = f"..., {stride}*o + k | c; k, c -> d => ..., o | d"
    # One cell on both sides; a stride of 2 leaves out the last.
    pad = nn.pad([(1, 1 if stride == 1 else 0)])
    return lambda x: oc.einsum(spec, pad(x), w) + b


@oc.configurable
def layer(config: Config, kind: str, number: int) -> Callable[..., oc.Tensor]:
    """Attention of the positions to each other, in a decoder causal and then to what was heard, and a
    feed-forward block, each after a norm.
    """
    width, inner = setting(config, "d_model"), setting(config, f"{kind}_ffn_dim")
    heads = setting(config, f"{kind}_attention_heads")
    with oc.scope(f"layers.{number}"):
        own, own_norm = (
            attention(width, heads, "self_attn"),
            nn.layer_norm(dim=width, label="self_attn_layer_norm"),
        )
        look = look_norm = None
        if kind == "decoder":
            look = attention(width, heads, "encoder_attn")
            look_norm = nn.layer_norm(dim=width, label="encoder_attn_layer_norm")
        into = nn.linear(in_dim=width, out_dim=inner, label="fc1")
        out = nn.linear(in_dim=inner, out_dim=width, label="fc2")
        last = nn.layer_norm(dim=width, label="final_layer_norm")
    act = activation(config, "activation_function")

    def apply(x: oc.Tensor, here: Places | None, memory: oc.Tensor | None) -> oc.Tensor:
        h = own_norm(x)
        x = x + own(h, h, here)
        if look is not None and look_norm is not None and memory is not None:
            x = x + look(look_norm(x), memory, None)
        return x + out(act(into(last(x))))

    return apply


@oc.configurable
def attention(width: int, heads: int, label: str) -> Callable[..., oc.Tensor]:
    """Attention to a memory; a causal one at places. Keys have no bias."""
    size = width // heads
    with oc.scope(label):
        q_proj, k_proj, v_proj = (
            nn.linear(in_dim=width, out_dim=[heads, size], bias=name != "k", label=f"{name}_proj")
            for name in "qkv"
        )
        out = nn.linear(in_dim=[heads, size], out_dim=width, label="out_proj")

    def apply(x: oc.Tensor, memory: oc.Tensor, here: Places | None) -> oc.Tensor:
        keys, values = k_proj(memory), v_proj(memory)
        seen = (keys, values, None) if here is None else here.seen(k_proj, keys, values)
        return out(nn.dot_product_attention(q_proj(x), *seen))

    return apply


def whisper_weights(config: Config, name: str, array: Array) -> dict[str, Array]:
    """Weights of convolutions have their channels last."""
    return {name: np.moveaxis(array, 1, -1) if array.ndim == 3 else array}
