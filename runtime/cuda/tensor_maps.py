"""Tensor maps: what bulk copies know of an array, in the form that a driver gives it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.kernel.gpu import TENSOR_MAP_BYTES
from ocannl.lowering.kernels.calls import TensorMap
from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.memory import aligned_array

# The driver's function, and the first version of CUDA that has it.
ENCODE, VERSION = b"cuTensorMapEncodeTiled", 12000
ALIGNMENT = 64
# The map; type, number of axes, address; sizes, strides, those of the box and its steps; four kinds.
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p),
    *[ctypes.c_void_p] * 4,
    *[ctypes.c_int] * 4,
)


def encode(device: Gpu, map: TensorMap, address: int) -> NDArray[np.uint8]:
    """A tensor map of an array at an address. Raises `DeviceError` where the driver has none.

    The function is called by its address: the module `cuda.bindings` has maps that are not aligned as the
    driver wants them.
    """
    api = device.driver.api
    found: NDArray[Any] = aligned_array((TENSOR_MAP_BYTES,), np.uint8, ALIGNMENT)
    # The driver's first axis is that of neighbours, the strides are those of all others.
    shape, sizes = (np.array(axes[::-1], np.uint64) for axes in (map.shape, map.extents or map.shape))
    strides = (map.bytes * np.cumprod(shape))[:-1].astype(np.uint64)
    box, steps = np.array(map.box[::-1], np.uint32), np.ones(len(map.box), np.uint32)
    place = device.ask("cuGetProcAddress", ENCODE, VERSION, 0)
    if not place:
        raise DeviceError(f"the NVIDIA driver has no {ENCODE.decode()}: it is too old for bulk copies")
    function = SIGNATURE(int(place))
    kinds = (
        api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        api.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    type = "TFLOAT32" if map.rounds else f"UINT{8 * map.bytes}"
    failed = function(
        found.ctypes.data,
        getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{type}").value,
        len(map.shape),
        address,
        *(array.ctypes.data for array in (sizes, strides, box, steps)),
        *(kind.value for kind in kinds),
    )
    if failed:
        raise DeviceError(f"the NVIDIA driver makes no map of a tensor of {map.shape}: error {failed}")
    return found
