"""Tensor nodes on a device, and the arrays of their values that a context hands out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import ShapeError
from ocannl.program.arguments.errors import ArgumentError, PositionError
from ocannl.program.indexing.memory_parts import Part
from ocannl.program.location import here
from ocannl.program.mistakes.other_shape import other_shape
from ocannl.program.types.dtypes import is_integer
from ocannl.runtime.device import Memory
from ocannl.runtime.memory import HostMemory


class Node:
    """One tensor node on the device: its memory, and whether anything has written it."""

    __slots__ = ("memory", "written")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.written = False


class NodeValue(np.ndarray[Any, np.dtype[Any]]):
    """The value of a node, in an array of its own that is read-only: memory is set by `ctx[t] = array`.

    With one element, whatever its axes, it converts to `float` and `int`, is rounded and formats as a number.
    """

    @staticmethod
    def of(array: NDArray[Any]) -> NDArray[Any]:
        """A read-only view of an array; of shape (), a NumPy scalar."""
        if not array.ndim:
            return array[()]
        value = array.view(NodeValue)
        value.flags.writeable = False
        return value

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.item(), digits)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.size == 1 else super().__format__(spec)

    def __setitem__(self, at: Any, value: Any) -> None:
        if not self.flags.writeable:
            raise ArgumentError(
                "this array is a copy of memory, so that setting a part of it would be lost: "
                "change `array = ctx[t].copy()`, and set `ctx[t] = array`"
            )
        super().__setitem__(at, value)


def stored(contents: NDArray[Any], dtype: np.dtype[Any], what: str) -> NDArray[Any]:
    """Numbers as memory of a dtype can hold them. Raises `ArgumentError` where integers would lose a fraction
    or be out of range; `what` names the memory.
    """
    if not is_integer(dtype) or np.can_cast(contents.dtype, dtype):
        return contents
    with np.errstate(invalid="ignore"):
        converted = contents.astype(dtype)
    if not np.array_equal(converted, contents):
        raise ArgumentError(f"{what} holds {dtype}: it cannot be set to {_first_lost(contents, converted)}")
    return converted


def host_array(memory: Memory) -> NDArray[Any] | None:
    """The array of memory that the host reaches."""
    return memory.array if isinstance(memory, HostMemory) else None


def changed(memory: Memory) -> None:
    """Notes that the array of memory which the host reaches was written."""
    if isinstance(memory, HostMemory):
        memory.changed()


def written_by_others(memory: Memory) -> None:
    """Notes that from now on somebody may write the array of memory at any time."""
    if isinstance(memory, HostMemory):
        memory.written_by_others()


def at_key(array: NDArray[Any], part: Part[Any]) -> NDArray[Any]:
    """A part of an array. Raises `PositionError`."""
    key: Any = part.key
    try:
        return np.asarray(array[key])
    except (IndexError, TypeError) as error:
        raise PositionError(f"in a part of `{part.tensor.label}`, {error}") from None


def write_part(memory: Memory, part: Part[Any], contents: NDArray[Any]) -> None:
    """Sets a part of memory; on a device of its own, by way of a copy. Raises `ShapeError`."""
    array = host_array(memory)
    whole = memory.read() if array is None else array
    key: Any = part.key
    size = at_key(whole, part).shape
    try:
        whole[key] = contents
    except ValueError:
        message = f"this part of `{part.tensor.label}` takes an array of shape {size}, found {contents.shape}"
        below = other_shape("the part", size, contents.shape)
        raise ShapeError(here(message + below)) from None
    if array is None:
        memory.write(whole)
    else:
        changed(memory)


def _first_lost(contents: NDArray[Any], converted: NDArray[Any]) -> object:
    return contents[converted != contents].flat[0].item()


def _out_of_place(name: str) -> Callable[[NodeValue, object], object]:
    """`ctx[t] += 1` reads, adds, and sets the memory: the array that was read stays as it is."""
    operator = getattr(np.ndarray, f"__{name}__")

    def operate(self: NodeValue, other: object) -> object:
        return operator(self, other)

    return operate


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    setattr(NodeValue, f"__i{_name}__", _out_of_place(_name))
