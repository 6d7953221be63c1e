"""Learning rates that change with the step: of an optimizer's step counter, or of any index."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import isfunction, ismethod, signature
from typing import Any, cast

import ocannl as oc
from ocannl.program.arguments.checks import number
from ocannl.program.eager.present_value import values_refused
from ocannl.program.mistakes.other_names import OF_SCHEDULES, NamesApart


@dataclass(frozen=True)
class Schedule(NamesApart):
    """A learning rate for each step, which count from 0. `schedule(step)` is an expression of a tensor or
    index; an optimizer gives it its own counter.
    """

    in_place_of = OF_SCHEDULES

    rate: Callable[[oc.Tensor], oc.Tensor]
    description: str

    def __call__(self, step: oc.TensorLike) -> oc.Tensor:
        return self.rate(oc.as_tensor(step)).named("learning_rate")

    def __repr__(self) -> str:
        return f"train.{self.description}"


def as_rate(lr: Any) -> Any:
    """A learning rate, in place of a function of the step a schedule. Raises `ArgumentError` for a function
    that is not called with the step alone.
    """
    if not isfunction(lr) and not ismethod(lr) and not isinstance(lr, partial):
        return lr
    function = cast(Callable[[oc.Tensor], oc.TensorLike], lr)
    name = getattr(function, "__name__", "partial")
    try:
        signature(function).bind(None)
    except ValueError:
        pass  # A function of C may have no signature.
    except TypeError as error:
        raise oc.ArgumentError(
            f"a learning rate is a number, or a function of the step, which is called with that alone; "
            f"{name} refuses it: {error}"
        ) from None
    return Schedule(partial(_rate, function), f"Schedule({name})")


def _rate(function: Callable[[oc.Tensor], oc.TensorLike], step: oc.Tensor) -> oc.Tensor:
    """The rate that a user's function gives for a step."""
    with values_refused():
        return oc.as_tensor(function(step))


def constant(lr: float) -> Schedule:
    """`lr` at every step."""
    _check_rates(lr=lr)
    return Schedule(lambda step: 0 * step + lr, f"constant({lr})")


def linear(lr: float, total: int, start: float = 1.0, end: float = 0.0) -> Schedule:
    """From `lr * start` to `lr * end` over `total` steps, evenly, and `lr * end` from then on (as PyTorch's
    `LinearLR`, of other defaults).
    """
    _check(total=total)
    _check_rates(lr=lr, start=start, end=end)
    return Schedule(
        lambda step: lr * (start + (end - start) * oc.minimum(step / total, 1.0)),
        f"linear({lr}, total={total}, start={start}, end={end})",
    )


def step(lr: float, step_size: int, gamma: float = 0.1) -> Schedule:
    """`lr`, times `gamma` after every `step_size` steps (as PyTorch's `StepLR`)."""
    _check(step_size=step_size)
    _check_rates(lr=lr, gamma=gamma)
    return Schedule(
        lambda step: lr * _power(gamma, oc.floor(step / step_size)),
        f"step({lr}, step_size={step_size}, gamma={gamma})",
    )


def exponential(lr: float, gamma: float) -> Schedule:
    """`lr * gamma**step` (as PyTorch's `ExponentialLR`)."""
    _check_rates(lr=lr, gamma=gamma)
    return Schedule(lambda step: lr * _power(gamma, step), f"exponential({lr}, gamma={gamma})")


def cosine(lr: float, total: int, minimum: float = 0.0) -> Schedule:
    """Half a cosine from `lr` to `minimum` over `total` steps, and `minimum` from then on (Loshchilov and
    Hutter, 2017; up to there as PyTorch's `CosineAnnealingLR`).
    """
    _check(total=total)
    _check_rates(lr=lr, minimum=minimum)
    return Schedule(
        lambda step: _cosine(lr, minimum, step / total), f"cosine({lr}, total={total}, minimum={minimum})"
    )


def warmup_cosine(lr: float, warmup: int, total: int, minimum: float = 0.0) -> Schedule:
    """Rises evenly to `lr` over `warmup` steps, `lr / (warmup + 1)` at step 0; then half a cosine to
    `minimum` at step `total`, which it stays at.
    """
    _check(warmup=warmup, total=total - warmup)
    _check_rates(lr=lr, minimum=minimum)

    def rate(step: oc.Tensor) -> oc.Tensor:
        falling = _cosine(lr, minimum, (step - warmup) / (total - warmup))
        return oc.where(step < warmup, lr * (step + 1) / (warmup + 1), falling)

    return Schedule(rate, f"warmup_cosine({lr}, warmup={warmup}, total={total}, minimum={minimum})")


def one_cycle(
    lr: float, total: int, pct_start: float = 0.3, div_factor: float = 25.0, final_div_factor: float = 1e4
) -> Schedule:
    """From `lr / div_factor` up to `lr` over the first part `pct_start` of `total` steps, and down to the
    first rate divided by `final_div_factor`, both by half a cosine (Smith and Topin, 2018; as PyTorch's
    `OneCycleLR`, which also changes momentum unless it is told not to).
    """
    _check_rates(lr=lr, pct_start=pct_start, div_factor=div_factor, final_div_factor=final_div_factor)
    top = pct_start * total - 1
    if not 0 < top < total - 1:
        raise oc.ArgumentError(f"a part of {total} steps rises and the rest falls, found {pct_start}")
    first = lr / div_factor

    def rate(step: oc.Tensor) -> oc.Tensor:
        falling = _cosine(lr, first / final_div_factor, (step - top) / (total - 1 - top))
        return oc.where(step < top, _cosine(first, lr, step / top), falling)

    return Schedule(rate, f"one_cycle({lr}, total={total}, pct_start={pct_start})")


def _cosine(first: float, last: float, part: oc.Tensor) -> oc.Tensor:
    """Half a cosine between two rates, at a part of the way, which ends at 1."""
    return last + (first - last) * 0.5 * (1 + oc.cos(math.pi * oc.minimum(part, 1.0)))


def _power(base: float, exponent: oc.Tensor) -> oc.Tensor:
    """A power of a base above 0, as exact for large exponents as for small ones."""
    return oc.exp(exponent * math.log(base))


def _check(**counts: int) -> None:
    """Raises `ArgumentError` for a number of steps that is not positive."""
    for name, count in counts.items():
        if not count > 0:
            raise oc.ArgumentError(f"{name} is a positive number of steps, found {count}")


def _check_rates(**rates: float) -> None:
    """Raises `ArgumentError` for negative rates, and for factors that are 0."""
    for name, rate in rates.items():
        number(rate, name)
        if not rate and name in ("gamma", "div_factor", "final_div_factor"):
            raise oc.ArgumentError(f"{name} is above 0, found {rate}")
