"""Runs programs on a GPU whose driver is a library in C, through the real module `cuda.bindings.driver`.

It is a process of its own, which has to find that library: see unit/runtime/cuda/test_cuda_bindings.py.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest
from support.cuda_kernels import Kernel, kernels_of, note_kernels
from support.device_programs import counted, train_moons

import ocannl as oc
from ocannl.lowering.kernels.calls import TensorMap
from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.cuda.tensor_maps import encode

kernels: dict[str, Kernel] = {}


def count_arguments(name: bytes) -> int:
    kernel = kernels[name.decode()]
    return len(kernel.sizes) + len(kernel.indices)


def run_kernel(name: bytes, blocks: int, threads: int, arguments: int) -> None:
    kernel = kernels[name.decode()]
    assert (blocks, threads) == (kernel.launch.blocks, kernel.launch.threads)
    pointers = (ctypes.c_uint64 * count_arguments(name)).from_address(arguments)
    values = [ctypes.c_int64.from_address(pointer).value for pointer in pointers]
    for slot, value in zip([*kernel.slots, *kernel.index_slots], values, strict=True):
        kernel.args.slots[slot] = value
    kernel.run()


COUNT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(count_arguments)
RUN = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p)(run_kernel)


def main() -> None:
    library = ctypes.CDLL("libcuda.so.1")
    library.stand_in(COUNT, RUN)
    note_kernels(pytest.MonkeyPatch(), lambda text: kernels.update(kernels_of(text)))
    ctx = oc.Context.auto()
    print(ctx, ctx.arch)
    np.testing.assert_array_equal(train_moons(ctx), train_moons(oc.Context.emulated_gpu()))
    total, _, ctx, step = counted()
    for i in (1, 2):
        step(i=i, n=i)
    np.testing.assert_array_equal(ctx[total], [15, 17, 19, 21, 23])
    print(step.profile(runs=2))
    print("launches of graphs:", library.graph_launches())
    tensor_map = encode(Gpu(), TensorMap(0, 4, (20, 72), (16, 32)), 4096)
    print("a map of tensors:", tensor_map.view("u8")[:6].tolist())
    os.environ["REJECT"] = "1"
    try:
        ctx.compile(oc.data(np.ones(3, np.float32), axes="o") * 2)
    except oc.DeviceError as error:
        print(error)


if __name__ == "__main__":
    main()
