"""Fixed points, with derivatives by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of
from ocannl.program import graph
from ocannl.program.derivatives import copy, stop_gradient, vjp
from ocannl.program.loops.conditions import while_loop
from ocannl.program.tensor import Tensor, TensorLike, as_tensor, pointwise
from ocannl.program.values import Value

Pair: TypeAlias = tuple[Tensor, Tensor]
"""A value, and the next one."""


def fixed_point(
    f: Callable[..., TensorLike], x0: TensorLike, *args: TensorLike, tolerance: float = 1e-6, most: int = 100
) -> Tensor:
    """The `x` for which `x = f(x, *args)`, by iteration from `x0` until no element changes by more than
    `tolerance`, `most` times at most.

    In reverse mode the gradient is that of the implicit function theorem, which a second iteration solves, so
    that no iteration is saved (Bai et al., "Deep Equilibrium Models", 2019). It goes to `args` and to all
    else that `f` uses, but not to `x0`. Where `f` does not contract, neither of them converges. A derivative
    of the gradient is an `OcannlError`; `oc.while_loop` has all of them.
    """
    begin = stop_gradient(x0)
    _, found = _iterated(lambda x: as_tensor(f(x, *args)), begin, tolerance, most)
    x = stop_gradient(found).named("fixed_point")
    y = as_tensor(f(x, *args))
    value = y.ir_value
    adjoint = Tensor(graph.add(AdjointOp(value, _like(value)), "cotangent"))
    _, cotangent = _iterated(lambda u: adjoint + vjp(y, x, u), adjoint, tolerance, most)
    # What comes back to the result goes on, solved, into one more application.
    pulled = copy(cotangent, once=True).ir_value
    solved = CustomOp(value, adjoint.ir_value, [value], [pulled], _like(value))
    return Tensor(graph.add(solved, "fixed_point"))


def _iterated(step: Callable[[Tensor], Tensor], begin: Tensor, tolerance: float, most: int) -> Pair:
    """The last two values of an iteration."""

    def moves(pair: Pair) -> Tensor:
        return pointwise("abs", pair[1] - pair[0]).max() > tolerance

    def body(pair: Pair) -> Pair:
        return pair[1], step(pair[1])

    return while_loop(moves, body, (begin, step(begin)), most)


def _like(value: Value) -> TensorType:
    return TensorType.of(shape_of(value))
