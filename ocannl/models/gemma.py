"""Gemma 1, 2 and 3 (Gemma Team, 2024, 2025)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import ocannl as oc
from ocannl import nn
from ocannl.models.decoder import Design, decoder, windows_of
from ocannl.models.model import Config, setting


@oc.configurable
def norm(*, dim: int, epsilon: float, label: str) -> nn.Layer:
    """An RMS norm whose gain is 1 and a weight."""
    with oc.scope(label):
        weight = oc.param("weight", 0.0, input=[], output=dim)
    return lambda x: (1 + weight) * (x * oc.recip_sqrt(nn.output_mean(x * x) + epsilon))


def gemma(config: Config) -> Callable[..., oc.Tensor]:
    """Gemma: embeddings are scaled, and give the scores. Its first files call the GELU by tanh `gelu`."""
    if config.get("hidden_act") == "gelu":
        config = {**config, "hidden_act": "gelu_pytorch_tanh"}
    return decoder(config, _design(config), [None] * setting(config, "num_hidden_layers"))


def gemma2(config: Config) -> Callable[..., oc.Tensor]:
    """Gemma 2: capped scores, norms around each part, and a window in every second layer."""
    design = replace(
        _design(config),
        sandwich=True,
        score_scale=setting(config, "query_pre_attn_scalar") ** -0.5,
        score_cap=config.get("attn_logit_softcapping"),
        final_cap=config.get("final_logit_softcapping"),
    )
    return decoder(config, design, windows_of(config, lambda number: number % 2 == 0))


def gemma3(config: Config) -> Callable[..., oc.Tensor]:
    """The text model of Gemma 3: norms of heads, and all positions in every sixth layer."""
    design = replace(
        _design(config),
        sandwich=True,
        normed_heads=True,
        score_scale=setting(config, "query_pre_attn_scalar") ** -0.5,
        score_cap=config.get("attn_logit_softcapping"),
        final_cap=config.get("final_logit_softcapping"),
    )
    every = setting(config, "sliding_window_pattern", 6)
    return decoder(config, design, windows_of(config, lambda number: (number + 1) % every != 0))


def _design(config: Config) -> Design:
    scale, bias = math.sqrt(setting(config, "hidden_size")), bool(config.get("attention_bias"))
    return Design(norm=norm, embedding_scale=scale, qkv_bias=bias, out_bias=bias)
