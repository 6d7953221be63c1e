"""Names of parameters: scopes, and blocks whose parameters are made in line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ocannl.program.arithmetic import Arithmetic
from ocannl.program.misuse import ArgumentError
from ocannl.runtime.collector import collector_paused

if TYPE_CHECKING:
    from ocannl.program.tensor import Tensor

_scope: ContextVar[tuple[str, ...]] = ContextVar("scope", default=())


@contextmanager
def _inside(path: tuple[str, ...]) -> Generator[None, None, None]:
    token = _scope.set(path)
    try:
        yield
    finally:
        _scope.reset(token)


def scope(label: str) -> AbstractContextManager[None]:
    """Parameters made inside are called `label.name`; scopes nest."""
    if not isinstance(label, str):
        raise ArgumentError(f"a scope is named by a string, found {label!r}")
    return _inside((*_scope.get(), label))


def scoped(name: str) -> str:
    """The full name of a parameter made here."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"a parameter is called by a string, found {name!r}")
    return ".".join((*_scope.get(), name))


class InlineParam(Arithmetic):
    """A parameter of a block instance: itself in expressions; calling it the first time configures it."""

    def __init__(self, params: Params, name: str) -> None:
        self._params = params
        self._name = name

    def tensor(self) -> Tensor:
        return self._params.get(self._name)

    def __call__(self, *args: Any, **rows: Any) -> Tensor:
        return self._params.get(self._name, *args, **rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor(), name)

    def __repr__(self) -> str:
        return repr(self.tensor())


class Params:
    """The parameters of one block instance: `p.w` is made on first use, `p.b(0.0, output=16)` configures
    it first.
    """

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path
        self._made: dict[str, Tensor] = {}

    def __getattr__(self, name: str) -> InlineParam:
        if name.startswith("__"):
            raise AttributeError(name)
        return InlineParam(self, name)

    def get(self, name: str, *args: Any, **rows: Any) -> Tensor:
        """The parameter of that name, made by `oc.param(name, *args, **rows)` on first use."""
        if name not in self._made:
            from ocannl.program.leaves import param

            with _inside(self._path):
                self._made[name] = param(name, *args, **rows)
        return self._made[name]


def block(function: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """Makes a block of `function(p, x, ..., *, configuration)`.

    Calling the block with its keyword-only arguments, and a `label` for its scope, configures an instance;
    calling the instance applies it, with the same parameters each time.
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
        path = (*_scope.get(), label)
        params = Params(path)

        def instance(*args: Any, **kwargs: Any) -> Any:
            with _inside(path), collector_paused():
                return function(params, *args, **{**configuration, **kwargs})

        return instance

    return configure
