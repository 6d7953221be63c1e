"""Functions that make blocks: with parameters made in line, or when they are configured."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.flags import Flags
from ocannl.program.blocks.block import Block, Configuration
from ocannl.program.blocks.closures import WithVariables, rebuilt, variables_of
from ocannl.program.leaves import param
from ocannl.program.scopes import Scope, scope
from ocannl.program.tensor import Expression, Tensor
from ocannl.runtime.collector import collector_paused

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


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

    def __call__(self, *args: Any, **rows: Any) -> Any:
        return self._params.get(self._name, *args, **rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor(), name)

    def __repr__(self) -> str:
        return repr(self.tensor())


class Params:
    """The parameters of one block instance, as attributes: `p.w` is a parameter of the default initial value
    and inferred shape, `p.b(0.0, output=16)` one that is given these, as `oc.param` takes them.
    """

    def __init__(self, own: Scope, made: dict[str, Any]) -> None:
        self._scope = own
        self._made = made

    @property
    def made(self) -> dict[str, Any]:
        """Those that there are."""
        return self._made

    def __getattr__(self, name: str) -> InlineParam:
        if name.startswith("__"):
            raise AttributeError(name)
        return InlineParam(self, name)

    def get(self, name: str, *args: Any, **rows: Any) -> Any:
        """The parameter of that name, made by `oc.param(name, *args, **rows)` on first use; or the block that
        was given first.
        """
        if name not in self._made:
            with self._scope:
                given = args[0] if args else None
                self._made[name] = given if isinstance(given, Block) else param(name, *args, **rows)
        return self._made[name]


class _Instance(WithVariables):
    """An instance of a block with inline parameters: its variables are these, and those of its function."""

    def __init__(
        self, function: Callable[..., Any], configuration: Mapping[str, Any], own: Scope, params: Params
    ) -> None:
        self.__module__, self.__name__ = function.__module__, function.__name__
        self.function, self.configuration, self.own, self.params = function, configuration, own, params
        self.applied = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.own, collector_paused():
            result = self.function(self.params, *args, **{**self.configuration, **kwargs})
        self.applied = True
        return result

    def variables(self) -> dict[str, Any]:
        if not self.applied:
            raise ArgumentError(
                f"the parts of {self.function.__name__}() are made when it is first applied: not yet"
            )
        return {**variables_of(self.function), **self.params.made}

    def rebuilt(self, changes: Mapping[str, Any]) -> Callable[..., Any]:
        made = {name: changes.get(name, value) for name, value in self.params.made.items()}
        outside = {name: value for name, value in changes.items() if name not in made}
        function = rebuilt(self.function, outside) if outside else self.function
        instance = _Instance(function, self.configuration, self.own, Params(self.own, made))
        instance.applied = True
        return instance


def block(function: Callable[..., Any]) -> Callable[..., Block[..., Any]]:
    """Makes a block of `function(p, x, ..., *, configuration)`, whose first argument has the parameters.

    Calling the block with its keyword-only arguments, and with a `label` for its scope (by default the
    function's name), makes an instance. Calling the instance with tensors applies it, with the same
    parameters each time. `p.head(block)` is a part, the block that it was given first. Raises `ArgumentError`
    for keywords that the function does not have.
    """
    parameters = inspect.signature(function).parameters.values()
    settings = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]

    @functools.wraps(function)
    def configure(**configuration: Any) -> Block[..., Any]:
        given = Configuration(configure_any, (), dict(configuration))
        label = configuration.get("label", function.__name__)
        if "label" not in settings:
            configuration.pop("label", None)
        unknown = [name for name in configuration if name not in settings]
        if unknown:
            known = ", ".join(["label", *settings])
            raise ArgumentError(f"{function.__name__}() is configured by {known}; it has no `{unknown[0]}`")
        own = scope(label)
        return Block(_Instance(function, configuration, own, Params(own, {})), given)

    def configure_any(**configuration: Any) -> None:
        """How it is configured, for those who look."""

    configure_any.__name__ = function.__name__
    return configure


def configurable(configure: Callable[P, Callable[Q, R]]) -> Callable[P, Block[Q, R]]:
    """Makes a block of a function that makes parameters and blocks, and returns a function that uses them.

    What that function uses are the block's parts, by the names of the variables.
    """

    flags = Flags.of(configure)

    @functools.wraps(configure)
    def configured(*args: P.args, **named: P.kwargs) -> Block[Q, R]:
        flags.check(args, named)
        return Block(configure(*args, **named), Configuration(configure, args, named))

    return configured
