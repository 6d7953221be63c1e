"""Connectionist temporal classification (Graves et al., 2006)."""

from __future__ import annotations

import math

import numpy as np

import ocannl as oc
from ocannl.nn.losses import reduced
from ocannl.nn.padding import spatial_sizes
from ocannl.program.checks import integer
from ocannl.program.final_types import close_shape

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
    nothing. A target that is too long has an infinite loss without a gradient, and with `zero_infinity` none.

    The recursion over time is that of matrices over pairs of states, for parts of the time in parallel: it is
    `2 * sqrt(time)` steps long, so that long sequences make long programs. Raises `ShapeError` where nothing
    determines the numbers of times and labels, and `ArgumentError` where one of them is 0.
    """
    target = oc.as_tensor(target)
    times, labels = _known(log_probs, "time"), _known(target, "label")
    ends: oc.TensorLike = labels if target_lengths is None else oc.as_tensor(target_lengths)
    states = _States(target, labels, ends, integer(blank, "blank"))
    size = round(math.sqrt(times))
    count = -(-times // size)
    scores = oc.gather("..., t | c; ... | j => ..., t | j", log_probs, states.classes, at="c")
    if count * size > times:
        scores = oc.einsum(f"..., t | j => ..., t^{count * size - times} | j", scores)
    scores = oc.einsum("..., part&k | j => ..., part, k | j", scores, part=count, k=size)
    lengths = times if input_lengths is None else oc.einsum("... | => ..., 0 |", oc.as_tensor(input_lengths))
    paths = states.steps(scores, count, size, lengths)
    reached = states.first
    for part in range(count):
        reached = _followed(reached, oc.einsum(f"..., {part} | i -> j => ... | i -> j", paths))
    loss = states.loss(reached, ends)
    loss = oc.where(loss < -NEVER / 2, loss, 0.0 if zero_infinity else math.inf)
    if reduction == "mean":
        loss = loss / oc.maximum(ends, 1)
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
    """The labels of a target with a blank before, between and after them. Tensors of pairs of states have the
    state of arrival as output, and that of departure as input.

    Attributes:
        classes: the class of each state.
    """

    def __init__(self, target: oc.Tensor, labels: int, ends: oc.TensorLike, blank: int) -> None:
        if not isinstance(ends, int):
            # Ids behind the end may be anything.
            ends = oc.einsum("... | => ..., 0 |", ends)
            target = oc.where(oc.data(np.arange(labels), axes="b") < ends, target, blank)
        self.numbers = np.arange(2 * labels + 1)
        is_label = self.numbers % 2 == 1
        own, before = (_at(target, np.maximum(self.numbers - back, 0) // 2) for back in (1, 3))
        self.classes = oc.where(_row(is_label), own, blank)
        # From a label to the next, without the blank between them.
        skips = oc.logical_and(_row(is_label & (self.numbers > 2)), oc.ne(own, before))
        self.skip = oc.einsum("... | j => ..., 0 | j", oc.where(skips, 0.0, NEVER))
        self.first = oc.where(_row(self.numbers == 0), 0.0, NEVER)
        self.other = oc.where(_row(self.numbers == 0), NEVER, 0.0)

    def steps(self, scores: oc.Tensor, count: int, size: int, lengths: oc.TensorLike) -> oc.Tensor:
        """The paths through each of `count` parts of the time."""
        paths = oc.where(oc.data(np.eye(len(self.numbers), dtype=bool), axes="oi"), 0.0, NEVER)
        for k in range(size):
            one = oc.einsum("... | i -> j^1 => ... | i -> 1^j", paths) + self.other
            two = oc.einsum("... | i -> j^2 => ... | i -> 2^j", paths) + self.skip
            longer = oc.einsum(f"..., {k} | j => ... | j", scores) + _log_sum_exp(paths, one, two)
            time = oc.data(np.arange(count) * size + k, axes="b")
            paths = oc.where(time < lengths, longer, paths)
        return paths

    def loss(self, reached: oc.Tensor, ends: oc.TensorLike) -> oc.Tensor:
        """That of ending at the last label or the blank after it."""
        at = _row(self.numbers)
        blank, label = (
            oc.einmax("... | j => ... |", oc.where(oc.eq(at, 2 * ends - back), reached, NEVER))
            for back in (0, 1)
        )
        return -_log_sum_exp(blank, label)


def _row(values: np.ndarray) -> oc.Tensor:
    return oc.data(values, axes="o", label="states")


def _at(target: oc.Tensor, places: np.ndarray) -> oc.Tensor:
    return oc.gather("..., s | ; j | => ... | j", target, oc.data(places, axes="b", label="places"), at="s")


def _followed(reached: oc.Tensor, paths: oc.Tensor) -> oc.Tensor:
    """A product in the semiring of logarithms."""
    most = oc.stop_gradient(oc.tropical("... | i; ... | i -> j => ... | j", reached, paths))
    start = oc.einsum("... | i => ... | i -> ", reached)
    return most + oc.log(oc.einsum("... | i -> j => ... | j", oc.exp(start + paths - most)))


def _log_sum_exp(*terms: oc.Tensor) -> oc.Tensor:
    most = terms[0]
    for term in terms[1:]:
        most = oc.maximum(most, term)
    most = oc.stop_gradient(most)
    return most + oc.log(sum((oc.exp(term - most) for term in terms[1:]), oc.exp(terms[0] - most)))
