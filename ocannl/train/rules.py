"""The update rules of optimizers for one parameter: code of an `UpdateStep`, by the optimizers' options."""

from __future__ import annotations

import math

import numpy as np

import ocannl as oc
from ocannl.train.recipes import (
    adam_one,
    bias_corrections,
    complement_of_power,
    mean_with,
    sgd_one,
    square_with,
)
from ocannl.train.update_step import UpdateStep

Pair = tuple[float, float]
TOTAL = "... | ... -> ... => |"


def sgd(u: UpdateStep, *, momentum: float, dampening: float, weight_decay: float, nesterov: bool) -> None:
    gradient = u.decayed(weight_decay)
    if momentum and dampening:
        # The first gradient goes into the momentum as a whole.
        gradient = gradient * u.shared(_dampening, dampening)
    sgd_one(u.p, learning_rate=u.lr, momentum=momentum, nesterov=nesterov, gradient=gradient, memory=u.memory)


def _dampening(steps: oc.Tensor, dampening: float) -> oc.Tensor:
    return oc.where(steps <= 1, 1.0, 1 - dampening)


def adam(u: UpdateStep, *, betas: Pair, eps: float, weight_decay: float, amsgrad: bool) -> None:
    _adam(u, u.decayed(weight_decay), betas, eps, 0.0, amsgrad)


def adamw(u: UpdateStep, *, betas: Pair, eps: float, weight_decay: float, amsgrad: bool) -> None:
    _adam(u, u.gradient, betas, eps, weight_decay, amsgrad)


def _adam(
    u: UpdateStep, gradient: oc.Tensor, betas: Pair, eps: float, weight_decay: float, amsgrad: bool
) -> None:
    beta1, beta2 = betas
    adam_one(
        u.p,
        u.steps,
        u.shared(bias_corrections, beta1, beta2),
        learning_rate=u.lr,
        beta1=beta1,
        beta2=beta2,
        epsilon=eps,
        weight_decay=weight_decay,
        amsgrad=amsgrad,
        gradient=gradient,
        memory=u.memory,
    )


def _moments(u: UpdateStep, gradient: oc.Tensor, betas: Pair) -> tuple[oc.Tensor, oc.Tensor]:
    """The running means of a gradient and of its square, updated."""
    (beta1, beta2), m, v = betas, u.memory("mean"), u.memory("square")
    m[...] = mean_with(m, gradient, beta1)
    v[...] = square_with(v, gradient, beta2)
    return m, v


def rmsprop(
    u: UpdateStep, *, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool
) -> None:
    p, g, square = u.p, u.decayed(weight_decay), u.memory("square")
    square[...] = alpha * square + (1 - alpha) * g**2
    spread: oc.Tensor = square
    if centered:
        mean = u.memory("mean")
        mean[...] = alpha * mean + (1 - alpha) * g
        spread = square - mean**2
    delta = g / (oc.sqrt(spread) + eps)
    if momentum:
        buffer = u.memory("momentum")
        buffer[...] = momentum * buffer + delta
        delta = buffer
    p -= u.lr * delta


def adagrad(
    u: UpdateStep, *, lr_decay: float, weight_decay: float, initial_accumulator_value: float, eps: float
) -> None:
    p, g, total = u.p, u.decayed(weight_decay), u.node("sum", initial_accumulator_value)
    total += g**2
    rate = u.shared(_falling, u.lr, lr_decay) if lr_decay else u.lr
    p -= rate * g / (oc.sqrt(total) + eps)


def _falling(steps: oc.Tensor, lr: oc.TensorLike, decay: float) -> oc.TensorLike:
    return lr / (1 + (steps - 1) * decay)


def adadelta(u: UpdateStep, *, rho: float, eps: float, weight_decay: float) -> None:
    p, g = u.p, u.decayed(weight_decay)
    square, travelled, delta = u.memory("square"), u.memory("travelled"), u.temporary("delta")
    square[...] = rho * square + (1 - rho) * g**2
    delta[...] = oc.sqrt(travelled + eps) / oc.sqrt(square + eps) * g
    travelled[...] = rho * travelled + (1 - rho) * delta**2
    p -= u.lr * delta


def nadam(
    u: UpdateStep,
    *,
    betas: Pair,
    eps: float,
    weight_decay: float,
    momentum_decay: float,
    decoupled_weight_decay: bool,
) -> None:
    p, g = u.p, u.gradient if decoupled_weight_decay else u.decayed(weight_decay)

    def weight(steps: oc.Tensor) -> oc.Tensor:
        return betas[0] * (1 - 0.5 * oc.exp(steps * (momentum_decay * math.log(0.96))))

    now, then = weight(u.steps), weight(u.steps + 1)
    m, v = _moments(u, g, betas)
    # PyTorch keeps it in f32 for parameters of any precision.
    kept = u.number("mu_product", 1.0, np.float32)
    kept *= oc.cast(now, np.float32)
    product = oc.cast(kept, np.float64) if p.dtype == np.float64 else kept
    spread = oc.sqrt(v / complement_of_power(betas[1], u.steps)) + eps
    delta = ((1 - now) / (1 - product) * g + then / (1 - product * then) * m) / spread
    p -= u.lr * (delta + weight_decay * p if decoupled_weight_decay else delta)


