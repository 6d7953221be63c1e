"""Checks of accesses in emulated kernels: bounds, races, and copies that nobody waits for."""

from __future__ import annotations

import numpy as np
import pytest
from support.nests import parse_module, random_arrays, run_compiled, the_func
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.errors import DeviceError
from ocannl.lowering.kernels_to_llvm import Emulation

REVERSED = """
loops.func @reversed {{
  %x = assign.node "x" on_device : memref<2x48xf32>
  %y = assign.node "y" on_device : memref<2x48xf32>
  kernel.launch "y" grid (b = 2) block (t = 48) {{
    %s = kernel.shared memref<48xf32>
    %v = loops.load %x[b, t]
    loops.store %v, %s[t]
    {between}
    %r = loops.load %s[-t + 47]
    loops.store %r, %y[{store}]
  }}
}}
"""


class TestChecks:
    def run(self, text: str, indices: dict[str, int] | None = None, shuffle: int | None = None) -> None:
        module = parse_module(text)
        emulation = Emulation(shuffle, check=True)
        run_compiled(module, random_arrays(the_func(module)), indices, emulation=emulation)

    def test_a_barrier_orders(self):
        self.run(REVERSED.format(between="kernel.barrier", store="b, t"))

    def test_a_race_in_shared_memory(self):
        with pytest.raises(DeviceError, match=r"kernel `y`, shared memory: thread .* races"):
            self.run(REVERSED.format(between="", store="b, t"))

    def test_a_race_between_blocks(self):
        """The verifier finds stores that meet; a load that meets a store is for the check."""
        text = REVERSED.format(between="kernel.barrier\n%o = loops.load %y[0, t]", store="b, t")
        with pytest.raises(DeviceError, match="kernel `y`, `y`: thread 0 of block 1 races"):
            self.run(text)
        with pytest.raises(VerifyException, match="threads that differ in `b` store to the same cell"):
            parse_module(REVERSED.format(between="", store="0, t"))

    def test_many_readers_before_a_writer(self):
        """In this order of threads the writer comes last: it is not the only one who has read."""
        text = """
loops.func @read {
  %x = assign.node "x" on_device : memref<1xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  kernel.launch "x" block (t = 4) {
    %v = loops.load %x[0]
    loops.store %v, %y[t]
    kernel.where t < 1 {
      loops.store %v, %x[0]
    }
  }
}
"""
        with pytest.raises(DeviceError, match="kernel `x`, `x`: thread 0 of block 0 races"):
            self.run(text, shuffle=2)

    def test_outside(self):
        text = """
loops.func @outside indices (n) {
  %x = assign.node "x" on_device : memref<4x8xf32>
  %y = assign.node "y" on_device : memref<8xf32>
  kernel.launch "y" block (t = 8) {
    %v = loops.load %x[n, t]
    loops.store %v, %y[t]
  }
}
"""
        self.run(text, {"n": 3})
        for n in (4, -1):
            with pytest.raises(DeviceError, match="`x`: thread 0 of block 0 is outside at element"):
                self.run(text, {"n": n})


COPIED = """
loops.func @copied {{
  %x = assign.node "x" on_device : memref<3x64xf32>
  %y = assign.node "y" on_device : memref<64xf32>
  kernel.launch "y" block (t = 64) {{
    %s = kernel.shared memref<2x64xf32, "ring">
    kernel.copy async %x[0, i] to %s[0, i] over (i = 64) by 4
    kernel.commit
    kernel.copy async %x[1, i] to %s[1, i] over (i = 64) by 4
    kernel.commit
    {before}
    %v = loops.load %s[2, -t + 63]
    loops.store %v, %y[t]
    {after}
  }}
}}
"""
EARLY = r"kernel `y`, shared memory: thread .* does not wait for the copy of element"
AGAIN = "kernel.copy async %x[2, i] to %s[2, i] over (i = 64) by 4"


class TestAsynchronousCopies:
    def run(self, before: str, after: str = "") -> None:
        module = parse_module(COPIED.format(before=before, after=after))
        found = random_arrays(the_func(module))
        expected = found["x"][0, ::-1].copy()
        run_compiled(module, found, emulation=Emulation(shuffle=1, check=True))
        np.testing.assert_array_equal(found["y"], expected)

    def test_what_was_waited_for_is_there_after_a_barrier(self):
        self.run("kernel.wait 1\nkernel.barrier")

    @pytest.mark.parametrize(
        "before", ["", "kernel.barrier", "kernel.wait 2\nkernel.barrier", "kernel.wait 0"], ids=str
    )
    def test_what_was_not_is_not(self, before: str):
        with pytest.raises(DeviceError, match=EARLY):
            self.run(before)

    def test_waiting_after_the_barrier_is_for_the_thread_alone(self):
        with pytest.raises(DeviceError, match=EARLY):
            self.run("kernel.barrier\nkernel.wait 0")

    def test_an_array_is_used_again_when_it_was_read(self):
        self.run("kernel.wait 1\nkernel.barrier", f"kernel.barrier\n{AGAIN}")
        with pytest.raises(DeviceError, match=f"races|{EARLY}"):
            self.run("kernel.wait 1\nkernel.barrier", AGAIN)

    def test_two_copies_to_one_place_do_not_overlap(self):
        with pytest.raises(DeviceError, match=EARLY):
            self.run(f"{AGAIN}\nkernel.commit\nkernel.wait 0\nkernel.barrier")

    def test_zeros_stand_outside(self):
        module = parse_module("""
loops.func @edges {
  %x = assign.node "x" on_device : memref<5x12xf32>
  %y = assign.node "y" on_device : memref<8x16xf32>
  kernel.launch "y" block (a = 8, t = 4) registers (r = 4) {
    %s = kernel.shared memref<8x16xf32>
    kernel.copy async %x[i, k] to %s[i, k] over (i = 8, k = 16) by 4 where i < 5, k < 12
    kernel.commit
    kernel.wait 0
    kernel.barrier
    %v = loops.load %s[a, 4*t + r]
    loops.store %v, %y[a, 4*t + r]
  }
}
""")
        found = random_arrays(the_func(module))
        expected = np.pad(found["x"], ((0, 3), (0, 4)))
        run_compiled(module, found, emulation=Emulation(check=True))
        np.testing.assert_array_equal(found["y"], expected)
