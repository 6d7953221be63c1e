"""Derivatives of functions of arrays: each is such a function again, with arguments and results as arrays."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np

from ocannl.dialects.ir.errors import ShapeError
from ocannl.dialects.scalar.precisions import is_float
from ocannl.dialects.texpr import DataOp
from ocannl.functions.trace import FLAT
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import built, form_of, leaves_of, mapped
from ocannl.program.derivatives import jvp, vjp
from ocannl.program.location import here
from ocannl.program.memory.memory_axes import MemoryAxes
from ocannl.program.tensor import Expression, Tensor, as_tensor, by_spec
from ocannl.program.types.kinds import kind_of

SAME = "..b.. | ..i.. -> ..o.."

Body: TypeAlias = Callable[[inspect.BoundArguments, Any], Any]
"""The body of a derived function, from the arguments of the function and perhaps one more."""
Numbers: TypeAlias = int | Sequence[int]


class Differentiable(ABC):
    """A function of arrays as its derivatives see it."""

    function: Callable[..., Any]
    parameters: inspect.Signature
    axes: dict[str, str]
    name: str

    @abstractmethod
    def with_body(self, function: Callable[..., Any], axes: Mapping[str, str]) -> Differentiable:
        """A function of arrays with another body, which shares context, memory and static arguments."""

    @abstractmethod
    def pulled_back(self, args: Sequence[Any], cotangent: Any) -> Any:
        """The gradients of the sum of results times cotangents with respect to the arguments."""

    @abstractmethod
    def __call__(self, *args: Any, **named: Any) -> Any:
        """Its results for arrays."""

    def derived(
        self, kind: str, body: Body, extra: str | None = None, axes: Mapping[str, str] | None = None
    ) -> Differentiable:
        """A function of the same arguments, and perhaps of one more by name, whose letters `axes` has."""
        own = [*self.parameters.parameters.values()]
        if extra is not None:
            added = inspect.Parameter(extra, inspect.Parameter.KEYWORD_ONLY, default=None)
            last = own[-1:] if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD else []
            own = [*own[: len(own) - len(last)], added, *last]

        def apply(*args: Any, **named: Any) -> Any:
            more = None if extra is None else named.pop(extra)
            return body(self.parameters.bind(*args, **named), more)

        apply.__name__ = f"{kind}_{self.name}"
        vars(apply)["__signature__"] = self.parameters.replace(parameters=own)
        return self.with_body(apply, {**self.axes, **(axes or {})})

    def gradient(self, argnums: Numbers = 0) -> Differentiable:
        """The gradient of a result that is one number with respect to an argument by its number, or to
        several, in the form of the argument.
        """
        return self.derived("grad", lambda given, _: self._value_and_grad(given, argnums)[1])

    @cached_property
    def value_and_grad(self) -> Differentiable:
        """The function that gives the result, one number, and its gradient with respect to the first
        argument.
        """
        return self.derived("value_and_grad", lambda given, _: self._value_and_grad(given, 0))

    def _value_and_grad(self, given: inspect.BoundArguments, argnums: Numbers) -> tuple[Any, Any]:
        y = self._applied(given)
        if not isinstance(y, Expression):
            raise ArgumentError(
                f"the gradient is that of one number, found that {self.name} returns a {type(y).__name__}"
            )
        return y, _in_form(self._chosen(given, argnums), lambda xs: vjp(y, xs))

    def _applied(self, given: inspect.BoundArguments) -> Any:
        return self.function(*given.args, **given.kwargs)

    def _chosen(self, given: inspect.BoundArguments, argnums: Numbers) -> Any:
        values = [*given.args, *given.kwargs.values()]

        def one(number: int) -> Any:
            if not -len(values) <= number < len(values):
                raise ArgumentError(f"{self.name} has {len(values)} arguments, so none of number {number}")
            return values[number]

        several = argnums if isinstance(argnums, tuple | list) else None
        if several is None:
            return one(argument_number(argnums))
        return tuple([one(argument_number(number)) for number in several])

    def jvp(self, xs: Any, dxs: Any) -> Any:
        """How the results change when the arguments `xs` change by `dxs` (forward mode), in the form of the
        results. Several arguments are a tuple or a list, and so are their tangents: None for what does not
        change, such as integers.
        """
        args, tangents = self._several(xs), self._several(dxs)
        if len(args) != len(tangents):
            raise ArgumentError(f"each argument has one tangent; found {len(args)} and {len(tangents)}")
        return self.forward_mode(*args, tangents=self.parameters.bind(*tangents).arguments)

    def along(self, args: Sequence[Any], number: int, tangent: Any) -> dict[str, Any]:
        """The tangents, by name, with which only the argument of a number changes."""
        zeros = [np.zeros(np.shape(arg), np.asarray(tangent).dtype) for arg in args]
        zeros[number] = tangent
        all_by_name = self.parameters.bind(*zeros).arguments
        name = [*all_by_name][min(number % len(args), len(all_by_name) - 1)]
        return {name: all_by_name[name]}

    def vjp(self, xs: Any, cotangent: Any = None) -> Any:
        """The gradients of the sum of results times cotangents with respect to the arguments `xs` (reverse
        mode), in their form; None for integers and flags beside floats. The cotangent has the form of the
        results; none is needed for one number.
        """
        args = self._several(xs)
        found = self.pulled_back(args, cotangent)
        return found[0] if len(args) == 1 and args[0] is xs else found

    def _several(self, xs: Any) -> tuple[Any, ...]:
        """The arguments in a tuple, or in a list where the function takes several."""
        is_tuple = isinstance(xs, tuple) and not hasattr(cast("object", xs), "_fields")
        is_list = isinstance(xs, list) and len(self.parameters.parameters) != 1
        return tuple(cast("list[Any]", xs)) if is_tuple or is_list else (cast("Any", xs),)

    @cached_property
    def forward_mode(self) -> Differentiable:
        """The function of the arguments, and of the `tangents` of arguments by name."""

        def body(given: inspect.BoundArguments, tangents: Any) -> Any:
            changed = {name: given.arguments[name] for name in tangents}
            if form_of(changed) != form_of(tangents):
                raise ArgumentError(f"the tangents have the form of the arguments of {self.name}")
            pairs = zip(leaves_of(changed), leaves_of(tangents), strict=True)
            moved = [(x, tangent) for x, tangent in pairs if tangent is not None]
            xs, by = [x for x, _ in moved], [tangent for _, tangent in moved]

            def along(y: Any) -> Any:
                return cast("Any", jvp(y, xs, by))

            return mapped(along, self._applied(given))

        axes = {f"tangents.{path}": letters for path, letters in self.axes.items()}
        return self.derived("jvp", body, "tangents", axes)

    @cached_property
    def reverse_mode(self) -> Differentiable:
        """The function of the arguments, and of the `cotangent` of the result."""

        def body(given: inspect.BoundArguments, cotangent: Any) -> Any:
            ys = [as_tensor(leaf) for leaf in leaves_of(self._applied(given))]
            weights = [None] if cotangent is None else [*leaves_of(cotangent)]
            if len(ys) != len(weights):
                raise ArgumentError(f"each result has one cotangent; found {len(ys)} and {len(weights)}")
            pairs = [(y, None if by is None else _of_shape(by, y)) for y, by in zip(ys, weights, strict=True)]

            def pulled(xs: Sequence[Any]) -> list[Tensor]:
                return [_total(parts) for parts in zip(*[vjp(y, xs, by) for y, by in pairs], strict=True)]

            return _in_form(given.args, pulled)

        return self.derived("vjp", body, "cotangent", {"cotangent": FLAT})


def argument_number(number: object) -> int:
    """The number of an argument, which may count from the end. Raises `ArgumentError` for what is none."""
    return integer(number, "the number of an argument", least=None)


def _total(tensors: Sequence[Tensor]) -> Tensor:
    first, *others = tensors
    for other in others:
        first = first + other
    return first


def _in_form(tree: Any, gradients: Callable[[Sequence[Any]], Sequence[Tensor]]) -> Any:
    """The gradients with respect to the leaves of a tree, in its form: None for leaves that hold no floats
    beside others that do.
    """
    leaves = [*leaves_of(tree)]
    places = [n for n, leaf in enumerate(leaves) if _holds_floats(leaf)] or range(len(leaves))
    found = dict(zip(places, gradients([leaves[n] for n in places]), strict=True))
    return built(form_of(tree), map(found.get, range(len(leaves))))


def _holds_floats(leaf: Any) -> bool:
    if not isinstance(leaf, Expression):
        return isinstance(leaf, float)
    kind = kind_of(as_tensor(leaf).ir_value)
    return kind is None or is_float(kind)


def _of_shape(cotangent: Tensor, y: Tensor) -> Tensor:
    """The numbers of a cotangent, which have no rows, in the shape of the result."""
    try:
        return by_spec(f"{SAME}; {SAME} => {SAME}", "add", "fst", [cotangent, y], {})
    except ShapeError:
        if not isinstance(cotangent.op, DataOp) or cotangent.op.elements is None:
            raise
        found, axes = cotangent.op.elements.data, MemoryAxes(y.ir_value)
        axes.close()
        message = f"a cotangent has the shape of the result, {axes.shape}; found one of {found} elements"
        raise ShapeError(here(message)) from None
