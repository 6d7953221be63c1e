"""How frequencies of rotary positions change for texts that are longer than those of training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import ocannl as oc
from ocannl.models.model import Array

Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Frequencies:
    """The frequencies of pairs of features.

    Attributes:
        plain: they, for texts that are no longer than those of training.
        of_length: they, for texts of given lengths, batch |, where they depend on these.
        stretch: the factor of cosines and sines, which makes attention sharper.
    """

    plain: Array
    of_length: Callable[[oc.Tensor], oc.Tensor] | None = None
    stretch: float = 1.0

    def at(self, positions: oc.Tensor, last: oc.Tensor | None) -> oc.Tensor:
        """The frequencies for positions, batch, s |, of texts that end at the last of them, or at that with
        a number, batch |, behind which there is padding.
        """
        if self.of_length is None:
            return data(self.plain)
        if last is None:
            return self.of_length(oc.einmax("..., s | => ..., 0 |", positions) + 1)
        end = oc.einsum("..., 0 | => ... |", positions) + last
        return self.of_length(oc.einsum("... | => ..., 0 |", end) + 1)


def scaled(plain: Array, settings: Settings) -> Frequencies:
    """The frequencies by the scaling that settings name. Raises `OcannlError` for one that does not exist."""
    kind = settings.get("rope_type", settings.get("type", "default"))
    # Older files of Phi-3 and Qwen 2 have these names.
    kind = {"su": "longrope", "mrope": "default"}.get(kind, kind)
    if kind not in SCALINGS:
        raise oc.OcannlError(f"there is no scaling {kind!r} of rotary positions: {', '.join(SCALINGS)} are")
    try:
        return SCALINGS[kind](plain, settings)
    except KeyError as missing:
        raise oc.OcannlError(f"the scaling {kind!r} of rotary positions needs `{missing.args[0]}`") from None


def _linear(plain: Array, settings: Settings) -> Frequencies:
    return Frequencies(plain / settings["factor"])


def _llama3(plain: Array, settings: Settings) -> Frequencies:
    """Those of Llama 3.1: low ones are divided by a factor, those between by part of it."""
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    turns = settings["original_max_position_embeddings"] * plain / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return Frequencies(plain * (share + (1 - share) / settings["factor"]))


def _dynamic(plain: Array, settings: Settings) -> Frequencies:
    """The base grows with the text, as from bloc97 and emozilla (NTK-aware scaling, 2023)."""
    factor, most, count = settings["factor"], settings["max_position_embeddings"], len(plain)
    powers = -np.arange(count) / max(1, count - 1)

    def of_length(length: oc.Tensor) -> oc.Tensor:
        growth = factor * (oc.maximum(oc.cast(length, np.float32), most) / most) - (factor - 1)
        return data(plain) * oc.exp(oc.log(growth) * data(powers))

    return Frequencies(plain, of_length)


def _yarn(plain: Array, settings: Settings) -> Frequencies:
    """YaRN (Peng et al., 2023): those that turn often stay, those that turn seldom are divided."""
    trained = settings["original_max_position_embeddings"]
    factor = settings.get("factor") or settings["max_position_embeddings"] / trained
    size, base = 2 * len(plain), settings["rope_theta"]

    def place(turns: float) -> float:
        """The feature that turns so often in a text of training."""
        return size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = place(settings.get("beta_fast") or 32), place(settings.get("beta_slow") or 1)
    if settings.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    share = np.clip((np.arange(len(plain)) - low) / ((high - low) or 0.001), 0, 1)
    stretch = settings.get("attention_factor")
    if stretch is None:
        own, of_all = settings.get("mscale"), settings.get("mscale_all_dim")
        stretch = _sharper(factor, own) / _sharper(factor, of_all) if own and of_all else _sharper(factor)
    return Frequencies(plain * (1 - share + share / factor), stretch=stretch)


def _sharper(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(plain: Array, settings: Settings) -> Frequencies:
    """LongRoPE (Ding et al., 2024): factors that were searched, others for texts longer than of training."""
    trained = settings["original_max_position_embeddings"]
    factors = [np.asarray(settings[name], float) for name in ("short_factor", "long_factor")]
    if any(found.shape != plain.shape for found in factors):
        raise oc.OcannlError(f"the scaling 'longrope' needs {len(plain)} short and long factors each")
    short, long = (plain / found for found in factors)
    factor = settings.get("factor") or settings["max_position_embeddings"] / trained
    stretch = settings.get("attention_factor")
    if stretch is None:
        stretch = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    return Frequencies(short, lambda length: oc.where(length > trained, data(long), data(short)), stretch)


SCALINGS: dict[str, Callable[[Array, Settings], Frequencies]] = {
    "default": lambda plain, settings: Frequencies(plain),
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
}


def data(frequencies: Array) -> oc.Tensor:
    """A number for each pair of features."""
    return oc.data(frequencies.astype(np.float32), axes="o", label="frequencies")
