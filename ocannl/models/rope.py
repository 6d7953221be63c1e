"""Rotary positions (Su et al., 2021) with frequencies as configurations give them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Attribute

import ocannl as oc
from ocannl.models.model import Array, Config, setting
from ocannl.program.casts import convert
from ocannl.program.precision import param_precision


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotations of features k and k + n by the angle `position * frequencies[k]`, where there are n
    frequencies; features after 2n stay. Where parameters are used in a smaller float, so are cosines and
    sines, which would else make all that follows f32.
    """

    frequencies: Array
    used: Attribute | None = field(default_factory=lambda: param_precision().used)

    def tables(self, positions: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        """Cosines and sines for positions, batch, s | : batch, s | n."""
        angles = positions * oc.data(self.frequencies.astype(np.float32), axes="o", label="frequencies")
        found = oc.cos(angles), oc.sin(angles)
        return found if self.used is None else (convert(found[0], self.used), convert(found[1], self.used))

    def turned(self, x: oc.Tensor, tables: tuple[oc.Tensor, oc.Tensor]) -> oc.Tensor:
        """Queries or keys, batch, s | heads, features, rotated."""
        (cos, sin), n = tables, len(self.frequencies)
        first, second, rest = x[..., :n], x[..., n : 2 * n], x.shape.array[-1] - 2 * n
        parts = [first * cos - second * sin, second * cos + first * sin]
        if not rest:
            return oc.concat("... | h, a; ... | h, b => ... | h, a^b", *parts)
        return oc.concat("... | h, a; ... | h, b; ... | h, c => ... | h, a^b^c", *parts, x[..., 2 * n :])


def rope_of(config: Config, size: int, kind: str = "full_attention") -> Rope:
    """The rotations of heads of a size, for layers of a kind where configurations tell these apart.

    Raises `OcannlError` for a scaling that there is not.
    """
    settings = _settings(config, kind)
    base = float(settings.get("rope_theta", 10000.0))
    rotated = int(size * settings.get("partial_rotary_factor", 1.0))
    frequencies = base ** (-np.arange(0, rotated, 2) / rotated)
    scaling = settings.get("rope_type", settings.get("type", "default"))
    if scaling == "default":
        return Rope(frequencies)
    if scaling == "linear":
        return Rope(frequencies / settings["factor"])
    if scaling == "llama3":
        return Rope(_llama3(frequencies, settings))
    raise oc.OcannlError(
        f"there is no scaling {scaling!r} of rotary positions: default, linear and llama3 are"
    )


def _settings(config: Config, kind: str) -> Mapping[str, Any]:
    """The settings of rotations, in the form of now or of before."""
    given = config.get("rope_parameters")
    if given is not None:
        return given.get(kind, given)
    found: dict[str, Any] = {**(config.get("rope_scaling") or {})}
    for name in ("rope_theta", "partial_rotary_factor"):
        if config.get(name) is not None:
            found[name] = config[name]
    if kind == "sliding_attention" and config.get("rope_local_base_freq"):
        return {"rope_theta": config["rope_local_base_freq"]}
    return found


def _llama3(frequencies: Array, settings: Mapping[str, Any]) -> Array:
    """Frequencies of Llama 3.1: low ones are divided by a factor, those between by part of it."""
    factor, old = settings["factor"], settings["original_max_position_embeddings"]
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    turns = old * frequencies / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return frequencies * (share + (1 - share) / factor)


def head_size(config: Config) -> int:
    """The features of a head."""
    heads = setting(config, "num_attention_heads")
    return setting(config, "head_dim", setting(config, "hidden_size") // heads)
