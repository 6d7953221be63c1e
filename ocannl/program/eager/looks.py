"""The present value of a tensor where it is looked at; in eager mode also by `print`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects import texpr
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.numbers import is_number
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.present_value import PresentValue
from ocannl.program.eager.setting import is_eager
from ocannl.program.module.needed import needed_for
from ocannl.program.tracing.retracing import is_tracing
from ocannl.program.values import Value, label_of, values_of


class Looks(PresentValue, ABC):
    """A tensor, of the value that `_value` gives."""

    __slots__ = ()

    @abstractmethod
    def _value(self) -> Value: ...

    def _look(self) -> NDArray[Any]:
        if is_eager():
            return ENGINE.only.look(self._value())
        if is_tracing() and _is_written(self._value()):
            raise self._without_value("the function is traced")
        return super()._look()

    def __contains__(self, item: object) -> bool:
        """In eager mode, whether an element is equal to a number. Raises `ArgumentError` otherwise."""
        own = item.numpy() if isinstance(item, Looks) else item
        if not is_eager() or not is_number(own):
            name = label_of(self._value())
            raise ArgumentError(
                f"`in` tells in eager mode whether `{name}` has a number among its elements; "
                "oc.any(oc.eq(t, number)) does so in a program"
            )
        return bool(np.any(self.numpy() == own))

    if not TYPE_CHECKING:  # else checkers of types would take a tensor for an integer

        def __index__(self) -> int:
            """In eager mode the value of one integer, as `range` and lists take it."""
            is_whole = is_eager() and self.dtype.kind in "iu"
            return int(self.item()) if is_whole else super().__index__()

    def __str__(self) -> str:
        return str(self.numpy()) if is_eager() else repr(self)

    def __format__(self, spec: str) -> str:
        """The text of the tensor, or of its one number by a format, as `f"{loss:.3f}"`."""
        if spec:
            return format(self.item(), spec)
        return format(self.numpy()) if is_eager() else super().__format__(spec)


def _is_written(value: Value) -> bool:
    """Whether a value depends on memory that routines write: one of now would stay in the program."""
    return any(
        isinstance(op, texpr.MemoryOp) and not isinstance(op, texpr.DataOp) for op in needed_for([value])
    )


def not_iterated(value: Value) -> ArgumentError:
    """The error for a loop over the parts of a tensor whose value is not there."""
    of_scan = any(isinstance(each.op, ScanOp) for each in (value, *values_of(value.op)))
    states = "; a block gives its last states, too, with states=True" if of_scan else ""
    return ArgumentError(
        f"`{label_of(value)}` cannot be iterated while the program is being built: "
        f"`[t[i] for i in range(len(t))]` are its parts, and `t.numpy()` is its present value{states}"
    )
