"""Loads of fragments by `ldmatrix`: a warp reads 8 rows of 16 bytes from shared memory, 1, 2 or 4 times.

In such a load thread `l` reads 4 bytes at column `l % 4` of row `l / 4`. Where elements have 16 bits, the
matrix may lie transposed. The instruction takes the address of a row from each thread.

https://docs.nvidia.com/cuda/parallel-thread-execution, "ldmatrix"
"""

from __future__ import annotations

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.memref import loaded_type
from ocannl.dialects.kernel.gpu import WARP
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import ACROSS
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.kernels.registers import Variables
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.types import value_type

MATRIX_ROWS, ROW_BYTES, REGISTER_BYTES = 8, 16, 4
# Variables in addresses: the row whose address a thread gives, and the start of its matrix.
ROW, MATRIX = "row$", "matrix$"


@dataclass(frozen=True)
class Matrices:
    """Where the matrices of a load lie.

    Attributes:
        address: of a row, in terms of `ROW`.
        pair: the register variable along which two elements share a register, if they do.
        is_transposed: the rows in memory are columns of the fragments.
    """

    address: Address
    pair: str | None
    is_transposed: bool


def matrices(launch: LaunchOp, op: LoadOp, address: Address, over: Variables) -> Matrices | None:
    """The matrices that a load reads, if it reads such."""
    if not isinstance(op.node.owner, SharedOp) or op.positions or launch.threads % WARP:
        return None
    lanes = launch.block.data[-2:]
    if [size for _, size in lanes] != [MATRIX_ROWS, ACROSS]:
        return None
    (group, _), (across, _) = lanes
    bytes = value_type(loaded_type(op.node)).bytes
    pack = REGISTER_BYTES // bytes
    pair = over[-1] if pack == 2 and over else None
    if pack == 0 or pack > 2 or (pack == 2 and pair is None):
        return None
    along = [address.stride(across), *([address.stride(pair)] if pair else [])]
    for is_transposed in (False, True)[: 1 + (pack == 2)]:
        row = along[-1] if is_transposed else address.stride(group)
        step = address.stride(group) if is_transposed else along[-1]
        rest = [(name, c) for name, c in address.terms if name not in (group, across, pair)]
        steps = [row, address.constant, *(c for _, c in rest)]
        is_matrix = step == 1 and along[0] == pack * along[-1]
        if is_matrix and row and all(c * bytes % ROW_BYTES == 0 for c in steps):
            return Matrices(Address((*rest, (ROW, row)), address.constant), pair, is_transposed)
    return None


def lanes_of_rows(b: FunctionBuilder, thread: str, offsets: list[int]) -> tuple[str, str]:
    """Of which row a thread gives the address, and where the matrix of that begins; `thread` is an `i32`."""
    number = b.emit_at(0, f"zext i32 {thread} to i64")
    row = b.emit_at(0, f"and i64 {number}, {MATRIX_ROWS - 1}")
    turn = b.emit_at(0, f"lshr i64 {number}, {MATRIX_ROWS.bit_length() - 1}")
    turn = b.emit_at(0, f"and i64 {turn}, {len(offsets) - 1}")
    start = "0"
    for k, offset in enumerate(offsets[1:], 1):
        is_own = b.emit_at(0, f"icmp eq i64 {turn}, {k}")
        start = b.emit_at(0, f"select i1 {is_own}, i64 {offset}, i64 {start}")
    return row, start


def load_matrices(b: FunctionBuilder, pointer: str, count: int, is_transposed: bool) -> list[str]:
    """The registers of a thread; `pointer` is to the row of which it gives the address."""
    mode = ".trans" if is_transposed else ""
    shared = b.emit(f"addrspacecast ptr {pointer} to ptr addrspace(3)")
    type = "i32" if count == 1 else f"{{{', '.join(['i32'] * count)}}}"
    name = f"@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{mode}.b16.p3"
    found = b.emit(f"call {type} {name}(ptr addrspace(3) {shared})")
    return [found] if count == 1 else [b.emit(f"extractvalue {type} {found}, {k}") for k in range(count)]
