"""Kernels in which threads share rows, sums and tiles, emulated, against an interpreter of their nests."""

from __future__ import annotations

import pytest
from support.kernels import check, layer, lowered, operations, sums

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.kernel import CopyOp, LaunchOp
from ocannl.dialects.kernel.launch import SharedOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.runtime.cuda.ptx import ptx_text


class TestSplitSums:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("sizes", [(16, 16, 2048), (32, 40, 4000), (128, 20, 6000)], ids=str)
    def test_long_sums_with_few_results_have_parts(self, sizes: tuple[int, int, int]):
        module = check(layer(*sizes), tolerance=1e-2)
        partial, _ = (op for op in module.walk() if isinstance(op, LaunchOp))
        assert partial.label.data == "y.partial"
        (parts,) = (size for name, size in partial.grid.data if name.endswith("_part"))
        assert parts > 8

    def test_sums_over_two_variables(self):
        """The gradient of a weight: over the batch and positions; what else the nest does comes after."""
        module = check(
            """
loops.func @update {
  %x = assign.node "x" on_device : memref<12x64x20xf32>
  %g = assign.node "g" on_device : memref<12x64x24xf32>
  %w = assign.node "w" on_device : memref<24x20xf32>
  loops.nest "w.grad .. w" (o = 24, i = 20) {
    %sum = loops.reduce add (b = 12, s = 64) : f32 {
      %xv = loops.load %x[b, s, i]
      %gv = loops.load %g[b, s, o]
      %p = arith.mulf %xv, %gv : f32
      loops.yield %p
    }
    %old = loops.load %w[o, i]
    %new = arith.subf %old, %sum : f32
    loops.store %new, %w[o, i]
  }
}
""",
            tolerance=1e-2,
        )
        names = [op.label.data for op in module.walk() if isinstance(op, LaunchOp)]
        assert names == ["w.grad.partial", "w.grad .. w"]

    @pytest.mark.parametrize(
        ("space", "reduced", "load", "shape", "store", "result"),
        [
            ("", "k = 600, j = 500", "k, j", "600x500", "0", "1"),
            ("", "k = 262144", "k", "262144", "0", "1"),
            ("i = 40", "k = 17000", "k, i", "17000x40", "i", "40"),
            ("i = 3", "k = 160000", "i, k", "3x160000", "i", "3"),
        ],
        ids=["all", "one axis", "columns", "rows"],
    )
    def test_reductions_in_few_blocks_have_parts(
        self, space: str, reduced: str, load: str, shape: str, store: str, result: str
    ):
        module = check(
            f"""
loops.func @total {{
  %x = assign.node "x" on_device : memref<{shape}xf32>
  %y = assign.node "y" on_device : memref<{result}xf32>
  loops.nest "y" ({space}) {{
    %sum = loops.reduce add ({reduced}) : f32 {{
      %v = loops.load %x[{load}]
      loops.yield %v
    }}
    loops.store %sum, %y[{store}]
  }}
}}
""",
            Emulation(shuffle=3),
            1e-2,
        )
        partial, rest = (op for op in module.walk() if isinstance(op, LaunchOp))
        assert 100 <= partial.blocks <= 256
        assert rest.blocks <= 5

    def test_what_needs_another_reduction_is_whole(self):
        """The second reduction needs all of the first, whose parts come before."""
        module = check(sums("", "k = 600, j = 500", "k, j", "600x500", "0", "1"), Emulation(), 1e-1)
        names = [op.label.data for op in module.walk() if isinstance(op, LaunchOp)]
        assert names == ["y.partial", "y"]

    @pytest.mark.parametrize("sizes", [(1024, 1024, 1024), (64, 64, 64), (4096, 4096, 64)], ids=str)
    def test_others_have_none(self, sizes: tuple[int, int, int]):
        module = lowered(layer(*sizes))
        assert sum(isinstance(op, LaunchOp) for op in module.walk()) == 1


