"""Data whose contents are on a GPU from the start."""

from __future__ import annotations

from numpy.typing import DTypeLike

from ocannl.dialects.ir.errors import DeviceError
from ocannl.program.arguments.arrays import is_on_gpu
from ocannl.program.eager.setting import is_eager
from ocannl.program.types.dtypes import ELEMENTS, stored_dtype
from ocannl.runtime.cuda.gpu import CudaMemory, Gpu
from ocannl.runtime.foreign import device_of


def gpu_contents(array: object, dtype: DTypeLike | None) -> CudaMemory | None:
    """A copy of an array of another library on the NVIDIA GPU where it lies, as its owner may still write it.

    None for all that has to be read by the host: what is elsewhere, is to be converted, or is computed with
    at once; and on a GPU that only the other library can use. Raises `DeviceError` where the copy fails.
    """
    place = device_of(array)
    if place is None or not is_on_gpu(array) or is_eager():
        return None
    try:
        gpu = Gpu(place[1])
    except DeviceError:
        return None
    found = gpu.received(array)
    if found is None or found.dtype not in ELEMENTS:
        return None
    return found if dtype is None or stored_dtype(dtype) == found.dtype else None