def radam(
    u: UpdateStep, *, betas: Pair, eps: float, weight_decay: float, decoupled_weight_decay: bool
) -> None:
    p, g = u.p, u.gradient if decoupled_weight_decay else u.decayed(weight_decay)
    m, v = _moments(u, g, betas)
    of_mean, scale, is_known = u.shared(_rectification, *betas)
    delta = m / of_mean * oc.where(is_known, scale / (oc.sqrt(v) + eps), 1.0)
    p -= u.lr * (delta + weight_decay * p if decoupled_weight_decay else delta)


def _rectification(
    steps: oc.Tensor, beta1: float, beta2: float
) -> tuple[oc.TensorLike, oc.Tensor, oc.Tensor]:
    """The correction of the mean's bias, the scale of the variance, and whether that is known well enough,
    from the sixth step or so on; before, the update is momentum alone.
    """
    of_mean, of_square = bias_corrections(steps, beta1, beta2)
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * steps * (1 - of_square) / of_square
    rest = oc.maximum(length - 4, 0) * (length - 2) / length
    # With a short memory it is never known, and this may be a division by zero.
    most = longest / ((longest - 4) * (longest - 2)) if longest > 5 else 0.0
    return of_mean, oc.sqrt(most * rest * of_square), length > 5


def lamb(u: UpdateStep, *, betas: Pair, eps: float, weight_decay: float) -> None:
    p = u.p
    m, v = _moments(u, u.gradient, betas)
    of_mean, of_square = u.shared(bias_corrections, *betas)
    delta = u.temporary("delta")
    delta[...] = m / of_mean / (oc.sqrt(v / of_square) + eps) + weight_decay * p
    weights, change = (oc.sqrt(oc.einsum(TOTAL, t * t)) for t in (p, delta))
    trust = oc.where(oc.minimum(weights, change) > 0, weights / change, 1.0)
    p -= u.lr * trust * delta


def lion(u: UpdateStep, *, betas: Pair, weight_decay: float) -> None:
    p, m, g = u.p, u.memory("mean"), u.gradient
    p -= u.lr * (oc.sign(betas[0] * m + (1 - betas[0]) * g) + weight_decay * p)
    m[...] = betas[1] * m + (1 - betas[1]) * g


def rprop(u: UpdateStep, *, etas: Pair, step_sizes: Pair) -> None:
    if not isinstance(u.lr, float | int):
        raise oc.ArgumentError("rprop has steps of its own: its lr, that of the first, is a number")
    p, before, size = u.p, u.memory("previous_gradient"), u.node("step_size", u.lr)
    agreement, turned = u.temporary("agreement"), u.temporary("turned")
    agreement[...] = oc.sign(u.gradient * before)
    factor = oc.where(agreement > 0, etas[1], oc.where(agreement < 0, etas[0], 1.0))
    size[...] = oc.minimum(oc.maximum(size * factor, step_sizes[0]), step_sizes[1])
    turned[...] = oc.where(agreement < 0, 0.0, u.gradient)
    before[...] = turned
    p -= oc.sign(turned) * size


OF_NUMBERS = frozenset({rprop})
"""Rules whose rate is a number, and no expression."""


def muon(
    u: UpdateStep,
    *,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    eps: float,
    ns_steps: int,
    adjust_lr_fn: str,
) -> None:
    p, m, g = u.p, u.memory("momentum"), u.gradient
    rows, columns = (math.prod(row) for row in _sides(p))
    m[...] = momentum * m + (1 - momentum) * g
    matrix = u.temporary("direction")
    matrix[...] = (1 - momentum) * g + momentum * m if nesterov else m
    direction = _orthogonal(matrix, rows > columns, ns_coefficients, eps, ns_steps)
    if adjust_lr_fn == "original":
        ratio = math.sqrt(max(1, rows / columns))
    else:
        ratio = 0.2 * math.sqrt(max(rows, columns))
    p -= u.lr * (ratio * direction + weight_decay * p)


def _sides(p: oc.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of the output and the input row of a matrix."""
    if not p.shape.is_final:
        oc.infer(p)
    output, input = p.shape.output, p.shape.input
    if p.shape.batch or not output or not input:
        raise oc.ArgumentError(
            f"muon is for matrices, found {p!r}: train the others by a second optimizer, "
            "each with its params="
        )
    sizes, rank = p.shape.array, len(output)
    return sizes[:rank], sizes[rank:]


def _orthogonal(
    matrix: oc.Tensor, tall: bool, coefficients: tuple[float, float, float], eps: float, steps: int
) -> oc.Tensor:
    """The nearest matrix whose singular values are all near 1, by iterations of Newton and Schulz."""
    a, b, c = coefficients
    x = matrix.T if tall else matrix
    x = x / oc.maximum(oc.sqrt(oc.einsum(TOTAL, x * x)), eps)
    for _ in range(steps):
        square = x @ x.T
        x = a * x + (b * square + c * (square @ square)) @ x
    return x.T if tall else x
