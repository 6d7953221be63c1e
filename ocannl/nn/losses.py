"""Losses, each one number: the mean over a batch."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.means import mean
from ocannl.nn.softmax import log_softmax


def nll(log_probs: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """The negative log-likelihood of the target: batch | classes and batch | to one number.

    The target is integer ids with an empty output row, or a distribution over the output row, by which the
    logarithms are weighted then.
    """
    target = oc.as_tensor(target)
    if target.shape.output == ():
        picked = oc.gather("... | c; ... | => ... |", log_probs, target, at="c")
    else:
        picked = oc.einsum("... | ..c..; ... | ..c.. => ... |", log_probs, target)
    return -mean(picked)


def cross_entropy(logits: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """Cross entropy, the `nll` of softmax over the output row: batch | classes and batch | (ids)
    or batch | classes (distributions) to one number.
    """
    return nll(log_softmax(spec="... | ... -> ..classes..")(logits), target)


def mse(a: oc.Tensor, b: oc.Tensor) -> oc.Tensor:
    """The mean squared difference of all elements."""
    return mean((a - b) * (a - b))


def hinge(margin: oc.Tensor) -> oc.Tensor:
    """Hinge loss, the mean of `max(0, 1 - margin)`. For targets 1 and -1, the margin is `target * score`."""
    return mean(oc.relu(1 - margin))
