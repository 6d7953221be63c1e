"""Losses, each one number: the mean over a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import ocannl as oc
from ocannl.nn.activations import softplus_below
from ocannl.nn.means import mean
from ocannl.nn.softmax import log_softmax

Pullbacks: TypeAlias = Callable[[oc.Tensor], tuple[oc.Tensor, oc.Tensor]]


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


def bce_with_logits(logits: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """Binary cross entropy of `sigmoid(logits)`: batch | out and batch | out (probabilities, as 0 and 1) to
    one number, the mean over the batch of the sum over the output row.

    Without overflow, and exact for small results, as `F.binary_cross_entropy_with_logits` of PyTorch.
    """
    return mean(oc.einsum("... | ..o.. => ... |", _binary_cross_entropy(logits, target)))


@oc.custom_gradient
def _binary_cross_entropy(logits: oc.Tensor, target: oc.Tensor) -> tuple[oc.Tensor, Pullbacks]:
    """`softplus(logits) - target * logits`, with the large parts subtracted first."""
    value = oc.relu(logits) - target * logits + softplus_below(logits)
    return value, lambda cotangent: (cotangent * (oc.sigmoid(logits) - target), -cotangent * logits)


def mse(a: oc.Tensor, b: oc.Tensor) -> oc.Tensor:
    """The mean squared difference of all elements."""
    return mean((a - b) * (a - b))


def hinge(margin: oc.Tensor) -> oc.Tensor:
    """Hinge loss, the mean of `max(0, 1 - margin)`. For targets 1 and -1, the margin is `target * score`."""
    return mean(oc.relu(1 - margin))
