"""Conversions to arrays and numbers, by the value in the default context."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ocannl.dialects.ir.errors import UninitializedError
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.default_context import DEFAULT
from ocannl.program.location import here, users_text
from ocannl.program.tracing.retracing import is_tracing

_refused: ContextVar[bool] = ContextVar("refused_values", default=False)


@contextmanager
def values_refused() -> Generator[None]:
    """A context in which expressions are made and no values are asked for: one of now would stay in the
    program.
    """
    token = _refused.set(True)
    try:
        yield
    finally:
        _refused.reset(token)


def _way_out(text: str) -> str:
    """Advice in place of a conversion: `x` for `float(x)` and `x.item()`, for `np.dot(x, y)` another
    function.
    """
    if method := re.fullmatch(r"(.*)\.\w+\(\)", text):
        shows = f'return it to see it, or oc.print_values("value", {method[1]})'
        return f"write `{method[1]}`, the tensor; {shows}"
    call = re.fullmatch(r"([\w.]+)\((.*)\)", text)
    if call is not None and call[1].startswith("math."):
        return "functions of `oc`, as oc.sqrt and oc.cos, take tensors"
    is_of_arrays = call is not None and re.match(r"np\.(?!(as)?array$)", call[1])
    if call is not None and (is_of_arrays or re.search(r"[,\[]", call[2])):
        return f"{call[1]} is of arrays; functions of `oc`, as oc.einsum and oc.concat, take tensors"
    return f"write `{text if call is None else call[2]}`, the tensor"


class PresentValue:
    """Something with a value in contexts: conversions look it up in the default one."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def label(self) -> str: ...

    def numpy(self) -> NDArray[Any]:
        """The value now in the default context: that of memory, or of the expression computed now; of shape
        batch, output, input axes, read-only. A tensor of shape () gives a NumPy scalar.

        Raises `UninitializedError` where what it depends on has no value there.
        """
        if _refused.get():
            raise self._without_value("the program is built")
        return self._look()

    def _look(self) -> NDArray[Any]:
        try:
            return DEFAULT.get()[self]
        except UninitializedError:
            if not is_tracing():
                raise
            raise self._without_value("the function is traced") from None

    def _without_value(self, when: str) -> UninitializedError:
        asked = users_text() or self.label
        return UninitializedError(here(f"`{asked}` has no value while {when}: {_way_out(asked)}"))

    def item(self) -> float:
        """The value of one element as a number of Python. Raises `ArgumentError`, which is a `ValueError`, if
        there are more.
        """
        name = self.label
        ways = f"{name}.sum().item() and {name}.max().item() are one number, {name}.tolist() gives all"
        return self._only(".item() needs one", ways)

    def is_true(self) -> bool:
        """Whether the value of one element is not zero. Raises `ArgumentError` if there are more."""
        ways = "oc.all(t) is true where all are, oc.any(t) where one is"
        return bool(self._only("the truth of one is asked for", ways))

    def _only(self, need: str, ways: str) -> float:
        array = self.numpy()
        if array.size != 1:
            raise ArgumentError(f"`{self.label}` has {array.size} elements, {need}: {ways}")
        return array.item()

    def tolist(self) -> Any:
        """The value as nested lists of numbers."""
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    if not TYPE_CHECKING:  # else checkers of types would take a tensor for an integer

        def __index__(self) -> int:
            """Raises `ArgumentError`: what `range` and lists are given is known before the program runs."""
            asked = users_text()
            needs = "Python needs an integer" if asked is None else f"`{asked}` needs an integer of Python"
            way = "int() of it is its value now"
            if is_tracing():
                way = "an argument that Python itself has to know is named in oc.function(static=[...])"
            ways = f"{way}; oc.scan is a loop of the program"
            raise ArgumentError(here(f"{needs}, and `{self.label}` is a tensor: {ways}"))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        value = np.asarray(self.numpy()).view(np.ndarray)
        converted = value if dtype is None else value.astype(dtype, copy=False)
        return converted.copy() if copy else converted

    def __dlpack__(self, **options: Any) -> Any:
        """The value in an array of its own: DLPack cannot say that an array is read-only."""
        return np.array(self.numpy()).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.empty(0).__dlpack_device__()
