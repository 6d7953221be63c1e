"""A learning rate that falls when training gets no further."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

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
        threshold_mode: Literal["rel", "abs"],
        cooldown: int,
        min_lr: float,
        eps: float,
    ) -> None:
        if mode not in ("min", "max"):
            raise oc.ArgumentError(f"mode is 'min' or 'max', found {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise oc.ArgumentError(f"threshold_mode is 'rel' or 'abs', found {threshold_mode!r}")
        numbers = {"lr": lr, "factor": factor, "threshold": threshold, "min_lr": min_lr, "eps": eps}
        for name, value in numbers.items():
            number(value, f"{name} of a plateau", below=1 if name == "factor" else None)
        integer(patience, "patience of a plateau")
        integer(cooldown, "cooldown of a plateau")
        self.metric, self.mode, self.threshold_mode = metric, mode, threshold_mode
        self.factor, self.patience, self.threshold = factor, patience, threshold
        self.cooldown, self.min_lr, self.eps = cooldown, min_lr, eps
        with oc.scope("plateau"):
            self.rate = oc.node("rate", output=[], init=lr, kind="counter")
            worst = math.inf if mode == "min" else -math.inf
            self.best = oc.node("best", output=[], init=worst, kind="counter")
            self.bad = oc.node("bad", output=[], init=0, kind="counter")
            self.rest = oc.node("rest", output=[], init=0, kind="counter") if cooldown else None
        _plateaus[self.rate.ir_value] = self

    def update(self, ctx: oc.Context, value: float) -> None:
        """Notes what an evaluation gave, and lowers the rate if that was no better for too long."""
        bad = int(ctx[self.bad]) + 1
        if self._is_better(float(np.asarray(value, self.best.dtype)), float(ctx[self.best])):
            ctx[self.best], bad = value, 0
        if self.rest is not None and (rest := int(ctx[self.rest])):
            ctx[self.rest], bad = rest - 1, 0
        if bad > self.patience:
            old = float(ctx[self.rate])
            new = max(old * self.factor, self.min_lr)
            if old - new > self.eps:
                ctx[self.rate] = new
            if self.rest is not None:
                ctx[self.rest] = self.cooldown
            bad = 0
        ctx[self.bad] = bad

    def _is_better(self, value: float, best: float) -> bool:
        """As PyTorch tells it: by a share of the best value, also of a negative one, or by a difference."""
        if math.isinf(best):
            return value > best if self.mode == "max" else value < best
        step = self.threshold if self.mode == "max" else -self.threshold
        bound = best * (1 + step) if self.threshold_mode == "rel" else best + step
        return value > bound if self.mode == "max" else value < bound

    def state_roots(self) -> Sequence[oc.Tensor]:
        """The rate, the best value so far, how many were no better since, and how many are let pass."""
        own = self.rate, self.best, self.bad
        return own if self.rest is None else (*own, self.rest)

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
    threshold_mode: Literal["rel", "abs"] = "rel",
    cooldown: int = 0,
    min_lr: float = 0.0,
    eps: float = 1e-8,
) -> Plateau:
    """A learning rate that is multiplied by `factor` when a metric has not become better for more than
    `patience` evaluations (as PyTorch's `ReduceLROnPlateau`). `train.fit` gives it what evaluation returns
    under the name `metric`; else `rate.update(ctx, value)` does.

    Better is by `threshold` of the best value, or by `threshold` itself with `threshold_mode="abs"`. After
    the rate has fallen, `cooldown` evaluations do not count. It falls to `min_lr` at most, and not by `eps`
    or less.
    """
    return Plateau(lr, metric, mode, factor, patience, threshold, threshold_mode, cooldown, min_lr, eps)


def plateaus_in(state: Iterable[object]) -> list[Plateau]:
    """Those whose rates are among the state of a program."""
    rates = [entry.ir_value for entry in state if isinstance(entry, oc.Tensor)]
    return [_plateaus[rate] for rate in rates if rate in _plateaus]