def softmax(rows: str, row: str, length: int) -> str:
    """Of rows of so many values, in exponentials of 2 that are squares."""
    shape = row.format(length)
    one = row.format(1)
    at = ", ".join(part.split(" = ")[0] for part in rows.split(", "))
    return f"""
loops.func @softmax {{
  %x = assign.node "x" on_device : memref<{shape}xf32>
  %top = assign.node "top" local because "intermediate value" : memref<{one}xf32>
  %e = assign.node "e" local because "intermediate value" : memref<{shape}xf32>
  %s = assign.node "s" local because "intermediate value" : memref<{one}xf32>
  %y = assign.node "y" on_device : memref<{shape}xf32>
  loops.nest "top" ({rows}) {{
    %0 = loops.reduce max (k = {length}) : f32 {{
      %1 = loops.load %x[{at}, k]
      loops.yield %1
    }}
    loops.store %0, %top[{at}, 0]
  }}
  loops.nest "e" ({rows}, o = {length}) {{
    %2 = loops.load %x[{at}, o]
    %3 = loops.load %top[{at}, 0]
    %4 = arith.subf %2, %3 : f32
    %5 = arith.mulf %4, %4 : f32
    loops.store %5, %e[{at}, o]
  }}
  loops.nest "s" ({rows}) {{
    %6 = loops.reduce add (k = {length}) : f32 {{
      %7 = loops.load %e[{at}, k]
      loops.yield %7
    }}
    loops.store %6, %s[{at}, 0]
  }}
  loops.nest "y" ({rows}, o = {length}) {{
    %8 = loops.load %e[{at}, o]
    %9 = loops.load %s[{at}, 0]
    %10 = arith.divf %8, %9 : f32
    loops.store %10, %y[{at}, o]
  }}
}}
"""


class TestGroupedRows:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("length", [32, 70, 128, 1025, 4096, 6000])
    @pytest.mark.parametrize(
        ("rows", "row"), [("b = 7", "7x{}"), ("b = 2, h = 4", "2x4x{}")], ids=["one", "two"]
    )
    def test_softmax_is_one_kernel(self, rows: str, row: str, length: int):
        module = check(softmax(rows, row, length), tolerance=1e-3)
        (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
        assert launch.shared_bytes <= 2**15
        assert {"e", "s"} & {op.label.data for op in module.walk() if isinstance(op, NodeOp)} <= {"e"}

    def test_few_long_rows_have_a_thread_for_each_point(self):
        module = lowered(softmax("b = 4", "4x{}", 2**17))
        names = [op.label.data for op in module.walk() if isinstance(op, LaunchOp)]
        assert names == ["top.partial", "top", "e", "s.partial", "s", "y"]

    def test_what_others_write_is_read_again(self):
        """In PTX, no thread keeps what another one may write before the barrier."""
        text = softmax("b = 64", "64x{}", 64).replace("local because", "on_device because")
        ptx = ptx_text(lowered(text))
        assert "ld.global.nc" in ptx
        body = ptx.split("bar.sync")
        assert "ld.global.b32" in body[-1] or "ld.global.v2" in body[-1]


class TestTransposing:
    @pytest.mark.parametrize("element", ["f32", "f64"])
    @pytest.mark.parametrize("sizes", [(256, 64), (513, 45), (128, 130)], ids=str)
    def test_tiles_are_turned_in_shared_memory(self, sizes: tuple[int, int], element: str):
        """One operand lies as the result, one does not; a batch lies beside both."""
        rows, columns = sizes
        module = check(f"""
loops.func @turn {{
  %x = assign.node "x" on_device : memref<{columns}x2x{rows}x{element}>
  %v = assign.node "v" on_device : memref<2x{rows}x{columns}x{element}>
  %y = assign.node "y" on_device : memref<2x{rows}x{columns}x{element}>
  loops.nest "y" (g = 2, b = {rows}, o = {columns}) {{
    %0 = loops.load %x[o, g, b]
    %1 = loops.load %v[g, b, o]
    %2 = arith.addf %0, %1 : {element}
    loops.store %2, %y[g, b, o]
  }}
}}
""")
        (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
        (copy,) = (op for op in module.walk() if isinstance(op, CopyOp))
        assert copy.space.names[-1] == "b"
        assert launch.block.names == ("b_thread", "o_thread")

    def test_halves(self):
        """Of numbers of 16 bits, too, no two threads of a warp read different words of one bank."""
        module = lowered("""
loops.func @turn {
  %x = assign.node "x" on_device : memref<128x256xbf16>
  %y = assign.node "y" on_device : memref<256x128xbf16>
  loops.nest "y" (b = 256, o = 128) {
    %0 = loops.load %x[o, b]
    loops.store %0, %y[b, o]
  }
}
""")
        (array,) = (op for op in module.walk() if isinstance(op, SharedOp))
        _, row = array.result.type.get_shape()
        assert len({row * lane // 2 % 32 for lane in range(32)}) == 32

    def test_small_ones_are_not_turned(self):
        text = """
loops.func @turn {
  %x = assign.node "x" on_device : memref<16x2048xf32>
  %y = assign.node "y" on_device : memref<2048x16xf32>
  loops.nest "y" (b = 2048, o = 16) {
    %0 = loops.load %x[o, b]
    loops.store %0, %y[b, o]
  }
}
"""
        assert CopyOp not in operations(check(text))
