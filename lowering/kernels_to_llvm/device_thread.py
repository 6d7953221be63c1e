"""The code of one thread of a kernel for an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.memref import element_bytes, is_swizzled, memref_shape
from ocannl.dialects.kernel import CombineOp, CopyOp, WaitOp, WhereOp, block_reduction
from ocannl.dialects.kernel.boxes import Box
from ocannl.dialects.kernel.gpu import MBARRIER_BYTES, STATIC_SHARED_BYTES, VECTOR_BYTES
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import ACROSS, COLUMNS, MmaOp, WaitProductsOp, async_sum
from ocannl.dialects.kernel.own import OwnOp
from ocannl.dialects.loops import LoadOp, ReduceOp, StoreOp
from ocannl.lowering.kernels.registers import key, points
from ocannl.lowering.kernels_to_llvm import warpgroups
from ocannl.lowering.kernels_to_llvm.bulk_copies import BulkCopies
from ocannl.lowering.kernels_to_llvm.epilogues import epilogue_start, slice_variable
from ocannl.lowering.kernels_to_llvm.fragments import multiply, operand, register_of
from ocannl.lowering.kernels_to_llvm.hardware_scalars import hardware_instructions
from ocannl.lowering.kernels_to_llvm.lane_order import lane_order
from ocannl.lowering.kernels_to_llvm.matrices import (
    MATRIX,
    REGISTER_BYTES,
    ROW,
    lanes_of_rows,
    load_matrices,
    matrices,
)
from ocannl.lowering.kernels_to_llvm.mbarriers import Mbarriers, assembly, fence
from ocannl.lowering.kernels_to_llvm.numbers import gathered, variables
from ocannl.lowering.kernels_to_llvm.quad_stores import four_tiles, piece_of, quad_store, transposed, word_of
from ocannl.lowering.kernels_to_llvm.shuffles import exchanged, shuffled
from ocannl.lowering.kernels_to_llvm.thread import ThreadEmitter
from ocannl.lowering.kernels_to_llvm.thread_values import SLOT
from ocannl.lowering.kernels_to_llvm.totals import totals
from ocannl.lowering.kernels_to_llvm.warpgroups import (
    GROUP,
    Matrix,
    WarpgroupProduct,
    described,
    find_product,
    is_rounded,
)
from ocannl.lowering.llvm.accumulators import combine
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.indices import linear_value
from ocannl.lowering.llvm.memory import Found
from ocannl.lowering.llvm.types import ValueType, value_type

GLOBAL_SPACE, SHARED_SPACE = 1, 3


class DeviceThread(ThreadEmitter):
    """Emits the code of a kernel's thread for an NVIDIA GPU.

    Attributes:
        shared: the bytes of the kernel's shared arrays by name; 0 for dynamic shared memory.
        products: by reductions, those that warpgroups have instructions for.
        mbarriers: those of copies in bulk, if the hardware has such and the kernel has some.
        bulk: these copies, unless the threads have roles.
        quads: by stores and four tiles, words that threads exchange before they store them.
        maps: the names of the tensor maps of these, by node, the sizes of boxes, where it ends, and
            whether they round.
    """

    # A step of a contraction: its loads from shared memory move up past the products of those before.
    unrolled = 16

    def __init__(
        self,
        b: FunctionBuilder,
        launch: LaunchOp,
        pointers: dict[SSAValue, str],
        positions: dict[str, Position],
        has_warpgroups: bool = False,
    ) -> None:
        super().__init__(b, launch, pointers, positions)
        self.shared: dict[str, int] = {}
        self.quads: dict[tuple[StoreOp, tuple[int, ...]], list[str]] = {}
        reduces = [op for op in launch.body.walk() if isinstance(op, ReduceOp)] if has_warpgroups else []
        found = ((op, find_product(launch, op)) for op in reduces)
        self.products = {op: product for op, product in found if product is not None}
        self.mbarriers = Mbarriers(b, launch.mbarriers) if has_warpgroups and launch.mbarriers else None
        self.bulk = BulkCopies(b, self.mbarriers) if self.mbarriers and not launch.has_roles else None
        self.maps: dict[tuple[SSAValue, tuple[int, ...], tuple[int, ...], bool], str] = {}
        self.totals = totals(launch, self.over)
        self.copies = [op for op in launch.body.walk() if isinstance(op, CopyOp)]
        self.has_async = any(op.is_async and not self.is_bulk(op) for op in self.copies)
        self.needs_fences = not self.touched_by_threads().isdisjoint(self.touched_by_hardware())

    def is_bulk(self, op: CopyOp) -> bool:
        return self.mbarriers is not None and op.is_bulk

    def matrices(self) -> list[Matrix]:
        """Those that warpgroups read."""
        return [m for p in self.products.values() for m in (p.left, p.right) if m is not None]

    def touched_by_hardware(self) -> set[SSAValue]:
        """The shared arrays that warpgroups and bulk copies read and write."""
        operands = {m.array for m in self.matrices()}
        return operands | {op.target for op in self.copies if self.is_bulk(op)}

    def touched_by_threads(self) -> set[SSAValue]:
        own = {m.load for m in self.matrices()}
        ops = (op for op in self.launch.body.walk() if isinstance(op, LoadOp | StoreOp) and op not in own)
        return {op.node for op in ops} | {op.target for op in self.copies if not self.is_bulk(op)}

    def emit(self) -> None:
        for op in self.launch.body.block.ops:
            if isinstance(op, OwnOp):
                space = f"[{op.bytes} x i8], align {VECTOR_BYTES}"
                self.pointers[op.result] = self.b.emit(f"alloca {space}")
        self.place_shared([op for op in self.launch.body.block.ops if isinstance(op, SharedOp)])
        self.thread = self.b.emit("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        block = self.b.emit("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()")
        self.positions.update(variables(self.b, block, self.launch.grid.data))
        self.positions.update(variables(self.b, self.thread, self.launch.block.data))
        self.prepare()
        self.emit_in_slices(list(self.launch.body.block.ops))

    def prepare(self) -> None:
        """Prepares barriers before all else."""
        if self.bulk is not None:
            self.bulk.start(self.thread)
            self.barrier()

    def emit_in_slices(self, ops: Sequence[Operation]) -> None:
        """Emits a kernel's operations, and long epilogues slice by slice."""
        start = epilogue_start(ops)
        name = slice_variable(ops[start:], self.over, self.sizes)
        if name is None:
            self.emit_ops(ops)
            return
        self.emit_ops(ops[:start])
        for value in range(self.sizes[name]):
            self.at({name: value}, partial(self.emit_ops, ops[start:]))

    def place_shared(self, arrays: Sequence[SharedOp]) -> None:
        """Makes generic pointers to the shared arrays; LLVM infers their address space.

        If they take more than a kernel may declare, all are parts of dynamic shared memory.
        """
        place, is_given = 0, self.launch.shared_bytes > STATIC_SHARED_BYTES

        def pointer(bytes: int) -> str:
            nonlocal place
            name = f"@shared{0 if is_given else len(self.shared)}"
            self.shared[name] = 0 if is_given else bytes
            start, place = place, place + (bytes if is_given else 0)
            generic = f"addrspacecast (ptr addrspace(3) {name} to ptr)"
            return f"getelementptr (i8, ptr {generic}, i64 {start})" if start else generic

        # Swizzled arrays, which fill whole patterns, come first: so all begin at one.
        for op in sorted(arrays, key=lambda op: not is_swizzled(op.result)):
            self.pointers[op.result] = pointer(op.bytes)
        if self.mbarriers is not None:
            self.mbarriers.place = pointer(MBARRIER_BYTES * self.mbarriers.count)

    def emit_op(self, op: Operation) -> None:
        if op in self.totals.values():
            return
        total = self.totals.get(op)
        if total is None:
            super().emit_op(op)
            return
        assert isinstance(op, ReduceOp)
        self.b.at(op)
        start = self.values[total.lhs]
        self.define(
            total.result, self.accumulate(op, [start.at(p) for p in self.points(self.over[op.result])])
        )

    def scalar(self, op: Operation) -> None:
        instructions = hardware_instructions(op)
        if instructions is None:
            super().scalar(op)
            return
        values = [self.values[operand] for operand in instructions.operands]
        self.define(
            op.results[0],
            [
                instructions.emit(self.b, [value.at(point) for value in values])
                for point in self.points(self.over[op.results[0]])
            ],
        )

    def fence_writes(self) -> None:
        """Where hardware reads or writes by another way than threads do, these say before that they have."""
        if self.needs_fences:
            fence(self.b)

    def barrier(self) -> None:
        self.fence_writes()
        self.b.emit_void("call void @llvm.nvvm.barrier0()")

    def copy(self, op: CopyOp) -> None:
        if not self.is_bulk(op):
            super().copy(op)
            return
        box, (*slot, _, _) = op.box, op.target_map.data
        key = (op.source, box.sizes, box.extents, is_rounded(self.launch, op.target))
        name = self.maps.setdefault(key, f"%m{len(self.maps)}")
        start = self.start_of(op.target, slot)
        first = [linear_value(self.b, Address(i.terms, i.constant), self.positions) for i in box.first]
        self.start_copy(box, f"ptr {name}", start, [(total, constant) for total, constant, _ in first])

    def start_copy(self, box: Box, map: str, start: str, first: Sequence[tuple[str, int]]) -> None:
        assert self.bulk is not None
        self.bulk.copy(box, map, start, first)

    def transfer(self, op: CopyOp, rounds: Sequence[dict[str, Position]]) -> None:
        if not op.is_async or op.by_threads != op.by:
            super().transfer(op, rounds)
            return
        for positions in rounds:
            self.positions.update(positions)
            self.copy_async(op)

    def copier(self, op: CopyOp) -> str:
        order = lane_order(op, self.launch.threads)
        return self.thread if order is None else order.emit(self.b, self.thread)

    def copy_async(self, op: CopyOp) -> None:
        """Copies with `cp.async`: 16 bytes bypass the first-level cache; out of bounds it writes zeros."""
        source, inside = self.copy_source(op)
        target = self.in_space(self.copy_target(op).at(0), SHARED_SPACE)
        origin = self.in_space(source.at(0), GLOBAL_SPACE)
        size = op.by * source.type.bytes
        cache = "cg" if size == VECTOR_BYTES else "ca"
        arguments, mode = f"ptr addrspace(3) {target}, ptr addrspace(1) {origin}", ""
        if inside != "true":
            read = self.b.emit(f"select i1 {inside}, i32 {size}, i32 0")
            arguments, mode = f"{arguments}, i32 {read}", ".s"
        self.b.emit_void(f"call void @llvm.nvvm.cp.async.{cache}.shared.global.{size}{mode}({arguments})")

    def in_space(self, pointer: str, space: int) -> str:
        return self.b.emit(f"addrspacecast ptr {pointer} to ptr addrspace({space})")

    def commit(self) -> None:
        if self.has_async or self.bulk is None:
            self.b.emit_void("call void @llvm.nvvm.cp.async.commit.group()")
        if self.bulk is not None:
            self.bulk.commit()

    def wait(self, op: WaitOp) -> None:
        if self.has_async or self.bulk is None:
            self.b.emit_void(f"call void @llvm.nvvm.cp.async.wait.group(i32 {op.pending.data})")
        if self.bulk is not None:
            self.bulk.wait(op.pending.data)

    def wait_products(self, op: WaitProductsOp) -> None:
        if self.products:
            pending = op.pending.data * min(product.commits for product in self.products.values())
            assembly(self.b, warpgroups.WAIT.format(pending), "", "")

    def accumulate(self, op: ReduceOp, start: Sequence[str] | None = None) -> list[str]:
        sums = super().accumulate(op, start)
        is_sum = any(p.product.is_async and async_sum(p.product) is op for p in self.products.values())
        return warpgroups.settled(self.b, sums) if is_sum else sums

    def accumulate_part(self, op: ReduceOp, results: dict[tuple[int, ...], str]) -> None:
        product = self.products.get(op)
        if product is None:
            super().accumulate_part(op, results)
            return
        sums = list(results.values())
        if product.left is not None:
            for step in range(product.steps):
                self.beside(op, product, step)
            left = self.describe(product.left, product.groups)
            sums = warpgroups.multiply(self.b, product, left, self.describe(product.right, 1), sums)
        elif product.product.is_async:
            sums = self.add_step_by_step(op, product, sums)
        else:
            lefts = [r for step in range(product.steps) for r in self.left_of_step(op, product, step)]
            sums = warpgroups.multiply(self.b, product, lefts, self.describe(product.right, 1), sums)
        results.update(zip(results, sums, strict=True))

    def beside(self, op: ReduceOp, product: WarpgroupProduct, step: int) -> None:
        """Emits what a step has beside its product and the operands of that in shared memory."""
        self.positions[op.space.names[0]] = Position(None, step)
        described = [m.load for m in (product.left, product.right) if m is not None]
        self.emit_ops(inner for inner in op.body.block.ops if inner not in (*described, product.product))

    def add_step_by_step(self, op: ReduceOp, product: WarpgroupProduct, sums: list[str]) -> list[str]:
        """The sums after async products, whose left operand threads load for each step."""
        right = self.describe(product.right, 1)
        for step in range(product.steps):
            assembly(self.b, warpgroups.WAIT.format(product.steps - 1), "", "")
            left = self.left_of_step(op, product, step)
            sums = warpgroups.multiply_registers(self.b, product, left, right, step, sums)
        return sums

    def left_of_step(self, op: ReduceOp, product: WarpgroupProduct, step: int) -> list[str]:
        """The registers of a thread, `i32`, for the left operand of a step."""
        self.beside(op, product, step)
        mma, b = product.product, self.b
        lefts, _, _ = mma.places(self.fixed)
        elements = [self.values[mma.left].at(point) for point in lefts]
        pack = mma.fragments.pack
        return [register_of(b, mma.left.type, elements[k : k + pack]) for k in range(0, len(elements), pack)]

    def describe(self, matrix: Matrix, groups: int) -> str:
        """The description of an operand of a warpgroup, an `i64`; of several, each has its own part."""
        b, start = self.b, self.start_of(matrix.array, matrix.load.indices.data[:-2])
        if groups > 1:
            group = b.emit(f"zext i32 {b.emit(f'lshr i32 {self.thread}, {GROUP.bit_length() - 1}')} to i64")
            start = b.emit(f"add i64 {start}, {b.emit(f'mul i64 {group}, {matrix.part_bytes}')}")
        return described(b, matrix, start)

    def start_of(self, array: SSAValue, slot: Sequence[Linear]) -> str:
        """The address in shared memory, an `i64`, of a matrix, or of that in a slot of a ring."""
        b = self.b
        pointer = self.in_space(self.pointers[array], SHARED_SPACE)
        start = b.emit(f"ptrtoint ptr addrspace(3) {pointer} to i64")
        address, found = self.place(array, (*slot, Linear(), Linear()))
        if found:
            rows, columns = memref_shape(array)[-2:]
            moved = b.emit(f"mul i64 {found[SLOT].value}, {rows * columns * element_bytes(array)}")
            return b.emit(f"add i64 {start}, {moved}")
        if address.constant:
            return b.emit(f"add i64 {start}, {address.constant * element_bytes(array)}")
        return start

    def load(self, op: LoadOp) -> None:
        over = self.over[op.result]
        address, slot = self.place(op.node, op.indices.data)
        found = None if is_swizzled(op.node) else matrices(self.launch, op, address, over)
        if found is None or self.fixed:
            super().load(op)
            return
        starts = [p for p in self.points(over) if found.pair is None or p[found.pair] == 0]
        offsets = [self.offset(address, point) for point in starts]
        count = next(n for n in (4, 2, 1) if len(starts) % n == 0)
        type, names = value_type(op.result.type), list[str]()
        for k in range(0, len(offsets), count):
            row, start = lanes_of_rows(self.b, self.thread, [o - offsets[k] for o in offsets[k : k + count]])
            own = {**slot, ROW: Found(row, 0), MATRIX: Found(start, 0)}
            places = Address((*found.address.terms, (MATRIX, 1)), found.address.constant)
            access = self.element(op.node, self.pointers[op.node], places, own)
            for register in load_matrices(self.b, access.at(offsets[k]), count, found.is_transposed):
                names += self.elements(register, type)
        self.define(op.result, names)

    def where(self, op: WhereOp) -> None:
        """Runs the body for four tiles of a row at a time where bounds hold for all of them or none."""
        tile = four_tiles(self.launch, op)
        if tile is None or self.bounded_registers(op) != (tile,):
            super().where(op)
            return
        for first in range(0, self.sizes[tile], ACROSS):
            self.positions[tile] = Position(None, first)
            self.in_bounds(op.where.data, partial(self.of_four, op, tile, first))
        self.positions[tile] = Position(None, 0)

    def of_four(self, op: WhereOp, tile: str, first: int) -> None:
        for value in range(first, first + ACROSS):
            self.at({tile: value}, partial(self.emit_ops, op.body.block.ops))

    def store(self, op: StoreOp) -> None:
        found = quad_store(self.launch, op, self.stored_over(op))
        if found is None or found.pair in self.fixed:
            super().store(op)
            return
        access = self.element(op.node, self.pointers[op.node], found.pieces, {})
        for point in self.points(found.over):
            if point[found.pair] == 0:
                words = self.quads.setdefault((op, found.quad(point)), [])
                value = self.values[op.value]
                pair = [value.at({**point, found.pair: k}) for k in range(2)]
                words.append(word_of(self.b, value.type, pair))
                if found.is_last(point):
                    own = transposed(self.b, self.thread, words, partial(shuffled, self.b))
                    piece = piece_of(self.b, value.type, own)
                    access.store_whole(piece, COLUMNS, self.offset(found.pieces, point))

    def elements(self, register: str, type: ValueType) -> list[str]:
        """The elements, one or two, in a register of 32 bits."""
        if type.bytes == REGISTER_BYTES:
            return [self.b.emit(f"bitcast i32 {register} to {type.text}")]
        pair = self.b.emit(f"bitcast i32 {register} to <2 x {type.text}>")
        return [self.b.emit(f"extractelement <2 x {type.text}> {pair}, i64 {k}") for k in range(2)]

    def multiply_fragments(self, op: MmaOp, sums: Sequence[str]) -> list[str]:
        b, type, over = self.b, op.left.type, self.over[op.result]
        left, right, pack = self.values[op.left], self.values[op.right], op.fragments.pack
        found = {key(over, point): value for point, value in zip(self.points(over), sums, strict=True)}
        known: dict[tuple[str, ...], str] = {}

        def registers(elements: list[str]) -> list[str]:
            """The 32-bit registers of an operand, each made once."""
            parts = [tuple(elements[k : k + pack]) for k in range(0, len(elements), pack)]
            for part in parts:
                if part not in known:
                    known[part] = operand(b, type, part)
            return [known[part] for part in parts]

        own = (op.rows.data, op.columns.data)
        for point in points([name for name in over if name not in own], self.sizes):
            lefts, rights, results = op.places(point)
            operands = [*registers([left.at(p) for p in lefts]), *registers([right.at(p) for p in rights])]
            keys = [key(over, p) for p in results]
            products = multiply(b, type, operands, [found[k] for k in keys])
            found.update(zip(keys, products, strict=True))
        return list(found.values())

    def combine(self, op: CombineOp) -> None:
        how, source = block_reduction(self.launch, op.across.data), self.values[op.value]
        names: list[str] = []
        for point in self.points(self.over[op.result]):
            value = source.at(point)
            for mask in how.masks:
                other = exchanged(self.b, value, mask, source.type)
                value = combine(self.b, op.accum.data, value, other, source.type)
            names.append(self.gather(op, value, source.type) if how.through_memory else value)
        self.define(op.result, names)

    def gather(self, op: CombineOp, value: str, type: ValueType) -> str:
        """Accumulates the values of threads of several warps, in order, through shared memory."""
        assert op.scratch is not None
        b, how, array = self.b, block_reduction(self.launch, op.across.data), self.pointers[op.scratch]
        thread = b.emit(f"zext i32 {self.thread} to i64")
        place = b.emit(f"getelementptr {type.element}, ptr {array}, i64 {thread}")
        b.emit_void(f"store {type.element} {value}, ptr {place}")
        self.barrier()

        def load(number: str) -> str:
            place = b.emit(f"getelementptr {type.element}, ptr {array}, i64 {number}")
            return b.emit(f"load {type.element}, ptr {place}")

        total = gathered(b, thread, how, op.accum.data, type, load)
        self.barrier()
        return total
