"""Connectionist temporal classification (Graves et al., 2006)."""

from __future__ import annotations

import math

import numpy as np

import ocannl as oc
from ocannl.nn.images.padding import spatial_sizes
from ocannl.nn.losses import reduced
from ocannl.program.arguments.checks import integer
from ocannl.program.types.dtypes import computed_dtype
from ocannl.program.types.final_types import close_shape

# The logarithm of a probability of 0, finite so that differences of two are no NaN.
NEVER = -1e30


def ctc(
    log_probs: oc.Tensor,
    target: oc.Tensor,
    *,
    input_lengths: oc.TensorLike | None = None,
    target_lengths: oc.TensorLike | None = None,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> oc.Tensor:
    """The negative logarithm of the probability that a sequence of classes, without its blanks and with
    repeated classes as one, is the target: batch, time | classes and batch, label | (ids) to one number.

    `input_lengths` and `target_lengths` (batch |) say how much of each counts, by default all. The "mean" is
    that of losses divided by the lengths of their targets, as in PyTorch; "sum" and "none" (batch |) divide
    nothing. Logarithms may be -inf. A target without a path, such as one that is too long, has an infinite
    loss without a gradient, and with `zero_infinity` none. It is computed in f32 at least.

    The recursion over time is a scan. Raises `ShapeError` where nothing determines the numbers of times and
    labels, and `ArgumentError` where one of them is 0.
    """
    target = oc.as_tensor(target)
    times, labels = _known(log_probs, "time"), _known(target, "label")
    lengths: oc.TensorLike = labels if target_lengths is None else oc.as_tensor(target_lengths)
    states = _States(target, labels, lengths, integer(blank, "blank"))
    scores = oc.gather("..., t | c; ... | j => ..., t | j", log_probs, states.classes, at="c")
    scores = oc.cast(scores, computed_dtype(scores.dtype))
    # A NaN is not less, and stays.
    scores = oc.where(scores < NEVER, NEVER, scores)
    ends = times if input_lengths is None else oc.as_tensor(input_lengths)

    def step(reached: oc.Tensor, at: tuple[oc.Tensor, oc.Tensor]) -> tuple[oc.Tensor, None]:
        score, time = at
        return oc.where(time < ends, score + states.after(reached), reached), None

    _, reached = oc.scan(step, states.first, (scores, oc.data(np.arange(times), axes="b", label="times")))
    loss = states.loss(reached, lengths)
    loss = oc.where(loss > -NEVER / 2, 0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        loss = loss / (lengths if isinstance(lengths, int) else oc.maximum(lengths, 1))
    return reduced(loss, reduction).named("ctc")


def _known(x: oc.Tensor, axis: str) -> int:
    """The size of the last batch axis. A tensor without it gets the final shape that it would get now."""
    (size,) = spatial_sizes(x, 1)
    if size is None:
        close_shape(x.ir_value)
        (size,) = spatial_sizes(x, 1)
    if not size:
        raise oc.ArgumentError(f"ctc needs at least one {axis}, and {x} has none")
    return size


class _States:
    """The labels of a target with a blank before, between and after them, as many as `2 * labels + 1`.

    Scores are logarithms of probabilities, ... | state.

    Attributes:
        numbers: 0, 1, ... of the states.
        classes: the class of each state, batch | state.
        first: the scores before the first time, | state.
        advance: the score of coming from the state before, | state.
        skip: that of coming from a label to the next, without the blank between them, batch | state.
    """

    def __init__(self, target: oc.Tensor, labels: int, lengths: oc.TensorLike, blank: int) -> None:
        if not isinstance(lengths, int):
            # Ids behind the end may be anything.
            lengths = oc.einsum("... | => ..., 0 |", lengths)
            target = oc.where(oc.data(np.arange(labels), axes="b") < lengths, target, blank)
        self.numbers = np.arange(2 * labels + 1)
        is_label = self.numbers % 2 == 1
        own, before = (_labels_at(target, np.maximum(self.numbers - back, 0) // 2) for back in (1, 3))
        self.classes = oc.where(_of_states(is_label), own, blank)
        skips = oc.logical_and(_of_states(is_label & (self.numbers > 2)), oc.ne(own, before))
        self.skip = oc.where(skips, 0.0, NEVER)
        self.first = oc.where(_of_states(self.numbers == 0), 0.0, NEVER)
        self.advance = oc.where(_of_states(self.numbers == 0), NEVER, 0.0)

    def after(self, reached: oc.Tensor) -> oc.Tensor:
        """The scores of states at the next time, without those of their classes, by the scores before."""
        advanced = oc.einsum("... | j^1 => ... | 1^j", reached) + self.advance
        skipped = oc.einsum("... | j^2 => ... | 2^j", reached) + self.skip
        return _log_sum_exp(reached, advanced, skipped)

    def loss(self, reached: oc.Tensor, lengths: oc.TensorLike) -> oc.Tensor:
        """That of ending at the last label or the blank after it, batch |, where states are reached with
        scores batch | state and targets have so many labels, batch |.
        """
        at = _of_states(self.numbers)
        blank, label = (
            oc.einmax("... | j => ... |", oc.where(oc.eq(at, 2 * lengths - back), reached, NEVER))
            for back in (0, 1)
        )
        return -_log_sum_exp(blank, label)


def _of_states(values: np.ndarray) -> oc.Tensor:
    """A number for each state, | state."""
    return oc.data(values, axes="o", label="states")


def _labels_at(target: oc.Tensor, places: np.ndarray) -> oc.Tensor:
    """The labels at places of a target, batch | place."""
    return oc.gather("..., s | ; j | => ... | j", target, oc.data(places, axes="b", label="places"), at="s")


def _log_sum_exp(*terms: oc.Tensor) -> oc.Tensor:
    most = terms[0]
    for term in terms[1:]:
        most = oc.maximum(most, term)
    most = oc.stop_gradient(most)
    return most + oc.log(sum((oc.exp(term - most) for term in terms[1:]), oc.exp(terms[0] - most)))
