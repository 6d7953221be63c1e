"""Choosing an id by scores, in the language: the best one, or one at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import ocannl as oc
from ocannl import nn

# Each of the rounds of a search tells so many parts of an interval apart, together all neighbouring floats.
PARTS, ROUNDS = 16, 8


@dataclass(frozen=True)
class Sampling:
    """How ids are chosen, for a batch of scores: batch | ids. None leaves a rule out.

    Attributes:
        temperature: scores are divided by it.
        top_k: only so many of the best ids may be chosen.
        top_p: only the fewest ids, the best, whose probabilities sum to it (Holtzman et al., 2020).
        min_p: only ids whose probability is so large a part of that of the best (Nguyen et al., 2024).
    """

    temperature: oc.TensorLike | None = None
    top_k: oc.TensorLike | None = None
    top_p: oc.TensorLike | None = None
    min_p: oc.TensorLike | None = None

    def chosen(self, scores: oc.Tensor, counter: oc.Tensor) -> oc.Tensor:
        """An id for each sequence: batch | . Equal counters choose equally; without a temperature it is the
        first of the best. Where the best score is no finite number, it is `NONE`; without a temperature that
        may be infinity.
        """
        scores = oc.cast(scores, oc.float32)
        best = oc.einmax("... | v => ... | 0", scores)
        if self.temperature is None:
            return among(best > -math.inf, oc.argmax(scores, "output"))
        # So much below the best nothing is ever chosen, and thresholds are told apart above it.
        below = oc.maximum((scores - best) / self.temperature, IMPOSSIBLE)
        return among(oc.abs(best) < math.inf, self._drawn(below, counter))

    def _drawn(self, scores: oc.Tensor, counter: oc.Tensor) -> oc.Tensor:
        """An id at random by the rules, for scores of which the best is 0: batch | ."""
        if self.top_k is not None:
            enough = oc.as_tensor(self.top_k)
            least = greatest_threshold(scores, lambda above: oc.cast(above, oc.float32), enough)
            scores = oc.where(scores < least, IMPOSSIBLE, scores)
        if self.top_p is not None:
            chances = nn.softmax()(scores)
            least = greatest_threshold(chances, lambda above: oc.where(above, chances, 0.0), self.top_p)
            scores = oc.where(chances < least, IMPOSSIBLE, scores)
        if self.min_p is not None:
            scores = oc.where(scores < oc.log(oc.as_tensor(self.min_p)), IMPOSSIBLE, scores)
        # The greatest of scores with noise of Gumbel's distribution is a choice by their softmax.
        unit = oc.uniform(counter, key="generate", like=scores)
        return oc.argmax(scores - oc.log(-oc.log(oc.maximum(unit, TINY))), "output")


NONE = -1
"""In place of an id where none can be chosen."""

IMPOSSIBLE = -1000.0
"""A score, less than the best by so much, whose exponential is 0."""

TINY = 2.0**-40
"""In place of the random number 0, whose logarithm is none."""


def among(possible: oc.Tensor, ids: oc.Tensor) -> oc.Tensor:
    """The ids, batch | , where it is possible to choose one, batch | 1."""
    return oc.where(oc.einsum("... | 0 => ... |", possible), ids, NONE)


def greatest_threshold(
    values: oc.Tensor, weight: Callable[[oc.Tensor], oc.Tensor], enough: oc.TensorLike
) -> oc.Tensor:
    """The greatest threshold, batch | 1, up to rounding, such that the weights of values not below it sum to
    enough: `weight` is a function of where they are not.

    An interval that has it is divided again and again, at all parts at once.
    """
    low, high = (reduce("... | v => ... | 0", values) for reduce in (oc.einmin, oc.einmax))
    for _ in range(ROUNDS):
        step = (high - low) / PARTS
        thresholds = low + (oc.range(PARTS) + 1) * step
        totals = oc.einsum(
            "... | p, v => ... | p", weight(values >= oc.einsum("... | p => ... | p, 0", thresholds))
        )
        low = oc.einmax("... | p => ... | 0", oc.where(totals >= enough, thresholds, low))
        high = low + step
    return low
