"""Tensor maps of the stand-in for CUDA's driver, which refuses what the driver refuses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.ptx.bulk_copies import TensorMap

MAP_BYTES, ALIGNMENT, MOST_AXES, MOST_ELEMENTS, SWIZZLED_BYTES = 128, 64, 5, 256, 128
INVALID_VALUE = 1


class CUtensorMapDataType(IntEnum):
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0
    CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1
    CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2
    CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11


class CUtensorMapInterleave(IntEnum):
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0


class CUtensorMapSwizzle(IntEnum):
    CU_TENSOR_MAP_SWIZZLE_128B = 3


class CUtensorMapL2promotion(IntEnum):
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2


class CUtensorMapFloatOOBfill(IntEnum):
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0


ENUMS = (
    CUtensorMapDataType,
    CUtensorMapInterleave,
    CUtensorMapSwizzle,
    CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill,
)
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p),
    *[ctypes.c_void_p] * 4,
    *[ctypes.c_int] * 4,
)


class TensorMaps:
    """The maps that were made, by the numbers that are in their memory; and `encode`, the function in C.

    `check` raises `AssertionError` for bytes that are not those of an allocation.
    """

    def __init__(self, check: Callable[[int, int], object]) -> None:
        self.check = check
        self.made: dict[int, TensorMap] = {}
        self.encode = SIGNATURE(self._encode)

    def at(self, address: int) -> int:
        """The number of the map in some memory."""
        return int(words(address, 1, "u8")[0])

    def _encode(self, *arguments: Any) -> int:
        try:
            where, *rest = arguments
            found = self.checked(*rest)
            assert where % ALIGNMENT == 0, "a tensor map is not aligned"
        except AssertionError:
            return INVALID_VALUE
        number = (1 << 40) + len(self.made)
        self.made[number] = found
        words(where, MAP_BYTES // 8, "u8")[:] = number
        return 0

    def checked(
        self, type: int, rank: int, address: int, sizes: int, strides: int, box: int, steps: int, *kinds: int
    ) -> TensorMap:
        """The map, of what the documentation allows."""
        assert kinds == tuple(int(next(iter(enum))) for enum in ENUMS[1:])
        assert 1 <= rank <= MOST_AXES
        name = CUtensorMapDataType(type).name
        rounds = name.endswith("TFLOAT32")
        size = int(name.rpartition("FLOAT" if rounds else "UINT")[2]) // 8
        extents = words(sizes, rank, "u8").tolist()
        between = words(strides, rank - 1, "u8").tolist()
        boxes, moves = words(box, rank, "u4").tolist(), words(steps, rank, "u4").tolist()
        assert address % 16 == 0
        assert all(0 < extent <= 1 << 32 for extent in extents)
        assert all(stride % 16 == 0 and stride < 1 << 40 for stride in between)
        assert all(0 < count <= MOST_ELEMENTS for count in boxes)
        assert boxes[0] * size % 16 == 0
        assert boxes[0] * size <= SWIZZLED_BYTES
        assert moves == [1] * rank
        last = [extent - 1 for extent in extents]
        self.check(address, int(np.dot(last, [size, *between])) + size)
        return TensorMap(address, size, extents, between, boxes, rounds)


def words(address: int, count: int, type: str) -> NDArray[Any]:
    """Memory of this process."""
    size = np.dtype(type).itemsize * count
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), type)
