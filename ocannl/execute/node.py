"""Tensor nodes on a device, and the arrays of their values that a context hands out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.runtime.device import Memory


class Node:
    """One tensor node on the device: its memory, and whether anything wrote it."""

    __slots__ = ("memory", "written")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.written = False


class NodeValue(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array of which `float` and `int` give the one number, whatever its axes, when it has one
    element.
    """

    @staticmethod
    def of(array: NDArray[Any]) -> NodeValue:
        return array.view(NodeValue)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())
