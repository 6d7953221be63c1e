"""Llama 2 and 3 (Touvron et al., 2023; Grattafiori et al., 2024), and Mistral (Jiang et al., 2023)."""

from __future__ import annotations

from collections.abc import Callable

import ocannl as oc
from ocannl.models.decoder import Design, decoder, windows_of
from ocannl.models.model import Config, setting


def llama(config: Config) -> Callable[..., oc.Tensor]:
    """Llama: all layers see all positions."""
    bias = bool(config.get("attention_bias"))
    design = Design(qkv_bias=bias, out_bias=bias, mlp_bias=bool(config.get("mlp_bias")))
    return decoder(config, design, [None] * setting(config, "num_hidden_layers"))


def mistral(config: Config) -> Callable[..., oc.Tensor]:
    """Mistral: Llama with a sliding window, if there is one, in all layers."""
    return decoder(config, Design(), windows_of(config, lambda number: True))
