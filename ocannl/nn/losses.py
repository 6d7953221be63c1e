"""Losses: by default one number, the mean over a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from numpy.typing import ArrayLike

import ocannl as oc
from ocannl.nn.activations import softplus, softplus_below
from ocannl.nn.means import mean, output_mean
from ocannl.nn.options import check_not_negative, check_positive
from ocannl.nn.pairing import check_classes, check_paired, known_sizes
from ocannl.nn.softmax import log_softmax
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.numbers import is_number
from ocannl.program.location import here
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.casts import floats
from ocannl.program.types.floats import is_integer

Pullbacks: TypeAlias = Callable[[oc.Tensor], tuple[oc.Tensor, oc.Tensor]]
REDUCTIONS = ("mean", "sum", "none")


@remembered
def nll(
    log_probs: oc.Tensor,
    target: oc.Tensor,
    *,
    weight: oc.TensorLike | ArrayLike | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> oc.Tensor:
    """The negative log-likelihood of the target: batch | classes and batch | to one number.

    The target is integer ids with an empty output row, or a distribution over the output row, by which the
    logarithms are weighted then. `weight` has a factor for each class (| classes); of ids, the mean is the
    weighted one. Ids that are `ignore_index` count neither in the sum nor in the mean. `label_smoothing`
    mixes the target with as much of the uniform distribution (Szegedy et al., 2016). `reduction` is "mean"
    over the batch axes, "sum", or "none": batch |.

    Raises `ArgumentError` for an unknown reduction, and for `ignore_index` of distributions.
    """
    target = oc.as_tensor(target)
    if not 0 <= label_smoothing <= 1:
        raise oc.ArgumentError(f"label_smoothing is at least 0 and at most 1, found {label_smoothing!r}")
    check_classes(log_probs, target, "nn.nll")
    factors = None if weight is None else _factors(weight)
    if target.shape.output == ():
        return _nll_of_ids(log_probs, target, factors, ignore_index, label_smoothing, reduction)
    if ignore_index is not None:
        raise oc.ArgumentError("ignore_index is an id, and the target is a distribution")
    if factors is not None:
        log_probs = log_probs * factors
    loss = -oc.einsum("... | ..c..; ... | ..c.. => ... |", log_probs, target)
    return reduced(_smoothed(loss, log_probs, label_smoothing), reduction)


def _factors(weight: oc.TensorLike | ArrayLike) -> oc.Tensor:
    """Factors of classes, which may be an array or a list; of several axes, those of `oc.data`."""
    if isinstance(weight, oc.Tensor) or is_number(weight):
        return oc.as_tensor(weight)
    return oc.data(cast("ArrayLike", weight), label="weight")


def _nll_of_ids(
    log_probs: oc.Tensor,
    ids: oc.Tensor,
    weight: oc.Tensor | None,
    ignore_index: int | None,
    label_smoothing: float,
    reduction: str,
) -> oc.Tensor:
    kept = None if ignore_index is None else oc.ne(ids, integer(ignore_index, "ignore_index", None))
    ids = ids if kept is None else oc.where(kept, ids, 0)
    factor = None if weight is None else oc.gather("c; ... | => ... |", weight, ids, at="c")
    loss = -_log_prob_of(log_probs, ids)
    if weight is not None and factor is not None:
        loss, log_probs = loss * factor, log_probs * weight
    loss = _smoothed(loss, log_probs, label_smoothing)
    if kept is not None:
        loss = oc.where(kept, loss, 0.0)
        factor = oc.where(kept, 1.0 if factor is None else factor, 0.0)
    if reduction == "mean" and factor is not None:
        return oc.sum(loss) / oc.sum(factor)
    return reduced(loss, reduction)


def _log_prob_of(log_probs: oc.Tensor, ids: oc.Tensor) -> oc.Tensor:
    try:
        return oc.gather("... | c; ... | => ... |", log_probs, ids, at="c")
    except oc.ShapeError:
        sizes = known_sizes(log_probs.shape.batch)
        more = len(sizes) - len(ids.shape.batch)
        if more <= 0:
            raise
        letters, axes = "b" * (len(sizes) - more) + "o" * (more + 1), "axis" if more == 1 else "axes"
        scores = ",".join(map(str, sizes))
        raise oc.ShapeError(
            here(
                f"there are scores along {more} more {axes} than ids: those of {scores}|, these {ids!r}\n"
                "  hint: a layer sums over output axes, as of h.reshape(len(h), -1); where it gets an "
                f"argument, axes={{'x': {letters!r}}} of @oc.function makes these"
            )
        ) from None


def _smoothed(loss: oc.Tensor, log_probs: oc.Tensor, share: float) -> oc.Tensor:
    """A loss mixed with that of the uniform distribution."""
    return (1 - share) * loss - share * output_mean(log_probs) if share else loss


@remembered
def cross_entropy(
    logits: oc.Tensor,
    target: oc.Tensor,
    *,
    weight: oc.TensorLike | ArrayLike | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> oc.Tensor:
    """Cross entropy, the `nll` of softmax over the output row: batch | classes and batch | (ids)
    or batch | classes (distributions) to one number. Settings are those of `nll`.
    """
    target = oc.as_tensor(target)
    check_classes(logits, target, "nn.cross_entropy")
    log_probs = log_softmax(spec="... | ... -> ..classes..")(logits)
    return nll(
        log_probs,
        target,
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )


@remembered
def bce_with_logits(
    logits: oc.Tensor,
    target: oc.Tensor,
    *,
    weight: oc.TensorLike | ArrayLike | None = None,
    pos_weight: oc.TensorLike | ArrayLike | None = None,
    reduction: str = "mean",
) -> oc.Tensor:
    """Binary cross entropy of `sigmoid(logits)` and probabilities, such as 0 and 1; the mean over all
    elements. By "batchmean", the sum over the output row, averaged over the batch axes.

    `weight` has a factor for each element, or for each of the output row, and `pos_weight` one for what
    belongs to targets of 1: more than 1 finds more of them. Without overflow, and exact for small results
    where there is no `pos_weight`, as `F.binary_cross_entropy_with_logits` of PyTorch.
    """
    check_paired(logits, target)
    if pos_weight is None:
        loss = _binary_cross_entropy(logits, target)
    else:
        more = 1 + (_factors(pos_weight) - 1) * target
        loss = (1 - target) * logits + more * softplus(-logits)
    return _by_batch(loss if weight is None else loss * _factors(weight), reduction)


@oc.custom_gradient
def _binary_cross_entropy(logits: oc.Tensor, target: oc.Tensor) -> tuple[oc.Tensor, Pullbacks]:
    """`softplus(logits) - target * logits`, with the large parts subtracted first."""
    value = oc.relu(logits) - target * logits + softplus_below(logits)
    return value, lambda cotangent: (cotangent * (oc.sigmoid(logits) - target), -cotangent * logits)


@remembered
def mse(a: oc.Tensor, b: oc.TensorLike, *, reduction: str = "mean") -> oc.Tensor:
    """The squared difference, its mean over all elements."""
    difference = _difference(a, b)
    return reduced(difference * difference, reduction)


def _difference(a: oc.Tensor, b: oc.TensorLike) -> oc.Tensor:
    """`a - b`, of integers too, which could wrap around."""
    check_paired(a, b)
    difference = a - b
    return floats(a) - floats(b) if is_integer(oc.as_tensor(difference).ir_value) else difference


@remembered
def l1(a: oc.Tensor, b: oc.TensorLike, *, reduction: str = "mean") -> oc.Tensor:
    """The absolute difference, its mean over all elements."""
    return reduced(oc.abs(_difference(a, b)), reduction)


@remembered
def huber(a: oc.Tensor, b: oc.TensorLike, *, delta: float = 1.0, reduction: str = "mean") -> oc.Tensor:
    """Half the squared difference up to `delta`, beyond it `delta * (difference - delta / 2)` (Huber, 1964);
    the mean over all elements.
    """
    check_positive(delta, "delta")
    distance = oc.abs(_difference(a, b))
    near = oc.minimum(distance, delta)
    return reduced(near * (distance - 0.5 * near), reduction)


@remembered
def smooth_l1(a: oc.Tensor, b: oc.TensorLike, *, beta: float = 1.0, reduction: str = "mean") -> oc.Tensor:
    """`huber` with `delta=beta`, divided by `beta`: the absolute difference less a half of `beta` beyond it
    (Girshick, 2015). With `beta` 0 it is `l1`.
    """
    check_not_negative(beta, "beta")
    return huber(a, b, delta=beta, reduction=reduction) / beta if beta else l1(a, b, reduction=reduction)


@remembered
def kl_div(
    log_probs: oc.Tensor, target: oc.Tensor, *, log_target: bool = False, reduction: str = "mean"
) -> oc.Tensor:
    """The divergence of Kullback and Leibler from a distribution given by logarithms to the target, or with
    `log_target` to the exponential of that: `target * (log(target) - log_probs)`, 0 where the target is 0.

    The mean is over all elements; "batchmean" is the sum over the output row, averaged over the batch axes.
    """
    check_paired(log_probs, target)
    if log_target:
        cells = oc.exp(target) * (target - log_probs)
    else:
        known = oc.where(oc.eq(target, 0.0), 1.0, target)
        cells = target * (oc.log(known) - log_probs)
    return _by_batch(cells, reduction)


def _by_batch(cells: oc.Tensor, reduction: str) -> oc.Tensor:
    """`reduced`, or the sum over the output row, averaged over the batch axes."""
    if reduction == "batchmean":
        return mean(oc.einsum("... | ..o.. => ... |", cells))
    return reduced(cells, reduction, (*REDUCTIONS, "batchmean"))


@remembered
def hinge(margin: oc.Tensor) -> oc.Tensor:
    """Hinge loss, the mean of `max(0, 1 - margin)`. For targets 1 and -1, the margin is `target * score`."""
    return mean(oc.relu(1 - margin))


@remembered
def cosine_similarity(a: oc.Tensor, b: oc.Tensor, *, epsilon: float = 1e-8) -> oc.Tensor:
    """The cosine of the angle between output rows: batch | out and batch | out to batch |. Norms are at least
    `epsilon`.
    """

    a, b = floats(a), floats(b)

    def norm(x: oc.Tensor) -> oc.Tensor:
        square = oc.einsum("... | ..o..; ... | ..o.. => ... |", x, x)
        return oc.sqrt(oc.maximum(square, epsilon * epsilon))

    return oc.einsum("... | ..o..; ... | ..o.. => ... |", a, b) / (norm(a) * norm(b))


@remembered
def triplet(
    anchor: oc.Tensor,
    positive: oc.Tensor,
    negative: oc.Tensor,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    reduction: str = "mean",
) -> oc.Tensor:
    """How much less than `margin` the anchor is nearer to the positive than to the negative (Schroff et al.,
    2015): batch | out three times to one number. Distances are `p`-norms over the output row, of differences
    to which 1e-6 is added, as in PyTorch.
    """
    check_positive(p, "p")

    def distance(x: oc.Tensor) -> oc.Tensor:
        difference = oc.abs(anchor - x + 1e-6)
        return oc.einsum("... | ..o.. => ... |", difference**p) ** (1 / p)

    return reduced(oc.relu(distance(positive) - distance(negative) + margin), reduction)


def reduced(values: oc.Tensor, reduction: str, known: tuple[str, ...] = REDUCTIONS) -> oc.Tensor:
    """The mean, the sum, or each of some values. Raises `ArgumentError` for another reduction."""
    if reduction == "none":
        return values
    if reduction not in known:
        raise oc.ArgumentError(f"a reduction is {', '.join(known)}, found {reduction!r}")
    return mean(values) if reduction == "mean" else oc.sum(values)
