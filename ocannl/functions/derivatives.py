"""`oc.grad`, `oc.jvp` and `oc.vjp`, of tensors or of functions, by the type of the first argument; and
matrices of derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ocannl.functions.differentiable import argument_number
from ocannl.functions.function import Function, function
from ocannl.program import derivatives
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import children, leaves_of
from ocannl.program.tensor import Expression, Tensor


def _is_function(y: Any) -> bool:
    return callable(y) and not isinstance(y, Expression)


def _as_function(f: Callable[..., Any]) -> Function:
    return f if isinstance(f, Function) else function(f)


def grad(y: Any, xs: Any = None, *, argnums: int | Sequence[int] | None = None) -> Any:
    """The gradients of one number with respect to `xs`, each of the shape of its `x`: `oc.vjp(y, xs)`.

    `oc.grad(f)` of a function of arrays is the function that gives its gradient with respect to the argument
    of a number, or to several: `oc.grad(f, 1)`, `oc.grad(f, argnums=(0, 1))`; by default to the first.
    """
    if argnums is not None and xs is not None:
        raise ArgumentError("oc.grad takes the numbers of arguments once, as in oc.grad(f, 1)")
    if _is_function(y):
        given = argnums if xs is None else xs
        return _as_function(y).gradient(0 if given is None else given)
    if xs is None:
        raise ArgumentError(f"oc.grad takes a function, or a tensor and what it is derived by; found {y!r}")
    return cast("Any", derivatives.grad(y, xs))


def vjp(y: Any, xs: Any, cotangent: Any = None) -> Any:
    """The vector-Jacobian products of `y` (reverse mode): the gradients of the sum of `y * cotangent` with
    respect to `xs`, each of the shape of its `x`; zeros where `y` does not depend on it.

    `xs` is one tensor or expression, a sequence or a mapping, and so is the result. The cotangent is
    broadcast to the shape of `y`; without one `y` is one number. Raises `ShapeError` where the cotangent does
    not fit, and when compiled `OcannlError` where there is no gradient.

    For a function `y` of arrays, `xs` are its arguments: `f.vjp(xs, cotangent)`.
    """
    if _is_function(y):
        return _as_function(y).vjp(xs, cotangent)
    return cast("Any", derivatives.vjp(y, xs, cotangent))


def jvp(y: Any, xs: Any, tangents: Any) -> Any:
    """The Jacobian-vector product of `y` (forward mode), its directional derivative when each of `xs` changes
    by its tangent; of the shape of `y`.

    `y` is one tensor, a sequence or a mapping, and so is the result; `xs` and `tangents` have one form.
    Tangents are broadcast to the shapes of `xs`. Raises `ShapeError` where they do not fit, and when compiled
    `OcannlError` where there is no derivative.

    For a function `y` of arrays, `xs` are its arguments: `f.jvp(xs, tangents)`.
    """
    if _is_function(y):
        return _as_function(y).jvp(xs, tangents)
    return cast("Any", derivatives.jvp(y, xs, tangents))


def jacobian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., NDArray[Any]]:
    """The function that gives the Jacobian of `f`, whose result is one array, with respect to an argument
    that is one: an array of the result's shape, then the argument's.

    It runs forward or reverse mode, once for each element of the argument or of the result, whichever are
    fewer.
    """
    of, argnums = _as_function(f), argument_number(argnums)

    @functools.wraps(of)
    def jacobian_of(*args: Any) -> NDArray[Any]:
        if any(isinstance(leaf, Expression) for leaf in leaves_of(args)):
            raise ArgumentError("a Jacobian is computed from arrays: in expressions, use oc.jvp and oc.vjp")
        if not -len(args) <= argnums < len(args):
            raise ArgumentError(f"{of.name} has {len(args)} arguments, so none of number {argnums}")
        if children(args[argnums]) is not None:
            raise ArgumentError(f"a Jacobian is with respect to one array, found {args[argnums]!r}")
        x, shape = np.asarray(args[argnums]), _result_shape(of, args)
        if np.prod(shape) < x.size:
            found = [of.pulled_back(args, unit)[argnums] for unit in _units(shape, x.dtype)]
            return np.stack(found).reshape((*shape, *x.shape))
        units = _units(x.shape, x.dtype)
        found = [of.forward_mode(*args, tangents=of.along(args, argnums, unit)) for unit in units]
        return np.stack(found, -1).reshape((*shape, *x.shape))

    return jacobian_of


def hessian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., NDArray[Any]]:
    """The function that gives the Hessian of `f`, whose result is one number, with respect to an argument
    that is one array: an array of the argument's shape, twice.
    """
    return jacobian(_as_function(f).gradient(argnums), argnums)


def _result_shape(f: Function, args: Sequence[Any]) -> tuple[int, ...]:
    lowered = f.lower(*args)
    if not isinstance(lowered.results, Tensor):
        found = type(lowered.results).__name__
        raise ArgumentError(f"a Jacobian is that of one array; {f.name} returns a {found}")
    ((shape, _),) = lowered.shapes
    return shape


def _units(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """The arrays of a shape that are 1 in one place and 0 elsewhere."""
    for place in np.ndindex(shape):
        unit = np.zeros(shape, dtype if dtype.kind == "f" else np.float32)
        unit[place] = 1
        yield unit
