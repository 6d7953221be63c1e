"""Swizzled arrays in shared memory, as the tensor cores of Hopper read them: where an element lies.

Rows have 128 bytes, of which pieces of 16 change places by the number of the row: those at one column of 8
rows lie in different banks. Longer rows are in parts of 128 bytes, each with all rows.

https://docs.nvidia.com/cuda/parallel-thread-execution, "Swizzling Modes"
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.kernel.gpu import SWIZZLED_BYTES, SWIZZLED_ROWS, VECTOR_BYTES
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder


@dataclass(frozen=True)
class Swizzle:
    """The layout of an array of `rows` x `columns`, or of a ring of such.

    Attributes:
        width, piece: the elements of 128 and of 16 bytes.
    """

    rows: int
    columns: int
    width: int
    piece: int

    @staticmethod
    def of(array: SSAValue) -> Swizzle:
        *_, rows, columns = memref_shape(array)
        bytes = element_bytes(array)
        return Swizzle(rows, columns, SWIZZLED_BYTES // bytes, VECTOR_BYTES // bytes)

    def place(self, b: FunctionBuilder, total: str, depth: int, constant: int) -> tuple[str, int]:
        """The physical position, as a sum of an `i64` and a number, of the element at `total + constant`."""
        slot, inside = divmod(constant, self.rows * self.columns)
        row, column = divmod(inside, self.columns)
        if constant < 0 or column or row % SWIZZLED_ROWS:
            return self.swizzled(b, b.emit_at(depth, f"add i64 {total}, {constant}"), depth), 0
        # Whole parts of 8 rows are swizzled alike.
        moved = slot * self.rows * self.columns + row * self.width
        return self.swizzled(b, total, depth), moved

    def swizzled(self, b: FunctionBuilder, number: str, depth: int) -> str:
        if number == "0":
            return number

        def emit(instruction: str, x: str, y: int | str) -> str:
            return b.emit_at(depth, f"{instruction} i64 {x}, {y}")

        row, first = emit("udiv", number, self.columns), number
        if self.columns > self.width:
            column, inner = emit("urem", number, self.columns), emit("urem", row, self.rows)
            start = emit("mul", emit("sub", row, inner), self.columns)
            part = emit("mul", emit("udiv", column, self.width), self.rows * self.width)
            first = emit("add", emit("add", start, part), emit("mul", inner, self.width))
            first, row = emit("add", first, emit("urem", column, self.width)), inner
        turned = emit("mul", emit("and", row, SWIZZLED_ROWS - 1), self.piece)
        return emit("xor", first, turned)
