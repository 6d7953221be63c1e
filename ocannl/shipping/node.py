"""The nodes of a library: their names and types in C, and their values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {
    **{f"{kind}{bits}": f"{kind}{bits}_t" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    "bfloat16": "uint16_t",
    "float16": "uint16_t",
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
}
"""The types of C by dtype. Floats that C lacks are the integers of their bits."""


@dataclass(frozen=True)
class Node:
    """A node of a routine: its label and its name in C; what it is; its values, where it has some; and with
    `offset`, where these are in the file of parameters.
    """

    label: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    why: str
    is_read: bool
    is_written: bool
    values: NDArray[Any] | None
    offset: int | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize
