"""Qwen 2 and 3 (Yang et al., 2024, 2025)."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl import nn
from ocannl.models.decoder import Design, decoder, windows_of
from ocannl.models.model import Config, setting


def qwen2(config: Config) -> Callable[..., oc.Tensor]:
    """Qwen 2: Llama with biases of queries, keys and values; later layers may have a sliding window."""
    return decoder(config, Design(qkv_bias=True), qwen_windows(config))


def qwen3(config: Config) -> Callable[..., oc.Tensor]:
    """Qwen 3: norms of the heads of queries and keys in place of biases."""
    return decoder(config, qwen3_design(config), qwen_windows(config))


def qwen3_design(config: Config, feed: Callable[[Config, int], nn.Layer] | None = None) -> Design:
    """The choices of Qwen 3; `feed` makes the feed-forward blocks of layers."""
    bias = bool(config.get("attention_bias"))
    return Design(qkv_bias=bias, out_bias=bias, normed_heads=True, feed=feed)


def qwen_windows(config: Config) -> list[int | None]:
    """How many positions each layer sees, None for all."""
    first = setting(config, "max_window_layers", 0)
    return windows_of(config, lambda number: number >= first)
