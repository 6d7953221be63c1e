"""An end of training when evaluation gives nothing better."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import ocannl as oc
from ocannl.program.arguments.checks import integer, number
from ocannl.program.memory.state import Held
from ocannl.program.values import Kind

Mode: TypeAlias = Literal["min", "max"]


class EarlyStopping(Held):
    """Counts evaluations that were no better than the best before them. The best value and the count are
    state.
    """

    label = "early_stopping"
    kind: Kind = "counter"

    def __init__(self, patience: int, metric: str | None, mode: Mode | None, min_delta: float) -> None:
        if mode not in ("min", "max", None):
            raise oc.ArgumentError(f"mode is 'min' or 'max', found {mode!r}")
        if not isinstance(metric, str | None):
            raise oc.ArgumentError(f"a metric is named, as 'loss', found {metric!r}")
        self.patience = integer(patience, "the patience", least=1)
        number(min_delta, "min_delta")
        self.metric, self.mode, self.min_delta = metric, mode, min_delta
        self._asked = metric, mode
        self.best, self.bad = math.nan, 0

    def follow(self, metric: str, mode: Mode | None) -> None:
        """Watches the metric of checkpoints, as they order it, where none was said."""
        asked, order = self._asked
        if asked in (None, metric):
            self.metric, self.mode = metric, order or mode

    def update(self, value: float) -> None:
        """Notes what an evaluation gave."""
        sign = -1 if self.mode == "max" else 1
        first = math.isnan(self.best) and not math.isnan(value)
        if first or sign * value < sign * self.best - self.min_delta:
            self.best, self.bad = value, 0
        else:
            self.bad += 1

    @property
    def is_over(self) -> bool:
        """Whether as many evaluations in a row were no better."""
        return self.bad >= self.patience

    def read(self) -> NDArray[Any]:
        return np.array([self.best, self.bad], np.float64)

    def write(self, array: ArrayLike) -> None:
        best, bad = np.asarray(array).tolist()
        self.best, self.bad = best, int(bad)


def early_stopping(
    patience: int = 3, *, metric: str | None = None, mode: Mode | None = None, min_delta: float = 0.0
) -> EarlyStopping:
    """Ends `train.fit` after `patience` evaluations in a row whose `metric` is not better than the best by
    more than `min_delta`: by default that of `fit`. It is less, or with `mode="max"` more; by default as its
    checkpoints say whose metric it is, else less.
    """
    return EarlyStopping(patience, metric, mode, min_delta)
