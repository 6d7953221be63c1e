"""Gradients that are kept small."""

from __future__ import annotations

from collections.abc import Iterable

import ocannl as oc
from ocannl.program.arguments.checks import number
from ocannl.program.arguments.numbers import is_number

ALL = "... | ... -> ... => |"


def clip_grad_norm(loss: oc.Tensor, max_norm: float) -> oc.Code:
    """Code that scales the gradients of everything that a loss trains, so that the norm of all of them
    together is `max_norm` at most (Pascanu et al., 2013; as PyTorch's `clip_grad_norm_`). Raises
    `ArgumentError` for a negative number.
    """
    _check_limit(max_norm, "the largest norm of gradients")
    gradients = _gradients(loss)
    with oc.code(f"{loss.label} clip gradients") as clip:
        factor = norm_factor(gradients, max_norm)
        for gradient in gradients:
            gradient *= factor
    return clip


def clip_grad_value(loss: oc.Tensor, clip_value: float) -> oc.Code:
    """Code that limits each gradient of everything that a loss trains to at most `clip_value`, of either
    sign. Raises `ArgumentError` for a negative number.
    """
    _check_limit(clip_value, "the largest value of gradients")
    with oc.code(f"{loss.label} clip gradients") as clip:
        for gradient in _gradients(loss):
            gradient[...] = oc.clip(gradient, -clip_value, clip_value)
    return clip


def _check_limit(limit: object, what: str) -> None:
    if is_number(limit):
        number(limit, what)


def _gradients(loss: oc.Tensor) -> list[oc.Tensor]:
    return [p.grad for p in oc.params(loss, trained=True).values()]


def norm_factor(gradients: Iterable[oc.Tensor], max_norm: float) -> oc.Tensor:
    """The factor by which gradients are scaled, so that their norm is `max_norm` at most, computed in the
    open block of code.
    """
    # Added one by one: an expression of all would keep equal layers from being compiled as one.
    squares, factor = oc.node("clip_squares", output=[]), oc.node("clip_factor", output=[])
    squares[...] = 0.0
    for gradient in gradients:
        oc.run(oc.accumulate(squares, "add", gradient * gradient, spec=ALL))
    factor[...] = oc.minimum(1.0, max_norm / (oc.sqrt(squares) + 1e-6))
    return factor
