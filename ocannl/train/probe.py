"""A look into a model while it is trained: its weights, gradients and activations on a few examples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.execute.reports.traced_routine import TracedRoutine
from ocannl.program.arguments.numbers import is_number, number
from ocannl.train.optimizer import Optimizer
from ocannl.train.options import LearningRate
from ocannl.train.plateau import Plateau
from ocannl.train.schedules import Schedule

Array = NDArray[Any]
# Labels of expressions without a name.
UNNAMED = re.compile(r"n\d+")


@dataclass(frozen=True)
class Observation:
    """The findings of a probe: arrays of weights and of activations, norms of gradients, and how many units
    were 0 for all of the examples, as a part of 1; each by name. The learning rate, if there is an optimizer.
    """

    weights: Mapping[str, Array]
    gradients: Mapping[str, float]
    activations: Mapping[str, Array]
    dead: Mapping[str, float]
    rate: float | None


class Probe:
    """Looks at a loss of a few examples, which `oc.data` holds: its parameters, the norms of their gradients,
    and the values of its expressions that have names, such as `relu`. Training is not disturbed.
    """

    def __init__(self, loss: oc.Tensor, ctx: oc.Context, optimizer: Optimizer | None = None) -> None:
        if not isinstance(loss, oc.Tensor):
            raise oc.ArgumentError(f"a loss of a few examples is watched, a tensor; found {loss!r}")
        self._params, self._ctx = oc.params(loss), ctx
        if not self._params:
            raise oc.ArgumentError("the loss that is watched is computed without a parameter")
        found = oc.grad(loss, [*self._params.values()])
        norms = [oc.sqrt((gradient * gradient).sum()) for gradient in found]
        self._norms = dict(zip(self._params, norms, strict=True))
        self._rate = None if optimizer is None else _Rate(optimizer.lr, ctx)
        self._loss = loss
        self._routines: tuple[oc.Routine, TracedRoutine] | None = None

    def __call__(self, step: int) -> Observation:
        """Looks at the model as it is after so many steps."""
        gradients, forward = self._compiled()
        gradients()
        forward()
        activations = {
            one.assignment.label: one.value
            for one in forward.trace.steps
            if not one.seen.axes and _is_activation(one.value)
        }
        activations = {name: array for name, array in activations.items() if not UNNAMED.fullmatch(name)}
        return Observation(
            {name: np.array(self._ctx[p]) for name, p in self._params.items()},
            {name: float(self._ctx[norm]) for name, norm in self._norms.items()},
            activations,
            {name: _dead(array) for name, array in activations.items()},
            None if self._rate is None else self._rate(step),
        )

    def _compiled(self) -> tuple[oc.Routine, TracedRoutine]:
        """Compiled when they are needed first: parameters may get their values after the probe was made."""
        if self._routines is None:
            code = sum((norm.forward for norm in self._norms.values()), oc.Code())
            forward = self._ctx.compile(oc.forward(self._loss), "activations", trace=True)
            assert isinstance(forward, TracedRoutine)
            self._routines = self._ctx.compile(code, "gradient norms"), forward
        return self._routines


class _Rate:
    """The learning rate after a number of steps; none for an expression, of which an index may be another."""

    def __init__(self, lr: LearningRate, ctx: oc.Context) -> None:
        self._lr, self._ctx = lr, ctx
        self._count = oc.node("step", output=[], init=0)
        self._at = lr(self._count) if isinstance(lr, Schedule) else None

    def __call__(self, step: int) -> float | None:
        if self._at is not None:
            self._ctx[self._count] = max(step - 1, 0)
            return float(self._ctx[self._at])
        if isinstance(self._lr, Plateau):
            return float(self._ctx[self._lr.rate])
        return None if not is_number(self._lr) else float(np.asarray(number(self._lr)))


def _is_activation(array: Array) -> bool:
    return array.dtype.kind == "f" and array.ndim >= 2 and array.size > 0


def _dead(array: Array) -> float:
    """The part of the last axis that is 0 everywhere."""
    alive = np.any(array.reshape(-1, array.shape[-1]), axis=0)
    return 1.0 - np.count_nonzero(alive) / alive.size


def histogram(array: Array, bins: int = 24) -> tuple[float, float, Sequence[int]]:
    """The least and the greatest finite value, and how many are in each of so many equal parts between."""
    finite = array[np.isfinite(array)].astype(np.float64)
    if not finite.size:
        return 0.0, 0.0, [0] * bins
    counts, edges = np.histogram(finite, bins)
    return float(edges[0]), float(edges[-1]), [int(count) for count in counts]
