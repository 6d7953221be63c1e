"""Recipes for updates of parameters, written with the public API alone: to be read, and copied where they do
not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

import ocannl as oc
from ocannl.train.options import check_nesterov, check_option
from ocannl.train.plateau import Plateau
from ocannl.train.remembered import remembered
from ocannl.train.schedules import Schedule

Memory: TypeAlias = Callable[[str], oc.Tensor]
"""The memory of one parameter by name, of its shape, which starts at zero."""


def memory_of(p: oc.Tensor) -> Memory:
    """New memory for a parameter; in eager mode the same in each step."""
    return lambda name: remembered(p, name, lambda: oc.node(name, of=p, kind="moment"))


def trained_params(loss: oc.Tensor, optimizer: str) -> dict[str, oc.Tensor]:
    """The parameters that a loss has derivatives for. Raises `ArgumentError` where there is none."""
    found = oc.params(loss, trained=True)
    if found:
        return found
    if not (others := [f"`{name}`" for name in oc.params(loss)]):
        raise oc.ArgumentError(
            f"{optimizer} has nothing to train: the loss is computed without a parameter; "
            "compute it from a layer of nn, or from an oc.param"
        )
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    raise oc.ArgumentError(
        f"{optimizer} has nothing to train: no gradient of the loss reaches its parameters "
        f"{', '.join(others[:3])}{more}; they are frozen (use the block itself, not its `freeze()`), or "
        "behind oc.stop_gradient"
    )


def sgd_update(
    loss: oc.Tensor,
    *,
    learning_rate: oc.TensorLike,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> oc.Code:
    """Code that updates every parameter that a loss has derivatives for, by stochastic gradient descent (as
    PyTorch's `optim.SGD`). Gradients are those that `grad_update` leaves.

    With momentum, `v = momentum * v + gradient + weight_decay * p`, and `p -= learning_rate * v`; `nesterov`
    looks ahead by one momentum step. `learning_rate` may be an expression, for example of an `oc.index`.
    """
    options = {"momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
    _check("sgd_update", learning_rate, options)
    check_nesterov("sgd_update", options)
    updates = [
        sgd_one(
            p, learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov
        )
        for p in trained_params(loss, "sgd").values()
    ]
    return oc.block_comment(f"{loss.label} sgd update", sum(updates, oc.Code()))


def sgd_one(
    p: oc.Tensor,
    *,
    learning_rate: oc.TensorLike,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    gradient: oc.Tensor | None = None,
    memory: Memory | None = None,
) -> oc.Code:
    """The update of one parameter by stochastic gradient descent; its momentum is a node of the parameter's
    shape, from `memory` if that is given. `gradient` is that of `p` if none is given.
    """
    check_option("sgd", "momentum", momentum)
    with oc.code(f"{p.label} sgd step") as step:
        delta = p.grad if gradient is None else gradient
        if weight_decay:
            delta = delta + weight_decay * p
        if momentum:
            m = (memory or memory_of(p))("sgd_momentum")
            m[...] = momentum * m + delta
            delta = delta + momentum * m if nesterov else m
        p -= learning_rate * delta
    return step


def adam_update(
    loss: oc.Tensor,
    *,
    learning_rate: oc.TensorLike = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> oc.Code:
    """Code that updates every parameter that a loss has derivatives for, by Adam (Kingma and Ba, 2015), with
    decoupled weight decay (Loshchilov and Hutter, 2019; as PyTorch's `optim.AdamW`). Gradients are those that
    `grad_update` leaves.
    """
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "weight_decay": weight_decay}
    _check("adam_update", learning_rate, options)
    trained = trained_params(loss, "adam")
    first = next(iter(trained.values()))
    steps = remembered(first, "adam_steps", _counter)
    with oc.code("adam step count") as counted:
        steps += 1
    corrections = bias_corrections(steps, beta1, beta2)
    updates = [
        adam_one(
            p,
            steps,
            corrections,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            weight_decay=weight_decay,
        )
        for p in trained.values()
    ]
    return oc.block_comment(f"{loss.label} adam update", sum(updates, counted))


def _counter() -> oc.Tensor:
    """A counter of steps: 64 bits, since f32 would stay at 2**24."""
    return oc.node("adam_steps", output=[], kind="counter", dtype=np.int64)


def adam_one(
    p: oc.Tensor,
    steps: oc.Tensor,
    corrections: tuple[oc.TensorLike, oc.TensorLike] | None = None,
    *,
    learning_rate: oc.TensorLike = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    gradient: oc.Tensor | None = None,
    memory: Memory | None = None,
) -> oc.Code:
    """The update of one parameter by Adam in step number `steps`, counted from 1; its moments are nodes of
    the parameter's shape, from `memory` if that is given. Parameters may share `corrections`, the bias
    corrections of both moments. `gradient` is that of `p` if none is given.

    With `amsgrad` the second moment never falls (Reddi et al., 2018).
    """
    for name, share in (("beta1", beta1), ("beta2", beta2)):
        check_option("adam", name, share)
    of_mean, of_square = corrections or bias_corrections(steps, beta1, beta2)
    own, g = memory or memory_of(p), p.grad if gradient is None else gradient
    with oc.code(f"{p.label} adam step") as step:
        m, v = own("adam_mean"), own("adam_square")
        m[...] = mean_with(m, g, beta1)
        v[...] = square_with(v, g, beta2)
        if amsgrad:
            highest = own("adam_highest_square")
            highest[...] = oc.maximum(highest, v)
            v = highest
        p[...] = _adapted(p, learning_rate, m, of_mean, v, of_square, epsilon, weight_decay)
    return step


@oc.pointwise
def mean_with(mean: oc.Tensor, new: oc.Tensor, kept: float) -> oc.Tensor:
    """A running mean with a new value."""
    return kept * mean + (1 - kept) * new


@oc.pointwise
def square_with(mean: oc.Tensor, new: oc.Tensor, kept: float) -> oc.Tensor:
    """A running mean of squares with a new value."""
    return kept * mean + (1 - kept) * new**2


@oc.pointwise
def _adapted(
    p: oc.Tensor,
    rate: oc.TensorLike,
    m: oc.Tensor,
    of_mean: oc.TensorLike,
    v: oc.Tensor,
    of_square: oc.TensorLike,
    epsilon: float,
    weight_decay: float,
) -> oc.Tensor:
    delta = m / of_mean / (oc.sqrt(v / of_square) + epsilon)
    return p - rate * (delta + weight_decay * p if weight_decay else delta)


def _check(update: str, learning_rate: object, options: Mapping[str, object]) -> None:
    if isinstance(learning_rate, Schedule | Plateau):
        raise oc.ArgumentError(
            f"learning_rate of {update} is a number or an expression, as a schedule of an index and the rate "
            f"of a plateau are: train.cosine(0.1, 100)(step_n), found {learning_rate!r}"
        )
    check_option(update, "learning_rate", learning_rate, lr=True)
    for name, value in options.items():
        check_option(update, name, value)


def bias_corrections(steps: oc.Tensor, beta1: float, beta2: float) -> tuple[oc.TensorLike, oc.TensorLike]:
    """`1 - beta**steps` for both, which a mean over so many steps that began at zero is divided by."""
    return complement_of_power(beta1, steps), complement_of_power(beta2, steps)


def complement_of_power(base: float, exponent: oc.Tensor) -> oc.TensorLike:
    """`1 - base**exponent` for a base in [0, 1), without cancellation where the power is near 1."""
    return -oc.expm1(exponent * math.log(base)) if base else 1.0
