"""Models of experts: Mixtral (Jiang et al., 2024), and those of Qwen 2 and 3 (Yang et al., 2024, 2025)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import ocannl as oc
from ocannl import nn
from ocannl.models.decoder import Design, decoder, gated_of, windows_of
from ocannl.models.model import Array, Config, setting
from ocannl.models.parts import activation, gated
from ocannl.models.qwen import qwen3_design, qwen_windows
from ocannl.nn.activations import halves

EXPERT = re.compile(r"(.+)\.(?:block_sparse_moe|mlp)\.experts\.(\d+)\.(\w+)\.weight")
ROUTER = re.compile(r"(.+)\.(?:block_sparse_moe|mlp)\.gate\.weight")
# The weights of an expert in files: gate and up, which are joined, and down.
INTO, OUT = (("w1", "gate_proj"), ("w3", "up_proj")), (("w2", "down_proj"),)


def mixtral(config: Config) -> Callable[..., oc.Tensor]:
    """Mixtral: Mistral with experts in all layers."""
    design = Design(feed=lambda config, number: _mixture(config, setting(config, "intermediate_size")))
    return decoder(config, design, windows_of(config, lambda number: True))


def qwen2_moe(config: Config) -> Callable[..., oc.Tensor]:
    """Qwen 2 with experts in some layers, beside one that all tokens have."""
    design = Design(qkv_bias=bool(config.get("qkv_bias", True)), feed=_feed_of_qwen)
    return decoder(config, design, qwen_windows(config))


def qwen3_moe(config: Config) -> Callable[..., oc.Tensor]:
    """Qwen 3 with experts in some layers."""
    return decoder(config, qwen3_design(config, feed=_feed_of_qwen), qwen_windows(config))


def _feed_of_qwen(config: Config, number: int) -> nn.Layer:
    is_sparse = (number + 1) % setting(config, "decoder_sparse_step", 1) == 0
    if not is_sparse or number in (config.get("mlp_only_layers") or ()):
        return gated_of(config)
    mix = _mixture(config, setting(config, "moe_intermediate_size"))
    shared = config.get("shared_expert_intermediate_size")
    return _beside_shared(config, mix, shared) if shared else mix


def _mixture(config: Config, hidden: int) -> nn.Layer:
    """The experts of a layer, each a gated block: batch, position | features, shape kept."""
    act, width = activation(config, "hidden_act"), setting(config, "hidden_size")
    count = config.get("num_local_experts") or setting(config, "num_experts")

    def gated_halves(x: oc.Tensor) -> oc.Tensor:
        gate, up = halves(x)
        return act(gate) * up

    is_mixtral = config.get("model_type") == "mixtral"
    return nn.moe(
        num_experts=count,
        d_ff=2 * hidden,
        top_k=setting(config, "num_experts_per_tok"),
        normalize=is_mixtral or bool(config.get("norm_topk_prob")),
        activation=gated_halves,
        in_dim=width,
        out_dim=width,
        d_act=hidden,
        label="mlp",
    )


@oc.configurable
def _beside_shared(config: Config, mix: nn.Layer, hidden: int) -> nn.Layer:
    """Experts, and one that all tokens have, by a gate of its own."""
    width = setting(config, "hidden_size")
    with oc.scope("mlp"):
        shared = gated(
            width=width, hidden=hidden, act=activation(config, "hidden_act"), label="shared_expert"
        )
        share = nn.linear(in_dim=width, out_dim=1, bias=False, label="shared_expert_gate")
    return lambda x: mix(x) + oc.sigmoid(share(x)) * shared(x)


@dataclass(frozen=True)
class Stacked:
    """The weights of all experts, each joined of one or two arrays; one array when they are read."""

    parts: tuple[tuple[Array, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.parts[0]
        return (len(self.parts), sum(len(part) for part in first), *first[0].shape[1:])

    def read(self) -> Array:
        return np.stack([np.concatenate(parts) for parts in self.parts])


def experts_joined(config: Config, stored: Mapping[str, Array]) -> dict[str, Array | Stacked]:
    """Arrays of a file with those of experts as one: `w_in` and `w_out` of each layer, and its `router`.
    Where some are missing all stay as they are.
    """
    found: dict[str, Array | Stacked] = {}
    layers: dict[str, dict[tuple[int, str], Array]] = defaultdict(dict)
    for name, array in stored.items():
        if (expert := EXPERT.fullmatch(name)) is not None:
            layers[expert[1]][int(expert[2]), expert[3]] = array
        elif (router := ROUTER.fullmatch(name)) is not None:
            found[f"{router[1]}.mlp.router"] = array
        else:
            found[name] = array
    count = config.get("num_local_experts") or setting(config, "num_experts")
    for layer, own in layers.items():
        into, out = (_stacked(own, count, names) for names in (INTO, OUT))
        if into is None or out is None:
            return {**stored}
        found |= {f"{layer}.mlp.w_in": into, f"{layer}.mlp.w_out": out}
    return found


def _stacked(
    arrays: Mapping[tuple[int, str], Array], count: int, parts: tuple[tuple[str, str], ...]
) -> Stacked | None:
    """The arrays of all experts, each part under one of its names; None if some are missing."""
    found = [
        tuple(arrays[k, name] for names in parts for name in names if (k, name) in arrays)
        for k in range(count)
    ]
    is_whole = all(len(own) == len(parts) and len({a.shape for a in own}) == 1 for own in found)
    return Stacked(tuple(found)) if is_whole and len({own[0].shape for own in found}) == 1 else None
