"""Metrics of predictions, each one number unless it says otherwise."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.losses import cross_entropy
from ocannl.nn.means import mean
from ocannl.nn.pairing import check_ids, check_paired
from ocannl.program.arguments.checks import integer
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.casts import floats

AVERAGES = ("binary", "macro", "micro", "weighted")


@remembered
def accuracy(predictions: oc.Tensor, target: oc.Tensor, *, ignore_index: int | None = None) -> oc.Tensor:
    """The share of right predictions: batch | classes (scores, of which the first greatest counts) or batch |
    (ids), and batch | (ids). Targets that are `ignore_index` do not count.
    """
    check_ids(target, "nn.accuracy")
    right = oc.eq(_predicted(predictions), target)
    return _share(right, target, ignore_index)


@remembered
def top_k_accuracy(
    scores: oc.Tensor, target: oc.Tensor, k: int = 5, *, ignore_index: int | None = None
) -> oc.Tensor:
    """The share of targets that are among the `k` greatest scores: batch | classes and batch | (ids). Of
    equal scores, that of the lower id comes first.
    """
    integer(k, "k", 1)
    place = oc.range(_axis_of_classes(scores))
    own = oc.gather("... | c; ... | => ... |", scores, target, at="c", out_of_range="drop")
    # Compared so that NaN is behind everything.
    behind = oc.logical_or(scores < own, oc.logical_and(oc.eq(scores, own), target <= place))
    ahead = oc.einsum("... | c => ... |", oc.logical_not(behind))
    return _share(ahead < k, target, ignore_index)


@remembered
def confusion_matrix(predictions: oc.Tensor, target: oc.Tensor, num: int | None = None) -> oc.Tensor:
    """How often each class is predicted as each: batch | classes (scores) or batch | (ids), and batch | (ids)
    to | target classes, predicted classes.

    `num` classes, by default as many as there are scores. Raises `ArgumentError` if neither is given.
    """
    classes = _axis_of_classes(predictions) if num is None else integer(num, "num", 1)
    chosen = oc.one_hot(_predicted(predictions), classes)
    if not _are_ids(predictions):
        chosen = oc.logical_and(chosen, oc.eq(predictions, predictions))
    elif num is None:
        raise oc.ArgumentError("`num` classes are given where predictions are ids")
    return oc.einsum("..b.. | t; ..b.. | p => t, p", oc.one_hot(target, classes), chosen, p=classes)


@remembered
def perplexity(logits: oc.Tensor, target: oc.Tensor, *, ignore_index: int | None = None) -> oc.Tensor:
    """The exponential of `cross_entropy`."""
    return oc.exp(cross_entropy(logits, target, ignore_index=ignore_index))


@remembered
def f1(
    predictions: oc.Tensor, target: oc.Tensor, *, average: str = "binary", num: int | None = None
) -> oc.Tensor:
    """The harmonic mean of precision and recall, of predictions and targets as `confusion_matrix` has them.

    "binary" is that of class 1 of two, "macro" the mean over classes that occur, "weighted" that weighted by
    how often they are the target, "micro" that of all classes counted together; 0 where nothing is counted.
    Raises `ArgumentError` for another average, and for "binary" of more than two classes.
    """
    if average not in AVERAGES:
        raise oc.ArgumentError(f"an average is {', '.join(AVERAGES)}, found {average!r}")
    if average == "binary" and (classes := _classes(predictions, num)) not in (None, 2):
        raise oc.ArgumentError(
            f"average='binary' is of 2 classes, found {classes}: average='macro' is of all"
        )
    counts = confusion_matrix(predictions, target, num=2 if average == "binary" and num is None else num)
    right = oc.einsum("c, c => c", counts)
    wanted, found = oc.einsum("t, p => t", counts), oc.einsum("t, p => p", counts)
    if average == "micro":
        return _ratio(2 * oc.sum(right), oc.sum(wanted) + oc.sum(found))
    scores = _ratio(2 * right, wanted + found)
    if average == "binary":
        return oc.einsum("1 => |", scores)
    weights = wanted if average == "weighted" else wanted + found > 0
    return _ratio(oc.sum(scores * weights), oc.sum(weights))


@remembered
def r2(predictions: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """The share of the target's variance that predictions explain: batch | out twice; the mean over the
    output row. For a constant target it is 1 where predictions are exact, else 0.
    """
    check_paired(predictions, target)
    n, target = oc.Dim("n"), floats(target)
    centre = oc.einsum("..n.. | ..o.. => ..o..", target, n=n) / n
    rest = oc.einsum("... | ..o.. => ..o..", (target - predictions) ** 2)
    spread = oc.einsum("... | ..o.. => ..o..", (target - centre) ** 2)
    constant = oc.eq(spread, 0.0)
    explained = 1 - rest / oc.where(constant, 1.0, spread)
    return mean(oc.where(constant, oc.eq(rest, 0.0), explained))


def _are_ids(predictions: oc.Tensor) -> bool:
    return oc.as_tensor(predictions).shape.output == ()


def _classes(predictions: oc.Tensor, num: int | None) -> int | None:
    """How many classes there are, as far as it is known."""
    row = oc.as_tensor(predictions).shape.output
    return row[-1] if num is None and row and isinstance(row[-1], int) else num


def _axis_of_classes(scores: oc.Tensor) -> int | oc.Dim:
    """How many classes there are, or a dimension where it is not known."""
    known = None if _are_ids(scores) else _classes(scores, None)
    return oc.Dim("classes") if known is None else known


def _predicted(predictions: oc.Tensor) -> oc.Tensor:
    """The id of the first greatest score; none where one is NaN."""
    if _are_ids(predictions):
        return predictions
    classes = oc.Dim("classes")
    greatest = oc.einmax("... | c => ... | 0", predictions, c=classes)
    place = oc.range(classes)
    return -oc.einmax("... | c => ... |", oc.where(oc.eq(predictions, greatest), -place, float("-inf")))


def _share(right: oc.Tensor, target: oc.Tensor, ignore_index: int | None) -> oc.Tensor:
    if ignore_index is None:
        return mean(right)
    counted = oc.ne(target, integer(ignore_index, "ignore_index", None))
    return oc.sum(oc.where(counted, right, 0.0)) / oc.sum(counted)


def _ratio(part: oc.Tensor, whole: oc.Tensor) -> oc.Tensor:
    """A quotient, 0 where nothing is divided by."""
    nothing = oc.eq(whole, 0.0)
    return oc.where(nothing, 0.0, part / oc.where(nothing, 1.0, whole))
