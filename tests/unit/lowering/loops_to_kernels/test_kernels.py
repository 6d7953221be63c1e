"""Kernels, emulated, against an interpreter of the nests that they come from."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from support.kernels import check, layer, lowered, operations, small_kernels, sums
from support.nests import nest_functions

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.kernel import BarrierOp, CombineOp, CopyOp, ForOp, LaunchOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.loops_to_kernels import contraction, draft
from ocannl.runtime.cuda.ptx import ptx_text

__all__ = ["small_kernels"]  # a fixture

RANDOM = settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.exhaustive
@RANDOM
@given(nest_functions(scheduled=False))
def test_random_nests(text: str):
    check(text, Emulation(), 1e-3)


@pytest.mark.usefixtures("small_kernels")
class TestSmallKernels:
    @pytest.mark.exhaustive
    @RANDOM
    @given(nest_functions(scheduled=False))
    def test_random_nests(self, text: str):
        check(text, tolerance=1e-3)


class TestContractions:
    @pytest.mark.parametrize("sizes", [(96, 60, 16), (90, 64, 20)], ids=str)
    def test_groups_of_blocks(self, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch):
        """Some rows of tiles go through the columns together; what is left of the last tile is guarded."""
        monkeypatch.setattr(contraction, "TILE_SIDES", (16,))
        monkeypatch.setattr(draft, "GROUPED", 2)
        (launch,) = (op for op in check(layer(*sizes)).walk() if isinstance(op, LaunchOp))
        assert launch.grid.names == ("b_band", "o_block", "b_block")

    def test_instructions_of_a_large_tile(self):
        """Of a step of 16 for 8 x 8 results a thread: hardly anything but products, and no jumps."""
        text = ptx_text(lowered(layer(4096, 4096, 4096, w="i, o")))
        (loop,) = re.findall(r"(?s)(\$L__BB0_\d+):((?:(?!\$L__BB).)*?bra\s+\1;)", text)
        found = {
            name: loop[1].count(name) for name in ("fma.rn.f32", "ld.shared.v4", "ld.shared", "bar.sync")
        }
        assert found == {"fma.rn.f32": 1024, "ld.shared.v4": 64, "ld.shared": 64, "bar.sync": 1}

    @pytest.mark.parametrize("tile", [(16,), (32,), (64,), (128,), (16, 128)], ids=str)
    @pytest.mark.parametrize("sizes", [(16, 16, 16), (37, 21, 23), (129, 65, 8)], ids=str)
    def test_tiles(self, tile: tuple[int, ...], sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(contraction, "TILE_SIDES", tile)
        assert CopyOp in operations(check(layer(*sizes), Emulation(shuffle=1)))

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("w", ["o, i", "i, o"])
    @pytest.mark.parametrize("y", ["b, o", "o, b"])
    @pytest.mark.parametrize("element", ["f32", "f64"])
    def test_layouts(self, w: str, y: str, element: str):
        check(layer(33, 18, 40, element, w, y=y))

    @pytest.mark.parametrize(("accum", "op"), [("max", "addf"), ("add", "subf"), ("min", "maximumf")])
    def test_any_accumulation_of_any_function(self, accum: str, op: str):
        assert CopyOp in operations(check(layer(17, 19, 21, accum=accum, op=op)))

    def test_no_race_and_nothing_outside(self):
        module = check(layer(37, 21, 23), Emulation(shuffle=3, check=True))
        assert {CopyOp, BarrierOp} <= operations(module)

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("depth", [8, 24, 40, 41], ids=str)
    def test_one_two_and_more_steps(self, depth: int):
        check(layer(32, 32, depth))

    def test_windows(self):
        """A convolution: the operand's index is a sum of the column and the reduced variable."""
        check("""
loops.func @windows {
  %w = assign.node "w" on_device : memref<20x9x3xf32>
  %x = assign.node "x" on_device : memref<3x45x3xf32>
  %y = assign.node "y" on_device : memref<3x19x20xf32>
  loops.nest "y" (b = 3, p = 19, o = 20) {
    %sum = loops.reduce add (k = 9, c = 3) : f32 {
      %wv = loops.load %w[o, k, c]
      %xv = loops.load %x[b, 2*p + k, c]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, p, o]
  }
}
""")


