"""A learning rate that falls when training gets no further."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal
from weakref import WeakKeyDictionary

import ocannl as oc
from ocannl.program.arguments.checks import integer, number
from ocannl.program.values import Value

_plateaus: WeakKeyDictionary[Value, Plateau] = WeakKeyDictionary()
"""Those whose rates are in use, by these."""


class Plateau:
    """A learning rate in memory, which `update` lowers. All that it keeps is state."""

    def __init__(
        self,
        lr: float,
        metric: str,
        mode: Literal["min", "max"],
        factor: float,
        patience: int,
        threshold: float,
        min_lr: float,
    ) -> None:
        if mode not in ("min", "max"):
            raise oc.ArgumentError(f"mode is 'min' or 'max', found {mode!r}")
        for name, value in (("lr", lr), ("factor", factor), ("threshold", threshold), ("min_lr", min_lr)):
            number(value, f"{name} of a plateau", below=1 if name == "factor" else None)
        integer(patience, "patience of a plateau")
        self.metric, self.mode = metric, mode
        self.factor, self.patience, self.threshold, self.min_lr = factor, patience, threshold, min_lr
        with oc.scope("plateau"):
            self.rate = oc.node("rate", output=[], init=lr, kind="counter")
            worst = math.inf if mode == "min" else -math.inf
            self.best = oc.node("best", output=[], init=worst, kind="counter")
            self.bad = oc.node("bad", output=[], init=0, kind="counter")
        _plateaus[self.rate.ir_value] = self

    def update(self, ctx: oc.Context, value: float) -> None:
        """Notes what an evaluation gave, and lowers the rate if that was no better for too long."""
        best, bad = float(ctx[self.best]), int(ctx[self.bad])
        sign = 1 if self.mode == "min" else -1
        if math.isinf(best) or sign * value < sign * best - self.threshold * abs(best):
            ctx[self.best], bad = value, 0
        else:
            bad += 1
        if bad > self.patience:
            ctx[self.rate] = max(float(ctx[self.rate]) * self.factor, self.min_lr)
            bad = 0
        ctx[self.bad] = bad

    def state_roots(self) -> Sequence[oc.Tensor]:
        """The rate, the best value so far, and how many were no better since."""
        return self.rate, self.best, self.bad

    def __repr__(self) -> str:
        return f"train.plateau(metric={self.metric!r}, mode={self.mode!r}, patience={self.patience})"


def plateau(
    lr: float = 1e-3,
    *,
    metric: str = "loss",
    mode: Literal["min", "max"] = "min",
    factor: float = 0.1,
    patience: int = 10,
    threshold: float = 1e-4,
    min_lr: float = 0.0,
) -> Plateau:
    """A learning rate that is multiplied by `factor` when a metric has not become better for more than
    `patience` evaluations (as PyTorch's `ReduceLROnPlateau`). `train.fit` gives it what evaluation returns
    under the name `metric`; else `rate.update(ctx, value)` does. Better is by `threshold` of the best value.
    """
    return Plateau(lr, metric, mode, factor, patience, threshold, min_lr)


def plateaus_in(state: Iterable[object]) -> list[Plateau]:
    """Those whose rates are among the state of a program."""
    rates = [entry.ir_value for entry in state if isinstance(entry, oc.Tensor)]
    return [_plateaus[rate] for rate in rates if rate in _plateaus]
