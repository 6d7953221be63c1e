"""The options of optimizers, and what each may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from reprlib import repr as short
from typing import Any, TypeAlias, TypedDict, cast

import numpy as np

import ocannl as oc
from ocannl.program.arguments.checks import flag, integer, number
from ocannl.program.tensor import Expression
from ocannl.train.plateau import Plateau
from ocannl.train.schedules import Schedule

LearningRate: TypeAlias = oc.TensorLike | Schedule | Plateau | Callable[[oc.Tensor], oc.TensorLike]

FLAGS = ("nesterov", "amsgrad", "centered", "decoupled_weight_decay", "maximize", "count_each")
SEVERAL = ("betas", "etas", "step_sizes", "ns_coefficients")
"""Options of several numbers."""
ADJUSTMENTS = ("original", "match_rms_adamw")
SHARES = ("rho", "alpha", "beta1", "beta2", "ema")
"""Shares of an old value in a mean, less than 1."""


class Common(TypedDict, total=False):
    """Options that all optimizers have.

    Attributes:
        groups: other options for the parameters whose names match a pattern, as `{"*.b": {"lr": 0.1}}`; the
            last pattern that matches decides.
        clip_norm: the largest norm of all gradients together.
        clip_value: the largest gradient of either sign.
        accumulate: so many steps are one, by the mean of their gradients.
        ema: the share of the old average in that of each parameter, which `averaged` uses.
        swa: the first step (from 0) of an even average of each parameter, which `averaged` uses; or that and
            an interval, as `(100, 10)` for every tenth step.
        count_each: steps are counted for each parameter, so that some may be frozen for a while by `params=`;
            else for those that are trained together.
        maximize: steps go up: the gradients are those of the negative loss.
        label: the scope of its memory, by default its name.
    """

    groups: Mapping[str, Mapping[str, Any]]
    clip_norm: float | None
    clip_value: float | None
    accumulate: int
    ema: float | None
    swa: int | tuple[int, int] | None
    count_each: bool
    maximize: bool
    label: str


def check_option(optimizer: str, name: str, value: object, *, lr: bool = False) -> None:
    """Raises `ArgumentError` for an option that is not what it can be."""
    what = f"{name} of {optimizer}"
    if lr and isinstance(value, Schedule | Plateau | Expression):
        return
    if name in FLAGS:
        flag(value, name)
    elif name == "adjust_lr_fn":
        if value not in ADJUSTMENTS:
            raise oc.ArgumentError(f"{what} is {' or '.join(map(repr, ADJUSTMENTS))}, found {value!r}")
    elif name in SEVERAL:
        _check_several(what, name, value)
    elif name == "ns_steps":
        integer(value, what)
    elif lr and not isinstance(value, int | float | np.generic | np.ndarray):
        way = (
            "; parameters are given to no optimizer: step(loss) trains those of the loss, "
            "step(loss, params=[...]) some of them"
        )
        found = f"{short(value)}{'' if isinstance(value, str) else way}"
        raise oc.ArgumentError(f"{what} is a number, an expression or a schedule, found {found}")
    else:
        number(value, what, below=1 if name in SHARES else None)


def check_common(optimizer: str, common: Common) -> None:
    """Raises `ArgumentError` for an option of all optimizers that is not what it can be."""
    for name in ("clip_norm", "clip_value", "ema"):
        if (value := common.get(name)) is not None:
            check_option(optimizer, name, value)
            if name != "ema" and value == 0:
                raise oc.ArgumentError(f"{name} of {optimizer} is more than 0; None is for no clipping")
    for name in ("maximize", "count_each"):
        check_option(optimizer, name, common.get(name, False))
    if common.get("ema") is not None and common.get("swa") is not None:
        raise oc.ArgumentError(f"{optimizer} keeps one average of each parameter: ema= or swa=")
    groups: object = common.get("groups", {})
    if not isinstance(groups, Mapping):
        raise oc.ArgumentError(f"groups of {optimizer} are options by patterns of names, found {groups!r}")
    for pattern, given in cast(Mapping[object, object], groups).items():
        if not isinstance(pattern, str) or not isinstance(given, Mapping):
            raise oc.ArgumentError(f"a group of {optimizer} is options by name, found {pattern!r}: {given!r}")


def check_nesterov(optimizer: str, options: Mapping[str, Any]) -> None:
    """Raises `ArgumentError` where Nesterov's step has no momentum to look ahead by, or a damped one."""
    if options["nesterov"] and (not options["momentum"] or options.get("dampening")):
        raise oc.ArgumentError(f"nesterov of {optimizer} asks for momentum, and for no dampening")


def _check_several(what: str, name: str, value: object) -> None:
    """Checks an option of several numbers."""
    size = 3 if name == "ns_coefficients" else 2
    if not isinstance(value, tuple | list | np.ndarray) or np.shape(cast(Any, value)) != (size,):
        raise oc.ArgumentError(f"{what} are {size} numbers, found {value!r}")
    for one in cast(Iterable[Any], value):
        number(one, what, signed=size == 3, below=1 if name == "betas" else None)
    least, most = cast(tuple[float, float], value)[:2]
    if name == "etas" and not 0 < least < 1 < most:
        raise oc.ArgumentError(f"{what} are below and above 1, found {value!r}")
