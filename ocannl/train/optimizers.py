"""The optimizers, with the defaults of PyTorch where it has them."""

from __future__ import annotations

from typing import Any, Literal, Unpack

from ocannl.train import rules
from ocannl.train.optimizer import Optimizer
from ocannl.train.options import Common, LearningRate, check_common, check_nesterov
from ocannl.train.update_step import Rule

Pair = tuple[float, float]


def _optimizer(rule: Rule, given: dict[str, Any]) -> Optimizer:
    """The optimizer of a rule, with the arguments of a function below by their names: its `locals()`, as
    there are no others yet.
    """
    options = {name: value for name, value in given.items() if name not in ("lr", "common")}
    check_common(rule.__name__, given["common"])
    return Optimizer(rule.__name__, rule, given["lr"], options, given["common"])


def sgd(
    lr: LearningRate = 1e-3,
    *,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    **common: Unpack[Common],
) -> Optimizer:
    """Stochastic gradient descent, with momentum (Sutskever et al., 2013), as PyTorch's `SGD`."""
    optimizer = _optimizer(rules.sgd, locals())
    for group in ({}, *optimizer.groups.values()):
        check_nesterov("sgd", {**optimizer.options, **group})
    return optimizer


def adam(
    lr: LearningRate = 1e-3,
    *,
    betas: Pair = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    **common: Unpack[Common],
) -> Optimizer:
    """Adam (Kingma and Ba, 2015), as PyTorch's `Adam`: weight decay is part of the gradient."""
    return _optimizer(rules.adam, locals())


def adamw(
    lr: LearningRate = 1e-3,
    *,
    betas: Pair = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    amsgrad: bool = False,
    **common: Unpack[Common],
) -> Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as PyTorch's `AdamW`."""
    return _optimizer(rules.adamw, locals())


def rmsprop(
    lr: LearningRate = 1e-2,
    *,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    **common: Unpack[Common],
) -> Optimizer:
    """RMSprop (Tieleman and Hinton, 2012), as PyTorch's `RMSprop`."""
    return _optimizer(rules.rmsprop, locals())


def adagrad(
    lr: LearningRate = 1e-2,
    *,
    lr_decay: float = 0.0,
    weight_decay: float = 0.0,
    initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
    **common: Unpack[Common],
) -> Optimizer:
    """Adagrad (Duchi et al., 2011), as PyTorch's `Adagrad`."""
    return _optimizer(rules.adagrad, locals())


def adadelta(
    lr: LearningRate = 1.0,
    *,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    **common: Unpack[Common],
) -> Optimizer:
    """Adadelta (Zeiler, 2012), as PyTorch's `Adadelta`."""
    return _optimizer(rules.adadelta, locals())


def nadam(
    lr: LearningRate = 2e-3,
    *,
    betas: Pair = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum_decay: float = 4e-3,
    decoupled_weight_decay: bool = False,
    **common: Unpack[Common],
) -> Optimizer:
    """Adam with Nesterov's momentum (Dozat, 2016), as PyTorch's `NAdam`, to rounding: the product of its
    weights is kept in f32 for parameters of any precision, as there.
    """
    return _optimizer(rules.nadam, locals())


def radam(
    lr: LearningRate = 1e-3,
    *,
    betas: Pair = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
    **common: Unpack[Common],
) -> Optimizer:
    """Rectified Adam (Liu et al., 2020), as PyTorch's `RAdam`."""
    return _optimizer(rules.radam, locals())


def lamb(
    lr: LearningRate = 1e-3,
    *,
    betas: Pair = (0.9, 0.999),
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    **common: Unpack[Common],
) -> Optimizer:
    """LAMB (You et al., 2020): the step of each parameter is as long as the parameter, times `lr`."""
    return _optimizer(rules.lamb, locals())


def lion(
    lr: LearningRate = 1e-4, *, betas: Pair = (0.9, 0.99), weight_decay: float = 0.0, **common: Unpack[Common]
) -> Optimizer:
    """Lion (Chen et al., 2023): steps of the sign of a mean, with decoupled weight decay."""
    return _optimizer(rules.lion, locals())


def rprop(
    lr: float = 1e-2, *, etas: Pair = (0.5, 1.2), step_sizes: Pair = (1e-6, 50.0), **common: Unpack[Common]
) -> Optimizer:
    """Resilient backpropagation (Riedmiller and Braun, 1993), as PyTorch's `Rprop`: `lr` is the first step,
    which then grows and shrinks for each element by itself.
    """
    return _optimizer(rules.rprop, locals())


def muon(
    lr: LearningRate = 1e-3,
    *,
    weight_decay: float = 0.1,
    momentum: float = 0.95,
    nesterov: bool = True,
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
    eps: float = 1e-7,
    ns_steps: int = 5,
    adjust_lr_fn: Literal["original", "match_rms_adamw"] = "original",
    **common: Unpack[Common],
) -> Optimizer:
    """Muon (Jordan et al., 2024), as PyTorch's `Muon`: momentum made orthogonal. For matrices, whose rows may
    have any number of axes; other parameters need a second optimizer. It is computed in the parameter's
    precision: PyTorch's rounds these iterations to bf16, so that its steps differ by some thousandths.
    """
    return _optimizer(rules.muon, locals())
