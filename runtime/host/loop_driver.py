"""Runs a routine many times over its ranged indices without returning to Python between runs."""

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ocannl.runtime.host.jit import CompiledModule, compile_llvm
from ocannl.runtime.locks import once
from ocannl.runtime.memory import ArgBlock

# Native code runs about this long before Python looks for signals.
SLICE_SECONDS = 0.1
SLICE_GROWTH = 4

# The ranged slots themselves hold the state of the iteration, and `outputs` where to write next,
# so a call continues where the last one stopped.
DRIVER = """
define void @run(ptr %f, ptr %args, i64 %runs,
                 i64 %n_ranged, ptr %ranged_slots, ptr %ranges,
                 i64 %n_advance, ptr %advance_slots,
                 i64 %n_record, ptr %sources, ptr %sizes, ptr %outputs) nounwind {
entry:
  %some = icmp sgt i64 %runs, 0
  br i1 %some, label %run, label %done

run:
  %k = phi i64 [ 0, %entry ], [ %k.next, %ran ]
  call void %f(ptr %args)
  br label %record

record:
  %r = phi i64 [ 0, %run ], [ %r.next, %copy ]
  %r.more = icmp slt i64 %r, %n_record
  br i1 %r.more, label %copy, label %advance

copy:
  %source.at = getelementptr ptr, ptr %sources, i64 %r
  %source = load ptr, ptr %source.at, align 8
  %size.at = getelementptr i64, ptr %sizes, i64 %r
  %size = load i64, ptr %size.at, align 8
  %output.at = getelementptr ptr, ptr %outputs, i64 %r
  %output = load ptr, ptr %output.at, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %output, ptr %source, i64 %size, i1 false)
  %output.next = getelementptr i8, ptr %output, i64 %size
  store ptr %output.next, ptr %output.at, align 8
  %r.next = add i64 %r, 1
  br label %record

advance:
  %a = phi i64 [ 0, %record ], [ %a.next, %add ]
  %a.more = icmp slt i64 %a, %n_advance
  br i1 %a.more, label %add, label %carry

add:
  %a.number.at = getelementptr i64, ptr %advance_slots, i64 %a
  %a.number = load i64, ptr %a.number.at, align 8
  %a.slot = getelementptr i64, ptr %args, i64 %a.number
  %a.value = load i64, ptr %a.slot, align 8
  %a.added = add i64 %a.value, 1
  store i64 %a.added, ptr %a.slot, align 8
  %a.next = add i64 %a, 1
  br label %advance

carry:
  %d = phi i64 [ %n_ranged, %advance ], [ %d.next, %wrap ]
  %d.next = sub i64 %d, 1
  %d.more = icmp sgt i64 %d, 0
  br i1 %d.more, label %step, label %ran

step:
  %d.number.at = getelementptr i64, ptr %ranged_slots, i64 %d.next
  %d.number = load i64, ptr %d.number.at, align 8
  %d.slot = getelementptr i64, ptr %args, i64 %d.number
  %d.value = load i64, ptr %d.slot, align 8
  %d.stepped = add i64 %d.value, 1
  %range.at = getelementptr i64, ptr %ranges, i64 %d.next
  %range = load i64, ptr %range.at, align 8
  %inside = icmp slt i64 %d.stepped, %range
  br i1 %inside, label %keep, label %wrap

keep:
  store i64 %d.stepped, ptr %d.slot, align 8
  br label %ran

wrap:
  store i64 0, ptr %d.slot, align 8
  br label %carry

ran:
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %runs
  br i1 %k.more, label %run, label %done

done:
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

P, N = ctypes.c_void_p, ctypes.c_int64
Driver = ctypes.CFUNCTYPE(None, P, P, N, N, P, P, N, P, N, P, P, P)


def run_loop(
    function: int,
    args: ArgBlock,
    *,
    epochs: int = 1,
    ranged: Sequence[tuple[int, int]] = (),
    advance: Sequence[int] = (),
    record: Sequence[NDArray[np.generic]] = (),
    check: Callable[[], None] = lambda: None,
) -> list[NDArray[np.generic]]:
    """Runs a routine for all values of its ranged indices, `epochs` times.

    The interpreter lock is released meanwhile, and Ctrl-C is seen between runs. However the loop ends, the
    ranged indices get back the values from before it.

    Args:
        function: the address of the compiled `void f(ptr args)`.
        args: its arguments.
        epochs: how often to iterate the ranged indices.
        ranged: slot and range of each ranged index; the last varies fastest. Without any, an epoch is a run.
        advance: slots of indices to add 1 to after each run.
        record: C-contiguous arrays, the memory of nodes, whose values to keep after each run.
        check: raises the error of a run that has failed; it is called about every 0.1 s, and at the end.

    Returns:
        For each recorded array one of its dtype and of shape (runs, *its shape).

    Raises:
        ValueError: a count is negative, a slot is ranged and advanced, or a recorded array is not contiguous.
    """
    check_loop(epochs, ranged, advance, record)
    runs = epochs * prod(size for _, size in ranged)
    outputs = [np.empty((runs, *array.shape), array.dtype) for array in record]
    slots = int64s([slot for slot, _ in ranged])
    before = args.slots[slots]
    args.slots[slots] = 0
    try:
        run_in_slices(runs, driver_call(function, args, slots, ranged, advance, record, outputs), check)
    finally:
        args.slots[slots] = before
    return outputs


def check_loop(
    epochs: int,
    ranged: Sequence[tuple[int, int]],
    advance: Sequence[int],
    record: Sequence[NDArray[np.generic]],
) -> None:
    """Raises ValueError for arguments that the driver cannot run."""
    if epochs < 0 or any(size < 0 for _, size in ranged):
        raise ValueError(
            f"negative count in a loop of {epochs} epochs over ranges {[size for _, size in ranged]}"
        )
    if both := {slot for slot, _ in ranged} & set(advance):
        raise ValueError(f"slots {sorted(both)} are both ranged and advanced")
    if not all(array.flags.c_contiguous for array in record):
        raise ValueError("an array to record is not C-contiguous")


def driver_call(
    function: int,
    args: ArgBlock,
    slots: NDArray[np.int64],
    ranged: Sequence[tuple[int, int]],
    advance: Sequence[int],
    record: Sequence[NDArray[np.generic]],
    outputs: Sequence[NDArray[np.generic]],
) -> Callable[[int], None]:
    """The native driver as a function of the number of runs; a call continues where the last one stopped."""
    native = driver()
    arguments = (
        *(len(ranged), pointer(slots), pointer(int64s([size for _, size in ranged]))),
        *(len(advance), pointer(int64s(advance))),
        *(len(record), pointer(int64s([array.ctypes.data for array in record]))),
        pointer(int64s([array.nbytes for array in record])),
        pointer(int64s([output.ctypes.data for output in outputs])),
    )
    return lambda runs: native(function, args.address, runs, *arguments)


def pointer(array: NDArray[np.int64]) -> ctypes.c_void_p:
    """The address of the first element; it keeps the array alive."""
    return array.ctypes.data_as(ctypes.c_void_p)


def run_in_slices(runs: int, call: Callable[[int], None], check: Callable[[], None]) -> None:
    """Makes `runs` runs by calls of about `SLICE_SECONDS`, so that Python sees signals and errors between."""
    size = 1
    while runs > 0:
        size = min(size, runs)
        start = perf_counter()
        call(size)
        check()
        runs -= size
        size = next_slice(size, perf_counter() - start)


def next_slice(size: int, seconds: float) -> int:
    """The runs to make next, when `size` runs took `seconds`."""
    if seconds * SLICE_GROWTH <= SLICE_SECONDS:
        return size * SLICE_GROWTH
    return max(1, int(size * SLICE_SECONDS / seconds))


def int64s(values: Sequence[int]) -> NDArray[np.int64]:
    """The values as native 8-byte integers, shape (len(values),)."""
    return np.array(values, dtype=np.int64)


@once
def _module() -> CompiledModule:
    return compile_llvm(DRIVER)


@once
def driver() -> Callable[..., None]:
    """The native driver, compiled once a process."""
    return Driver(_module().address("run"))
