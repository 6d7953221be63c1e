"""Products of warpgroups (`wgmma` of sm_90a): four warps multiply matrices of swizzled shared arrays.

A thread has the same elements of the product as of that of fragments by its warp, which has 16 of 64 rows.

https://docs.nvidia.com/cuda/parallel-thread-execution, "Asynchronous Warpgroup Level Matrix Instructions"
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    f32,
)
from xdsl.ir import Attribute, SSAValue

from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.memref import element_bytes, element_type, is_swizzled, memref_shape
from ocannl.dialects.kernel import CopyOp
from ocannl.dialects.kernel.gpu import BANK_BYTES, HALF_BYTES, SWIZZLED_BYTES, SWIZZLED_ROWS, WARP
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.kernel.mma import ACROSS, COLUMNS, FRAGMENTS, ROWS, MmaOp, depends
from ocannl.dialects.loops import LoadOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder

WARPS, MOST_COLUMNS = 4, 256
GROUP = WARPS * WARP
TYPES: dict[type[Attribute], str] = {
    Float16Type: "f16",
    BFloat16Type: "bf16",
    Float32Type: "tf32",
    Float8E4M3FNType: "e4m3",
    Float8E5M2Type: "e5m2",
}
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned {};"
DONE = WAIT.format(0)
# Fields of the description of a matrix, in units of 16 bytes, and that it is swizzled by 128 bytes.
UNIT, LEADING_AT, STRIDE_AT, SWIZZLED_AT = 16, 16, 32, 62


@dataclass(frozen=True)
class Matrix:
    """An operand of products.

    Attributes:
        load: of its elements, the first index of which may be a slot of a ring.
        is_turned: rows of memory go along the depth, so that neighbours are in other rows or columns.
    """

    load: LoadOp
    is_turned: bool

    @property
    def array(self) -> SSAValue:
        return self.load.node

    @property
    def part_bytes(self) -> int:
        """From 64 rows or columns of the matrix to the next ones."""
        rows, _ = memref_shape(self.array)[-2:]
        return (rows if self.is_turned else WARPS * ROWS) * SWIZZLED_BYTES

    def start_of(self, step: int) -> int:
        """The bytes before the part that a step of the depth multiplies."""
        rows, _ = memref_shape(self.array)[-2:]
        depth = FRAGMENTS[type(element_type(self.array))].depth
        if self.is_turned:
            return step * depth * SWIZZLED_BYTES
        part, inside = divmod(step * depth * element_bytes(self.array), SWIZZLED_BYTES)
        return part * rows * SWIZZLED_BYTES + inside

    @property
    def fields(self) -> int:
        """The description of the matrix at address 0. A stride is that of parts of 8 rows of memory."""
        leading = self.part_bytes if self.is_turned else UNIT
        stride = SWIZZLED_ROWS * SWIZZLED_BYTES
        return leading // UNIT << LEADING_AT | stride // UNIT << STRIDE_AT | 1 << SWIZZLED_AT


@dataclass(frozen=True)
class WarpgroupProduct:
    """A reduction of products over the depth of a tile.

    Attributes:
        steps: how many there are, each 32 bytes deep.
        groups: the warpgroups of the block, each with 64 rows.
        left: None if threads have the left operand in registers, as a product of fragments wants it.
    """

    reduce: ReduceOp
    product: MmaOp
    left: Matrix | None
    right: Matrix
    steps: int
    groups: int
    columns: int

    @property
    def commits(self) -> int:
        """The groups of instructions that async products of a tile are.

        Where threads load the left operand, they wait for those of a step before they load for the next such.
        """
        return self.steps if self.left is None else 1


def find_product(launch: LaunchOp, reduce: ReduceOp) -> WarpgroupProduct | None:
    """The product that a reduction is, if warpgroups have an instruction for it."""
    product = reduce.yielded.owner
    if not isinstance(product, MmaOp) or reduce.where is not None or len(reduce.space.data) != 1:
        return None
    if type(product.left.type) not in TYPES or len(launch.block.data) != 3:
        return None
    (step, steps), (warp, warps), lanes = reduce.space.data[0], *launch.block.data[:1], launch.block.data[1:]
    if [size for _, size in lanes] != [COLUMNS, ACROSS] or warps % WARPS:
        return None
    (across, _), (lane, _) = lanes
    fragments = product.fragments
    half, *pair = product.depth_names
    deep = Linear.of({lane: fragments.pack, half: fragments.pack * ACROSS, step: fragments.depth})
    deep += Linear.of(dict(zip(pair, fragments.steps, strict=True)))
    row = Linear.of({across: 1, product.rows.data: COLUMNS, warp: ROWS})
    left = matrix_of(launch, product.left, deep, row)
    right = matrix_of(launch, product.right, deep, column_of(launch, product, across))
    if right is None or (left is None and not loads_left(product)):
        return None
    columns = COLUMNS * dict(launch.registers.data).get(tile_name(launch, product) or "", 1)
    if columns > MOST_COLUMNS:
        return None
    return WarpgroupProduct(reduce, product, left, right, steps, warps // WARPS, columns)


def operand_bytes(product: MmaOp) -> int:
    return BANK_BYTES // product.fragments.pack


def adds_apart(product: MmaOp) -> bool:
    """Whether hardware has too few bits for long sums of such products."""
    return operand_bytes(product) < HALF_BYTES


def loads_left(product: MmaOp) -> bool:
    """Whether threads may have the left operand of a product in registers."""
    bytes = operand_bytes(product)
    return bytes == BANK_BYTES or (bytes == HALF_BYTES and not product.is_async)


def is_rounded(launch: LaunchOp, array: SSAValue) -> bool:
    """Whether bulk copies of f32 to an array may round to TF32: nothing but they fills it, and what is read
    of it are operands of products, which round.
    """
    if element_type(array) != f32:
        return False
    copies = [op for op in launch.body.walk() if isinstance(op, CopyOp) and op.target is array]
    loads = [op for op in launch.body.walk() if isinstance(op, LoadOp) and op.node is array]
    stores = any(isinstance(op, StoreOp) and op.node is array for op in launch.body.walk())
    users = [use.operation for load in loads for use in load.result.uses]
    return not stores and all(op.is_bulk for op in copies) and all(isinstance(op, MmaOp) for op in users)


def tile_name(launch: LaunchOp, product: MmaOp) -> str | None:
    """The register variable that tells products beside each other apart; None if there is not just one."""
    others = [
        name
        for name in launch.registers.names
        if name not in product.depth_names and depends(product.right, name)
    ]
    return others[0] if len(others) == 1 else None


def column_of(launch: LaunchOp, product: MmaOp, across: str) -> Linear:
    name = tile_name(launch, product)
    return Linear.of({across: 1, **({} if name is None else {name: COLUMNS})})


def matrix_of(launch: LaunchOp, operand: SSAValue, deep: Linear, side: Linear) -> Matrix | None:
    """The matrix that an operand is, if its elements are where the instruction takes them from.

    Those of 8 and 32 bits are not turned, and the instruction ignores bits that TF32 has not: bulk copies
    round before.
    """
    load = operand.owner
    if not isinstance(load, LoadOp) or not is_swizzled(load.node) or load.positions:
        return None
    last = load.indices.data[-2:]
    if last not in ((side, deep), (deep, side)):
        return None
    matrix = Matrix(load, last == (deep, side))
    if matrix.is_turned and element_bytes(load.node) != HALF_BYTES:
        return None
    return matrix if element_type(load.node) != f32 or is_rounded(launch, load.node) else None


def described(b: FunctionBuilder, matrix: Matrix, start: str) -> str:
    """The description of a matrix at an address, an `i64`."""
    return b.emit(f"add i64 {b.emit(f'lshr i64 {start}, 4')}, {matrix.fields}")


def multiply(
    b: FunctionBuilder, found: WarpgroupProduct, left: str | Sequence[str], right: str, sums: Sequence[str]
) -> list[str]:
    """Adds the products of all steps to the sums of a thread, and waits for them unless they are async. The
    operands are descriptions of matrices, the left one of registers of all steps where threads have it.
    Products of 8 bits start from nothing, and threads add.

    That is one piece of text: between products and the wait for them nothing may touch the sums, but for
    products of the same shape.
    """
    lines, operands, count = [FENCE], list[str](), len(sums)
    start = list[str]() if adds_apart(found.product) else sums
    for step in range(found.steps):
        place = count + len(start) + len(operands)
        if found.left is None:
            each = len(left) // found.steps
            taken = [f"i32 {register}" for register in left[step * each :][:each]]
            first = in_braces(place, each)
        else:
            assert isinstance(left, str)
            taken, first = [f"i64 {moved(b, found.left, left, step)}"], f"${place}"
        operands += [*taken, f"i64 {moved(b, found.right, right, step)}"]
        second = f"${place + len(taken)}"
        lines.append(instruction(found, first, second, count, adds=bool(start) or step > 0))
    lines.append(COMMIT)
    if not found.product.is_async:
        lines.append(DONE)
    made = in_place(b, lines, count, start, operands)
    if start:
        return made
    return [b.emit(f"fadd float {old}, {new}") for old, new in zip(sums, made, strict=True)]


def in_braces(first: int, count: int) -> str:
    """So many operands of text, as a vector."""
    return f"{{{', '.join(f'${first + k}' for k in range(count))}}}"


def multiply_registers(
    b: FunctionBuilder,
    found: WarpgroupProduct,
    left: Sequence[str],
    right: str,
    step: int,
    sums: Sequence[str],
) -> list[str]:
    """Adds the async products of a step, a group, whose left operand is in registers."""
    count = len(sums)
    first, second = in_braces(2 * count, len(left)), f"${2 * count + len(left)}"
    lines = [FENCE, instruction(found, first, second, count), COMMIT]
    operands = [*(f"i32 {r}" for r in left), f"i64 {moved(b, found.right, right, step)}"]
    return in_place(b, lines, count, sums, operands)


def instruction(found: WarpgroupProduct, left: str, right: str, count: int, adds: bool = True) -> str:
    """A product of operands of text, the first of which are the sums."""
    type = TYPES[type_of(found)]
    names = ", ".join(f"${k}" for k in range(count))
    shape = f"m{WARPS * ROWS}n{found.columns}k{found.product.fragments.depth}.f32.{type}.{type}"
    modes = ", ".join((str(int(adds)), "1", "1", *turns(found)))
    return f"wgmma.mma_async.sync.aligned.{shape} {{{names}}}, {left}, {right}, {modes};"


def moved(b: FunctionBuilder, matrix: Matrix, first: str, step: int) -> str:
    """The description of the part of a matrix that a step multiplies."""
    units = matrix.start_of(step) // UNIT
    return b.emit(f"add i64 {first}, {units}") if units else first


def turns(found: WarpgroupProduct) -> list[str]:
    """Which matrices are turned: those of 8 and 32 bits never are, and have no modes for it."""
    if operand_bytes(found.product) != HALF_BYTES:
        return []
    return [str(int(m.is_turned)) for m in (found.left, found.right) if m is not None]


def settled(b: FunctionBuilder, sums: Sequence[str]) -> list[str]:
    """The sums when all async products are done."""
    return in_place(b, [DONE], len(sums), sums)


def in_place(
    b: FunctionBuilder, lines: Sequence[str], count: int, sums: Sequence[str], operands: Sequence[str] = ()
) -> list[str]:
    """So many sums after instructions that change their registers, or define them where there are none yet,
    and take other values, each after its type.
    """
    kinds = ["l" if operand.startswith("i64") else "r" for operand in operands]
    constraints = [*["=f"] * count, *map(str, range(len(sums))), *kinds, "~{memory}"]
    arguments = [*(f"float {value}" for value in sums), *operands]
    struct = f"{{{', '.join(['float'] * count)}}}"
    text = "\\0A\\09".join(lines)
    made = b.emit(
        f'call {struct} asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(arguments)}) convergent'
    )
    return [b.emit(f"extractvalue {struct} {made}, {k}") for k in range(count)]


def type_of(found: WarpgroupProduct) -> type[Attribute]:
    return type(found.product.left.type)
