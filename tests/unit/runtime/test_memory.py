"""Aligned arrays, argument blocks and calls."""

import gc
import weakref

import numpy as np
import pytest

from ocannl.lowering.arena import PADDING, VERSION
from ocannl.runtime.host.jit import compile_llvm
from ocannl.runtime.memory import ArgBlock, HostMemory, aligned_array, bind_call

# Adds the index in slot 1 to the first float that slot 0 points to.
ADD_INDEX = """
define void @run(ptr %args) nounwind {
  %p = load ptr, ptr %args, align 8
  %slot = getelementptr i64, ptr %args, i64 1
  %n = load i64, ptr %slot, align 8
  %x = load float, ptr %p, align 4
  %f = sitofp i64 %n to float
  %y = fadd float %x, %f
  store float %y, ptr %p, align 4
  ret void
}
"""


@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 7), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
@pytest.mark.parametrize("alignment", [64, 4096])
def test_aligned_array(shape: tuple[int, ...], dtype: type[np.generic], alignment: int):
    array = aligned_array(shape, dtype, alignment)
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.ctypes.data % alignment == 0
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert not array.any()


@pytest.mark.parametrize("shape", [(), (5,), (0,), (2, 0, 3)])
def test_what_stands_around_belongs_to_the_array(shape: tuple[int, ...]):
    array = HostMemory.counted(shape, np.float32).array
    memory = array
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    begin, end = memory.ctypes.data, memory.ctypes.data + memory.nbytes
    assert begin <= array.ctypes.data + VERSION
    assert end - (array.ctypes.data + array.nbytes) >= PADDING


def test_slots_hold_pointers_and_indices():
    args = ArgBlock(3)
    node = aligned_array((4,), np.float32)
    args.set_pointer(0, node)
    args.values[2] = -5
    assert args.slots.tolist() == [node.ctypes.data, 0, -5]
    assert args.index(2) == -5
    assert args.address == args.slots.ctypes.data


def test_a_block_keeps_its_arrays_alive():
    args, node = ArgBlock(1), aligned_array((4,), np.float32)
    args.set_pointer(0, node)
    alive = weakref.ref(node)
    del node
    gc.collect()
    assert alive() is not None
    args.set_pointer(0, aligned_array((4,), np.float32))
    gc.collect()
    assert alive() is None


def test_a_bound_call_sees_the_block_as_it_is():
    module, args, node = compile_llvm(ADD_INDEX, cache=None), ArgBlock(2), aligned_array((1,), np.float32)
    args.set_pointer(0, node)
    call = bind_call(module.address("run"), args)
    for index in (1, 10, 100):
        args.values[1] = index
        call()
    assert node[0] == 111.0
