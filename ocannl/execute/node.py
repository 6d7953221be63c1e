"""Tensor nodes on a device, and the arrays of their values that a context hands out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.runtime.device import Memory


class Node:
    """One tensor node on the device: its memory, and whether anything has written it."""

    __slots__ = ("memory", "written")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.written = False


class NodeValue(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array that converts to `float` and `int` if it has one element, whatever its axes."""

    @staticmethod
    def of(array: NDArray[Any]) -> NodeValue:
        """A view of an array."""
        return array.view(NodeValue)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())
