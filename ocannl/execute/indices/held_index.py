"""The value of a routine's index as state."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocannl.program.memory.state import Held
from ocannl.program.tensor import Index
from ocannl.program.values import Kind


class Indexed(Protocol):
    """The part of a routine that has values of indices."""

    def __getitem__(self, index: Index) -> int: ...

    def __setitem__(self, index: Index, value: int) -> None: ...


class HeldIndex(Held):
    """An index of a routine, for its next run."""

    kind: Kind = "counter"

    def __init__(self, routine: Indexed, index: Index) -> None:
        self.label = index.name
        self._routine, self._index = routine, index

    def read(self) -> NDArray[Any]:
        return np.array(self._routine[self._index], np.int64)

    def write(self, array: ArrayLike) -> None:
        self._routine[self._index] = int(np.asarray(array))

    def __repr__(self) -> str:
        return f"<index {self.label}>"
