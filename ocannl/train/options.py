"""The options of optimizers, and what each may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypedDict, cast

import numpy as np

import ocannl as oc
from ocannl.program.tensor import Expression
from ocannl.train.plateau import Plateau
from ocannl.train.schedules import Schedule

LearningRate: TypeAlias = oc.TensorLike | Schedule | Plateau

# Options that are no numbers.
CHOICES = ("nesterov", "amsgrad", "centered", "decoupled_weight_decay", "adjust_lr_fn")


class Common(TypedDict, total=False):
    """Options that all optimizers have.

    Attributes:
        groups: other options for the parameters whose names match a pattern, as `{"*.b": {"lr": 0.1}}`; the
            last pattern that matches decides.
        clip_norm: the largest norm of all gradients together.
        clip_value: the largest gradient of either sign.
        accumulate: so many steps are one, by the mean of their gradients.
        ema: the share of the old average in that of each parameter, which `averaged` uses.
        label: the scope of its memory, by default its name.
    """

    groups: Mapping[str, Mapping[str, Any]]
    clip_norm: float | None
    clip_value: float | None
    accumulate: int
    ema: float | None
    label: str


def check_option(optimizer: str, name: str, value: object, *, lr: bool = False) -> None:
    """Raises `ArgumentError` for an option that is no number, or not one that it can be."""
    if lr and isinstance(value, Schedule | Plateau | Expression):
        return
    if name in CHOICES:
        return
    numbers: Iterable[object] = cast(Iterable[object], value) if isinstance(value, tuple | list) else [value]
    for number in numbers:
        if not isinstance(number, int | float | np.integer | np.floating):
            what = "a number, an expression or a schedule" if lr else "a number"
            raise oc.ArgumentError(f"{name} of {optimizer} is {what}, found {value!r}")
        if name != "ns_coefficients" and not number >= 0:
            raise oc.ArgumentError(f"{name} of {optimizer} is not negative, found {value!r}")
        if name in ("betas", "rho", "alpha") and number >= 1:
            raise oc.ArgumentError(f"{name} of {optimizer} is less than 1, found {value!r}")
