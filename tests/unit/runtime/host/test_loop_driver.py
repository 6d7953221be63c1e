"""The native loop over ranged indices."""

import ctypes
import os
import signal
from collections.abc import Iterator
from threading import Timer

import numpy as np
import pytest

from ocannl.runtime.host.jit import compile_llvm
from ocannl.runtime.host.loop_driver import SLICE_SECONDS, next_slice, run_in_slices, run_loop
from ocannl.runtime.memory import ArgBlock, Entry

# With i and j in slots 1 and 2, writes 10 i + j and its double to the two int64 that slot 0 points to.
COMBINE = """
define void @run(ptr %args) nounwind {
  %p = load ptr, ptr %args, align 8
  %i.slot = getelementptr i64, ptr %args, i64 1
  %i = load i64, ptr %i.slot, align 8
  %j.slot = getelementptr i64, ptr %args, i64 2
  %j = load i64, ptr %j.slot, align 8
  %tens = mul i64 %i, 10
  %sum = add i64 %tens, %j
  store i64 %sum, ptr %p, align 8
  %p1 = getelementptr i64, ptr %p, i64 1
  %double = mul i64 %sum, 2
  store i64 %double, ptr %p1, align 8
  ret void
}
"""


class Watcher:
    """A routine in Python that keeps the slot values its runs see."""

    def __init__(self, args: ArgBlock):
        self.seen: list[list[int]] = []
        self._entry = Entry(lambda _: self.seen.append(args.slots.tolist()))
        self.address: int = ctypes.cast(self._entry, ctypes.c_void_p).value or 0


def test_the_last_index_varies_fastest():
    args = ArgBlock(2)
    routine = Watcher(args)
    run_loop(routine.address, args, ranged=[(0, 2), (1, 3)])
    assert routine.seen == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]


def test_declaration_order_is_not_slot_order():
    args = ArgBlock(2)
    routine = Watcher(args)
    run_loop(routine.address, args, ranged=[(1, 2), (0, 3)])
    assert routine.seen == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]


def test_epochs_start_over_and_advanced_indices_go_on():
    args = ArgBlock(3)
    args.values[1] = 100
    routine = Watcher(args)
    run_loop(routine.address, args, epochs=3, ranged=[(0, 2)], advance=[1, 2])
    assert routine.seen == [[0, 100, 0], [1, 101, 1], [0, 102, 2], [1, 103, 3], [0, 104, 4], [1, 105, 5]]
    assert args.slots.tolist() == [0, 106, 6]


def test_ranged_indices_get_their_values_back():
    args = ArgBlock(3)
    args.slots[:] = [7, 8, 9]
    routine = Watcher(args)
    run_loop(routine.address, args, ranged=[(0, 2), (2, 1)], advance=[1])
    assert routine.seen == [[0, 8, 0], [1, 9, 0]]
    assert args.slots.tolist() == [7, 10, 9]


def test_without_ranges_an_epoch_is_one_run():
    args = ArgBlock(1)
    routine = Watcher(args)
    run_loop(routine.address, args, epochs=4, advance=[0])
    assert routine.seen == [[0], [1], [2], [3]]


@pytest.mark.parametrize(("epochs", "size"), [(0, 3), (2, 0)])
def test_no_runs(epochs: int, size: int):
    args, node = ArgBlock(1), np.zeros(2, np.float32)
    args.values[0] = 5
    routine = Watcher(args)
    (recorded,) = run_loop(routine.address, args, epochs=epochs, ranged=[(0, size)], record=[node])
    assert routine.seen == []
    assert recorded.shape == (0, 2)
    assert args.index(0) == 5


def test_values_are_recorded_after_each_run():
    module, args = compile_llvm(COMBINE), ArgBlock(3)
    node = np.zeros(2, np.int64)
    args.set_pointer(0, node)
    pair, first = run_loop(
        module.address("run"), args, epochs=20, ranged=[(1, 3), (2, 4)], record=[node, node[:1].reshape(())]
    )
    expected = [10 * i + j for _ in range(20) for i in range(3) for j in range(4)]
    assert pair.shape == (240, 2)
    assert pair[:, 0].tolist() == expected
    assert pair[:, 1].tolist() == [2 * value for value in expected]
    assert first.shape == (240,)
    assert first.tolist() == expected


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_a_loop_and_restores_the_indices():
    args = ArgBlock(1)
    args.values[0] = 42
    module = compile_llvm("define void @run(ptr %args) {\n  ret void\n}")
    press = Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))

    def interrupted() -> None:
        press.start()
        run_loop(module.address("run"), args, epochs=10**15, ranged=[(0, 10)])

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert args.index(0) == 42


def test_slices_add_up_to_all_runs():
    made: list[int] = []
    run_in_slices(1000, made.append, lambda: None)
    assert sum(made) == 1000
    assert made[0] == 1


def test_no_slice_runs_after_one_that_failed():
    made: list[int] = []

    def check() -> None:
        if len(made) == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_in_slices(1000, made.append, check)
    assert len(made) == 2


@pytest.mark.parametrize(
    ("size", "seconds", "expected"),
    [
        (10, 0.0, 40),
        (10, SLICE_SECONDS, 10),
        (10, 2 * SLICE_SECONDS, 5),
        (1, 10.0, 1),
        (8, SLICE_SECONDS / 2, 16),
    ],
)
def test_slices_follow_the_time_runs_take(size: int, seconds: float, expected: int):
    assert next_slice(size, seconds) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": -1}, "negative"),
        ({"ranged": [(0, -2)]}, "negative"),
        ({"ranged": [(0, 2)], "advance": [0]}, r"\[0\] are both"),
        ({"record": [np.zeros((3, 3))[:, 1]]}, "contiguous"),
    ],
)
def test_loops_that_cannot_run(options: dict, message: str):
    args = ArgBlock(1)
    with pytest.raises(ValueError, match=message):
        run_loop(0, args, **options)
