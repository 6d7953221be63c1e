"""A GPU of NumPy: runs the blocks of a kernel of PTX, with jumps, barriers and asynchronous copies.

Threads that are at the same instruction go on together; of others those that are furthest from the end are
first, so that they meet again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from support.ptx import async_copies, bulk_copies, roles, warps
from support.ptx.arithmetic import TYPES, compared, converted, elementwise, funnel_shifted, high_product
from support.ptx.async_copies import Copy
from support.ptx.bulk_copies import Mbarrier
from support.ptx.memory import WARP, Counts, Global, Shared, bank_turns, elements_of, sectors
from support.ptx.order import distances
from support.ptx.text import Address, Function, Instruction, Operand
from support.ptx.warpgroups import Products, fence, run

from ocannl.dialects.kernel.gpu import MOST_SHARED_BYTES

Array: TypeAlias = NDArray[Any]

# Threads that run at a time, in whole blocks.
AT_A_TIME = 8192
WIDTHS = {"%p": "pred", "%rs": "u16", "%h": "u16", "%r": "u32", "%f": "u32", "%rd": "u64", "%fd": "u64"}


def launch(
    function: Function,
    blocks: int,
    threads: int,
    dynamic_bytes: int,
    arguments: Sequence[int],
    memory: Global,
    counts: Counts | None = None,
    apart: bool = False,
) -> None:
    """Runs a kernel. With `apart`, each warp runs until it has to wait, the last one first."""
    given = dict(zip(function.parameters, arguments, strict=True))
    most = max(1, AT_A_TIME // threads)
    with np.errstate(all="ignore"):
        for first in range(0, blocks, most):
            numbers = range(first, min(first + most, blocks))
            Machine(function, numbers, blocks, threads, dynamic_bytes, given, memory, counts, apart).run()


class Machine:
    """Some blocks of a kernel.

    Attributes:
        registers: by name, an element a thread; never changed in place.
        active: the threads that the instruction at hand is for.
        place: the number of the next instruction of each thread; that of none at the end.
        waits: which threads are at a barrier; `barriers` and `awaited` say at which, and for how many it is.
        held_registers: how many each thread may have.
        held: which threads wait for a phase of an mbarrier; that is by its place in shared memory.
    """

    def __init__(
        self,
        function: Function,
        blocks: range,
        grid: int,
        threads: int,
        dynamic_bytes: int,
        arguments: Mapping[str, int],
        memory: Global,
        counts: Counts | None,
        apart: bool,
    ) -> None:
        self.function, self.memory, self.counts, self.threads = function, memory, counts, threads
        self.count = len(blocks) * threads
        thread = np.arange(self.count, dtype=np.uint32)
        self.lanes = thread % threads
        self.warps = self.lanes // WARP if apart else np.zeros(self.count, np.uint32)
        sizes = {"%ntid.x": threads, "%nctaid.x": grid}
        self.registers: dict[str, Array] = {
            "%tid.x": self.lanes,
            "%ctaid.x": thread // threads + np.uint32(blocks[0]),
            **{name: np.full(self.count, size, np.uint32) for name, size in sizes.items()},
        }
        self.numbers: dict[str, int] = dict(arguments)
        shared_bytes = self.place_arrays(dynamic_bytes)
        is_noted = any(op.name in ("wgmma", "mbarrier") for op in function.instructions)
        self.shared = Shared(shared_bytes, len(blocks), threads, is_noted)
        self.everyone = np.arange(self.count)
        self.active = self.everyone
        self.place = np.zeros(self.count, np.int64)
        self.waits, self.held = np.zeros((2, self.count), bool)
        self.barriers, self.awaited = np.zeros((2, self.count), np.int64)
        self.held_registers = np.full(self.count, roles.granted(threads))
        self.mbarriers: dict[int, Mbarrier] = {}
        self.groups = np.zeros(self.count, np.int64)
        self.copies: list[Copy] = []
        self.products: Products | None = None
        self.starts = {0, *function.labels.values()}
        self.distances = distances(function)

    def place_arrays(self, dynamic_bytes: int) -> int:
        """Gives addresses to shared arrays, a dynamic one last; returns how many bytes they take."""
        place = 0
        for name, (size, alignment) in sorted(self.function.shared.items(), key=lambda item: item[1][0] == 0):
            place = -(-place // alignment) * alignment
            self.numbers[name] = place
            place += -(-(size or dynamic_bytes) // 16) * 16
        assert place <= MOST_SHARED_BYTES, "a block has more shared memory than there is"
        return place

    # Control.

    def run(self) -> None:
        end = len(self.function.instructions)
        while True:
            ready = ~self.waits & ~self.held & (self.place < end)
            if not np.any(ready):
                if not np.any(self.waits):
                    assert not np.any(self.held), "threads wait for a phase that does not end"
                    assert not any(m.flights for m in self.mbarriers.values()), "nobody waits for a copy"
                    roles.check_registers(self)
                    return
                roles.open_barriers(self)
                continue
            ready &= self.warps == self.warps[ready].max()
            places = self.place[ready]
            at = int(places[np.argmax(self.distances[places])])
            here = np.flatnonzero(ready & (self.place == at))
            self.active = self.everyone if len(here) == self.count else here
            self.run_from(at)

    def run_from(self, at: int) -> None:
        """Runs instructions up to one that others may reach in another way."""
        instructions, end = self.function.instructions, len(self.function.instructions)
        while True:
            op = instructions[at]
            at += 1
            if op.name == "bra":
                self.branch(op, at)
                return
            if op.name in ("ret", "exit"):
                self.place[self.active] = end
                return
            if op.name in ("bar", "barrier") and "warp" not in op.modes:
                self.place[self.active] = at
                roles.wait_at_barrier(self, op)
                return
            if op.guard is not None:
                self.guarded(op)
            elif op.modes[:1] == ["try_wait"]:
                self.hold(bulk_copies.waits_for(self, op), at - 1)
                if not len(self.active):
                    return
            else:
                self.step(op)
            if at in self.starts:
                self.place[self.active] = at
                return

    def hold(self, chosen: Array, at: int) -> None:
        """Lets some of the active threads try an instruction again later."""
        if np.any(chosen):
            self.place[self.active[chosen]], self.held[self.active[chosen]] = at, True
            self.active = self.active[~chosen]

    def guarded(self, op: Instruction) -> None:
        """An instruction without a result, in the threads in which its predicate holds."""
        assert op.guard is not None
        active = self.active
        self.active = active[self.value(op.guard, "pred") != op.is_negated]
        if len(self.active):
            assert op.name in ("mbarrier", "cp"), op.text
            self.step(op)
        self.active = active

    def branch(self, op: Instruction, following: int) -> None:
        (label,) = op.operands
        self.place[self.active] = following
        taken = self.active
        if op.guard is not None:
            taken = taken[self.value(op.guard, "pred") != op.is_negated]
        self.place[taken] = self.function.labels[str(label)]

    def step(self, op: Instruction) -> None:
        method = METHODS.get(op.name)
        if method is not None:
            method(self, op)
            return
        type, (target, *operands) = op.modes[-1], op.operands
        values = [self.value(operand, type) for operand in operands]
        self.define(target, elementwise(op.name, *values, flushes="ftz" in op.modes))

    def funnel(self, op: Instruction) -> None:
        to, how, type = op.modes
        assert how == "wrap"
        target, *operands = op.operands
        low, high, count = (self.value(operand, type) for operand in operands)
        self.define(target, funnel_shifted(low, high, count, to))

    def call(self, op: Instruction) -> None:
        """Runs a function in the active threads, as a machine of its own."""
        result, name, *given = (str(operand).strip("()") for operand in op.operands)
        inner, callee = copy.copy(self), self.function.calls[name]
        inner.function, inner.starts = callee, {0, *callee.labels.values()}
        inner.distances = distances(callee)
        values = [self.registers[place][self.active] for place in given]
        inner.registers = dict(zip(callee.parameters, values, strict=True))
        inner.count, inner.counts = len(self.active), None
        inner.active = inner.everyone = np.arange(inner.count)
        inner.place = np.zeros(inner.count, np.int64)
        inner.waits, inner.held, inner.warps = np.zeros((3, inner.count), bool)
        inner.held_registers = np.zeros(0)
        inner.run()
        self.define(result, inner.registers[str(callee.result)])

    # Operands.

    def value(self, operand: Operand, type: str) -> Array:
        """An operand in each active thread."""
        dtype = TYPES[type]
        if isinstance(operand, str) and operand not in self.registers:
            operand = self.numbers[operand]
        if isinstance(operand, int):
            bits = 8 * dtype.itemsize
            unsigned = np.array(operand & (1 << bits) - 1, f"u{dtype.itemsize}")
            found = unsigned.astype(bool) if type == "pred" else unsigned.view(dtype)
            return np.full(len(self.active), found)
        assert isinstance(operand, str)
        found = self.registers[operand]
        if self.active is not self.everyone:
            found = found[self.active]
        if found.dtype.itemsize != dtype.itemsize:
            found = found.astype(f"u{dtype.itemsize}")
        return found.view(dtype)

    def define(self, target: Operand, value: Array) -> None:
        assert isinstance(target, str)
        width = TYPES[WIDTHS[target.rstrip("0123456789")]] if target[0] == "%" else value.dtype
        if value.dtype.itemsize != width.itemsize:
            value = value.astype(f"{'i' if value.dtype.kind == 'i' else 'u'}{width.itemsize}")
        value = value.view(width)
        if self.active is self.everyone:
            self.registers[target] = value
            return
        whole = self.registers.get(target)
        whole = np.zeros(self.count, width) if whole is None else whole.copy()
        whole[self.active] = value
        self.registers[target] = whole

    def address(self, operand: Operand, type: str = "b64") -> Array:
        """In as many bits as the type has."""
        assert isinstance(operand, Address)
        offset = self.value(operand.offset, type)
        return (self.value(operand.base, type) + offset).astype(np.int64)

    # Scalars.

    def move(self, op: Instruction) -> None:
        target, source = op.operands
        if isinstance(target, tuple):
            size = TYPES[op.modes[-1]].itemsize // len(target)
            bits = self.value(source, op.modes[-1])
            for k, part in enumerate(target):
                self.define(part, (bits >> np.array(8 * size * k, bits.dtype)).astype(f"u{size}"))
        elif isinstance(source, tuple):
            dtype = TYPES[op.modes[-1]]
            bits = 8 * dtype.itemsize // len(source)
            parts = [self.value(part, f"u{bits}").astype(dtype) for part in source]
            shifted = [part << np.array(bits * k, dtype) for k, part in enumerate(parts)]
            self.define(target, np.bitwise_or.reduce(shifted))
        else:
            self.define(target, self.value(source, op.modes[-1]))

    def convert(self, op: Instruction) -> None:
        target, source, *others = op.operands
        values = [self.value(operand, op.modes[-1]) for operand in (source, *others)]
        modes = [mode.removesuffix("x2") for mode in op.modes[:-1]]
        done = [converted(modes, value) for value in values]
        if len(done) == 2:
            high, low = (part.view(np.uint16).astype(np.uint32) for part in done)
            done = [high << np.uint32(16) | low]
        self.define(target, done[0])

    def multiply(self, op: Instruction) -> None:
        """`mul` and `mad`, of floats and of halves of the bits of integers."""
        type = op.modes[-1]
        target, x, y, *added = op.operands
        first, second = self.value(x, type), self.value(y, type)
        if "wide" in op.modes:
            type = f"{type[0]}{2 * int(type[1:])}"
            first, second = first.astype(TYPES[type]), second.astype(TYPES[type])
        product = high_product(first, second) if "hi" in op.modes else first * second
        self.define(target, product + self.value(added[0], type) if added else product)

    def compare(self, op: Instruction) -> None:
        target, x, y, *other = op.operands
        found = compared(op.modes[0], self.value(x, op.modes[-1]), self.value(y, op.modes[-1]))
        if other:
            combine = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[op.modes[1]]
            found = combine(found, self.value(other[0], "pred"))
        self.define(target, found)

    def select(self, op: Instruction) -> None:
        target, x, y, which = op.operands
        type = op.modes[-1]
        self.define(target, np.where(self.value(which, "pred"), self.value(x, type), self.value(y, type)))

    def extreme(self, op: Instruction) -> None:
        """Without the mode `NaN` the other operand is the result."""
        target, *operands = op.operands
        x, y = (self.value(operand, op.modes[-1]) for operand in operands)
        names = ("minimum", "maximum") if "NaN" in op.modes else ("fmin", "fmax")
        self.define(target, getattr(np, names[op.name == "max"])(x, y))

    def keep(self, op: Instruction) -> None:
        """Addresses of global and of shared memory are told apart by the instructions that use them."""
        target, source = op.operands
        self.define(target, self.value(source, op.modes[-1]))

    # Memory.

    def load(self, op: Instruction) -> None:
        target, source = op.operands
        targets = target if isinstance(target, tuple) else (target,)
        type, space = op.modes[-1], op.modes[0]
        size = TYPES[type].itemsize
        if space == "param":
            assert isinstance(source, Address)
            assert not source.offset
            self.define(target, self.value(source.base, type))
            return
        if space == "shared":
            address = self.address(source, "b32")
            self.note_shared(op, address, size * len(targets))
            places = self.shared.places(self.active, address, size * len(targets)) // size
            values = [elements_of(self.shared.bytes, size)[places + k] for k in range(len(targets))]
            self.shared.note(self.active, places * size, size * len(targets), is_read=True)
        else:
            assert space == "global", op.text
            address = self.address(source)
            self.note_global(op, address, size * len(targets))
            values = self.memory.load(address, size, len(targets), "nc" in op.modes)
        for name, value in zip(targets, values, strict=True):
            self.define(name, value.view(TYPES[type]))

    def store(self, op: Instruction) -> None:
        target, source = op.operands
        type, space = op.modes[-1], op.modes[0]
        size = TYPES[type].itemsize
        values = [self.value(v, type) for v in (source if isinstance(source, tuple) else (source,))]
        values = [value.view(f"u{size}") for value in values]
        if space == "shared":
            address = self.address(target, "b32")
            self.note_shared(op, address, size * len(values))
            places = self.shared.places(self.active, address, size * len(values)) // size
            for k, value in enumerate(values):
                elements_of(self.shared.bytes, size)[places + k] = value
            self.shared.note(self.active, places * size, size * len(values))
        elif space == "param":
            assert isinstance(target, Address)
            self.define(target.base, values[0])
        else:
            assert space == "global", op.text
            address = self.address(target)
            self.note_global(op, address, size * len(values))
            self.memory.store(address, values, size)

    def note_shared(self, op: Instruction, address: Array, size: int) -> None:
        """Counts what the first block needs."""
        if self.counts is not None and len(first := np.flatnonzero(self.active < self.threads)):
            cost, found = self.counts.shared[op], bank_turns(self.active[first], address[first], size)
            cost.taken, cost.least = cost.taken + found.taken, cost.least + found.least

    def note_global(self, op: Instruction, address: Array, size: int) -> None:
        if self.counts is not None and len(first := np.flatnonzero(self.active < self.threads)):
            cost, found = self.counts.sectors[op], sectors(self.active[first], address[first], size)
            cost.taken, cost.least = cost.taken + found.taken, cost.least + found.least


METHODS: dict[str, Callable[[Machine, Instruction], None]] = {
    "mov": Machine.move,
    "cvt": Machine.convert,
    "cvta": Machine.keep,
    "mul": Machine.multiply,
    "mad": Machine.multiply,
    "setp": Machine.compare,
    "selp": Machine.select,
    "min": Machine.extreme,
    "max": Machine.extreme,
    "cp": async_copies.run,
    "ld": Machine.load,
    "st": Machine.store,
    "shfl": warps.shuffle,
    "call": Machine.call,
    "shf": Machine.funnel,
    "ldmatrix": warps.load_matrices,
    "mma": warps.multiply_matrices,
    "wgmma": run,
    "fence": fence,
    "mbarrier": bulk_copies.run,
    "bar": warps.meet,
    "setmaxnreg": roles.set_registers,
}
