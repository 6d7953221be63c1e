"""Rotary positions (Su et al., 2021) with frequencies as configurations give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Attribute

import ocannl as oc
from ocannl.models.model import Config, setting
from ocannl.models.rope_scaling import Frequencies, scaled
from ocannl.program.types.casts import convert
from ocannl.program.types.precision import param_precision

PART = "partial_rotary_factor"
# Settings that may stand outside those of rotations.
OUTSIDE = ("max_position_embeddings", "rope_theta", PART)


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotations of features k and k + n by the angle `position * frequency[k]`, where there are n
    frequencies; features after 2n stay. Where parameters are used in a smaller float, so are cosines and
    sines, which would else make all that follows f32.
    """

    frequencies: Frequencies
    used: Attribute | None = field(default_factory=lambda: param_precision().used)

    def tables(self, positions: oc.Tensor, last: oc.Tensor | None = None) -> tuple[oc.Tensor, oc.Tensor]:
        """Cosines and sines for positions, batch, s | : batch, s | n. `last` is as for `Frequencies.at`."""
        angles = positions * self.frequencies.at(positions, last)
        found = oc.cos(angles), oc.sin(angles)
        if self.frequencies.stretch != 1:
            found = found[0] * self.frequencies.stretch, found[1] * self.frequencies.stretch
        return found if self.used is None else (convert(found[0], self.used), convert(found[1], self.used))

    def turned(self, x: oc.Tensor, tables: tuple[oc.Tensor, oc.Tensor]) -> oc.Tensor:
        """Queries or keys, batch, s | heads, features, rotated."""
        (cos, sin), n = tables, len(self.frequencies.plain)
        first, second, rest = x[..., :n], x[..., n : 2 * n], x.shape.array[-1] - 2 * n
        parts = [first * cos - second * sin, second * cos + first * sin]
        if not rest:
            return oc.concat("... | h, a; ... | h, b => ... | h, a^b", *parts)
        return oc.concat("... | h, a; ... | h, b; ... | h, c => ... | h, a^b^c", *parts, x[..., 2 * n :])


def rope_of(config: Config, size: int, kind: str = "full_attention", *, in_part: bool = False) -> Rope:
    """The rotations of heads of a size, for layers of a kind where configurations tell these apart. Only for
    models that rotate features `in_part` they say which part: others rotate all, whatever they say.

    Raises `OcannlError` for a scaling that does not exist.
    """
    settings = _settings(config, kind)
    base = float(settings.get("rope_theta", 10000.0))
    rotated = int(size * settings.get(PART, 1.0)) if in_part else size
    plain = base ** (-np.arange(0, rotated, 2) / rotated)
    return Rope(scaled(plain, {**settings, "rope_theta": base}))


def _settings(config: Config, kind: str) -> Mapping[str, Any]:
    """The settings of rotations, in the form of now or of before, with the lengths of texts."""
    given: Config = config.get("rope_scaling") or config.get("rope_parameters") or {}
    local = config.get("rope_local_base_freq") if kind == "sliding_attention" else None
    if local is not None:
        return {"rope_theta": local, **given.get(kind, {})}
    trained = config.get("original_max_position_embeddings")
    found = {name: config[name] for name in OUTSIDE if config.get(name) is not None}
    found["original_max_position_embeddings"] = found.get("max_position_embeddings")
    found |= given.get(kind, given)
    return found if trained is None else found | {"original_max_position_embeddings": trained}


def head_size(config: Config) -> int:
    """The features of a head."""
    heads = setting(config, "num_attention_heads")
    return setting(config, "head_dim", setting(config, "hidden_size") // heads)