class TestRows:
    """Reductions that threads share: the second one uses the result of the first."""

    @pytest.mark.parametrize("length", [32, 100, 1023, 1024, 3000])
    @pytest.mark.parametrize("count", [1, 6, 7])
    def test_rows(self, count: int, length: int):
        text = sums(f"i = {count}", f"k = {length}", "i, k", f"{count}x{length}", "i", f"{count}")
        assert CombineOp in operations(check(text, tolerance=1e-3))

    @pytest.mark.parametrize("length", [40, 1500])
    @pytest.mark.parametrize("count", [5, 32, 33, 96])
    def test_columns(self, count: int, length: int):
        text = sums(f"i = {count}", f"k = {length}", "k, i", f"{length}x{count}", "i", f"{count}")
        assert CombineOp in operations(check(text, tolerance=1e-3))

    def test_many_rows(self):
        """Threads share a contiguous reduction however many rows there are."""
        text = sums("i = 20000", "k = 32", "i, k", "20000x32", "i", "20000")
        assert CombineOp in operations(lowered(text))

    def test_what_is_large_is_contiguous(self):
        """Neighbouring threads read the matrix along its rows, not the vectors along the reduction."""
        module = check("""
loops.func @gain {
  %x = assign.node "x" on_device : memref<64x40xf32>
  %mean = assign.node "mean" on_device : memref<64xf32>
  %scale = assign.node "scale" on_device : memref<64xf32>
  %gain = assign.node "gain" on_device : memref<40xf32>
  loops.nest "gain" (o = 40) {
    %sum = loops.reduce add (b = 64) : f32 {
      %v = loops.load %x[b, o]
      %m = loops.load %mean[b]
      %s = loops.load %scale[b]
      %d = arith.subf %v, %m : f32
      %p = arith.mulf %d, %s : f32
      loops.yield %p
    }
    loops.store %sum, %gain[o]
  }
}
""")
        (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
        assert launch.block.names[-1] == "o_thread"

    def test_scalar(self):
        text = sums("", "k = 50, j = 3", "k, j", "50x3", "0", "1")
        assert CombineOp in operations(check(text, tolerance=1e-3))

    def test_update_in_place(self):
        check("""
loops.func @update {
  %w = assign.node "w" on_device : memref<4xf32>
  %x = assign.node "x" on_device : memref<4x50xf32>
  loops.nest "w" (i = 4) {
    %old = loops.load %w[i]
    %sum = loops.reduce add (k = 50) : f32 {
      %v = loops.load %x[i, k]
      %p = arith.mulf %v, %old : f32
      loops.yield %p
    }
    %new = arith.subf %old, %sum : f32
    loops.store %new, %w[i]
  }
}
""")

    def test_a_store_that_a_reduction_reads_stays_before_it(self):
        module = check("""
loops.func @between {
  %x = assign.node "x" on_device : memref<4x50xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  loops.nest "y" (i = 4) {
    %c = arith.constant 2.0 : f32
    loops.store %c, %x[i, 0]
    %sum = loops.reduce add (k = 50) : f32 {
      %v = loops.load %x[i, k]
      loops.yield %v
    }
    loops.store %sum, %y[i]
  }
}
""")
        assert CombineOp not in operations(module)


class TestPointwise:
    def test_vectors(self):
        text = """
loops.func @vectors {
  %x = assign.node "x" on_device : memref<64x1028xf32>
  %b = assign.node "b" on_device : memref<64xf32>
  %y = assign.node "y" on_device : memref<64x1028xf32>
  loops.nest "y" (i = 64, j = 1028) {
    %v = loops.load %x[i, j]
    %bv = loops.load %b[i]
    %s = arith.mulf %v, %bv : f32
    loops.store %s, %y[i, j]
  }
}
"""
        (launch,) = (op for op in check(text, Emulation(shuffle=2)).walk() if isinstance(op, LaunchOp))
        assert launch.registers.data == (("j_reg", 4),)

    def test_scatter(self):
        module = check("""
loops.func @scatter {
  %x = assign.node "x" on_device : memref<5x8x3xf32>
  %y = assign.node "y" on_device : memref<5x17xf32>
  loops.nest "y" (b = 5, o = 8, k = 3) {
    %v = loops.load %x[b, o, k]
    %old = loops.load %y[b, 2*o + k]
    %new = arith.addf %v, %old : f32
    loops.store %new, %y[b, 2*o + k]
  }
}
""")
        assert ForOp in operations(module)

    @pytest.mark.exhaustive
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("stride", [1, 2, 3])
    def test_windows_that_overlap(self, stride: int):
        """The gradient of a convolution: its windows are added in turn, those of one offset at once."""
        height, width = stride * 19 + 5, stride * 12 + 5
        module = check(f"""
loops.func @windows {{
  %x = assign.node "x" on_device : memref<3x20x13x7xf32>
  %w = assign.node "w" on_device : memref<7x5x5x6xf32>
  %y = assign.node "y" on_device : memref<3x{height}x{width}x6xf32>
  loops.nest "y" (b = 3, h = 20, i = 5, v = 13, j = 5, c = 6) {{
    %sum = loops.reduce add (o = 7) : f32 {{
      %xv = loops.load %x[b, h, v, o]
      %wv = loops.load %w[o, i, j, c]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }}
    %old = loops.load %y[b, {stride}*h + i, {stride}*v + j, c]
    %new = arith.addf %old, %sum : f32
    loops.store %new, %y[b, {stride}*h + i, {stride}*v + j, c]
  }}
}}
""")
        (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
        turns = next(op for op in launch.body.block.ops if isinstance(op, ForOp))
        assert turns.space.names == ("i", "j")
        assert launch.threads > 100

    def test_what_is_read_from_other_cells_runs_in_turn(self):
        module = lowered("""
loops.func @running {
  %x = assign.node "x" on_device : memref<8x3xf32>
  %y = assign.node "y" on_device : memref<17xf32>
  loops.nest "y" (o = 8, k = 3) {
    %v = loops.load %x[o, k]
    %old = loops.load %y[o + k]
    %new = arith.addf %v, %old : f32
    loops.store %new, %y[2*o + k]
  }
}
""")
        assert BarrierOp not in operations(module)

    def test_positions(self):
        """A gather and a scatter at positions that are found at run time."""
        check("""
loops.func @ids {
  %id = assign.node "id" on_device : memref<40xf32>
  %w = assign.node "w" on_device : memref<9x8xf32>
  %y = assign.node "y" on_device : memref<40x8xf32>
  loops.nest "y" (i = 40, j = 8) {
    %n = loops.load %id[i]
    %t = math.trunc %n : f32
    %at, %inside = loops.position %t below 9
    %v = loops.load %w[%at, j]
    loops.store %v, %y[i, j]
  }
  loops.nest "w" (i = 40, j = 8) {
    %n = loops.load %id[i]
    %t = math.trunc %n : f32
    %at, %inside = loops.position %t below 9
    %v = loops.load %y[i, j]
    %old = loops.load %w[%at, j]
    %new = arith.addf %v, %old : f32
    loops.store %new, %w[%at, j]
  }
}
""")

    def test_no_points(self):
        text = """
loops.func @nothing {
  %x = assign.node "x" on_device : memref<4x0xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  loops.nest "x" (i = 4, k = 0) {
    %c = arith.constant 1.0 : f32
    loops.store %c, %x[i, k]
  }
  loops.nest "y" (i = 4) {
    %s = loops.reduce add (k = 0) : f32 {
      %v = loops.load %x[i, k]
      loops.yield %v
    }
    loops.store %s, %y[i]
  }
}
"""
        assert sum(isinstance(op, LaunchOp) for op in check(text).walk()) == 1

    def test_points_of_a_group_that_share_a_cell_run_in_turn(self):
        module = check("""
loops.func @group {
  %y = assign.node "y" on_device : memref<4xf32>
  loops.group "y" (i = 4) {
    loops.nest "y" () {
      %c = loops.load %y[0]
      %d = arith.addf %c, %c : f32
      loops.store %d, %y[0]
    }
  }
}
""")
        (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
        assert launch.blocks == 1

    @pytest.mark.parametrize("place", ["i", "0"])
    def test_points_of_a_nest_in_a_group_that_share_a_cell(self, place: str):
        text = f"""
loops.func @group {{
  %y = assign.node "y" on_device : memref<4xf32>
  loops.group "y" (i = 4) {{
    loops.nest "y" (k = 3) {{
      %c = loops.load %y[{place}]
      %d = arith.addf %c, %c : f32
      loops.store %d, %y[{place}]
    }}
  }}
}}
"""
        with pytest.raises(OcannlError, match="the points of a nest in a group store to different cells"):
            lowered(text)
