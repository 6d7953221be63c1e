"""The engine that runs programs for eager mode, as those who build programs see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray
from xdsl.ir import Operation

from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.program.module.reads import Key
from ocannl.program.values import Value


class Engine(Protocol):
    """The engine that runs programs for eager mode."""

    def look(self, value: Value) -> NDArray[Any]:
        """The value now."""
        ...

    def decide(self, value: Value) -> None:
        """Decides the type of a value, where that follows from what it depends on."""
        ...

    def write(self, target: Value, value: Value | float) -> None:
        """Sets memory to the value of an expression, or to a number."""
        ...

    def run(self, code: Sequence[Operation]) -> None:
        """Runs statements once."""
        ...

    def backward(self, value: Value, gradient: Value | None) -> None:
        """Adds to the gradients of everything that a value depends on."""
        ...

    def settle(self, keys: Iterable[Key], context: Any) -> None:
        """Computes what living expressions read in memory that is about to be written."""
        ...

    def data(self, contents: NDArray[Any], type: TensorType, label: str) -> Value:
        """Data with some contents, in the place of others that nobody uses if there are such."""
        ...

    def forget(self) -> None:
        """Forgets what was done, with all routines for it."""
        ...


class Engines:
    """The engine, which registers itself when contexts are imported."""

    made: Engine | None = None

    @property
    def only(self) -> Engine:
        assert self.made is not None, "contexts are imported with the package"
        return self.made


ENGINE = Engines()
