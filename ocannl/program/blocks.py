"""Blocks: functions of tensors whose parameters are made in line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ocannl.program.errors import ArgumentError
from ocannl.program.leaves import param
from ocannl.program.scopes import Scope, scope
from ocannl.program.tensor import Expression, Tensor
from ocannl.runtime.collector import collector_paused


class InlineParam(Expression):
    """A parameter of a block instance. It is made on first use; a call before that gives its initial value
    and rows.
    """

    def __init__(self, params: Params, name: str) -> None:
        self._params = params
        self._name = name

    def tensor(self) -> Tensor:
        """The parameter, made now if nothing has made it before."""
        return self._params.get(self._name)

    def __call__(self, *args: Any, **rows: Any) -> Tensor:
        return self._params.get(self._name, *args, **rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor(), name)

    def __repr__(self) -> str:
        return repr(self.tensor())


class Params:
    """The parameters of one block instance, as attributes: `p.w` is a parameter of the default initial value
    and inferred shape, `p.b(0.0, output=16)` one that is given these, as `oc.param` takes them.
    """

    def __init__(self, own: Scope) -> None:
        self._scope = own
        self._made: dict[str, Tensor] = {}

    def __getattr__(self, name: str) -> InlineParam:
        if name.startswith("__"):
            raise AttributeError(name)
        return InlineParam(self, name)

    def get(self, name: str, *args: Any, **rows: Any) -> Tensor:
        """The parameter of that name, made by `oc.param(name, *args, **rows)` on first use."""
        if name not in self._made:
            with self._scope:
                self._made[name] = param(name, *args, **rows)
        return self._made[name]


def block(function: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """Makes a block of `function(p, x, ..., *, configuration)`, whose first argument has the parameters.

    Calling the block with its keyword-only arguments, and with a `label` for its scope (by default the
    function's name), makes an instance. Calling the instance with tensors applies it, with the same
    parameters each time. Raises `ArgumentError` for keywords that the function does not have.
    """
    parameters = inspect.signature(function).parameters.values()
    settings = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]

    @functools.wraps(function)
    def configure(**configuration: Any) -> Callable[..., Any]:
        label = configuration.get("label", function.__name__)
        if "label" not in settings:
            configuration.pop("label", None)
        unknown = [name for name in configuration if name not in settings]
        if unknown:
            known = ", ".join(["label", *settings])
            raise ArgumentError(f"{function.__name__}() is configured by {known}; it has no `{unknown[0]}`")
        own = scope(label)
        params = Params(own)

        def instance(*args: Any, **kwargs: Any) -> Any:
            with own, collector_paused():
                return function(params, *args, **{**configuration, **kwargs})

        return instance

    return configure
