"""Losses: one number each, the mean over a batch."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.means import mean
from ocannl.nn.softmax import log_softmax


def nll(log_probs: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """The negative logarithm of the target's probability: batch | classes and batch | to one number.

    The target is integer ids with an empty output row, or a distribution over the output row: then the
    logarithms are weighted by it.
    """
    target = oc.as_tensor(target)
    if target.shape.output == ():
        picked = oc.gather("... | c; ... | => ... |", log_probs, target, at="c")
    else:
        picked = oc.einsum("... | ..c..; ... | ..c.. => ... |", log_probs, target)
    return -mean(picked)


def cross_entropy(logits: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """`nll` of the probabilities that softmax over the output row gives: batch | classes and batch | (ids)
    or batch | classes (distributions) to one number.
    """
    return nll(log_softmax(spec="... | ... -> ..classes..")(logits), target)


def mse(a: oc.Tensor, b: oc.Tensor) -> oc.Tensor:
    """The mean squared difference of all elements."""
    return mean((a - b) * (a - b))


def hinge(margin: oc.Tensor) -> oc.Tensor:
    """The mean of `max(0, 1 - margin)`; the margin of a class 1 or -1 is `target * score`."""
    return mean(oc.relu(1 - margin))
