"""`wgmma` of PTX: the four warps of a warpgroup multiply matrices that lie in shared memory, swizzled.

The products of a group are in registers after the wait for it; until then these have no value, and the
operands stay as they are. They are read by another way than threads have, the asynchronous proxy: what
threads wrote is there after their `fence.proxy.async`.

https://docs.nvidia.com/cuda/parallel-thread-execution, "Asynchronous Warpgroup Level Matrix Instructions"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from support.ptx import bulk_copies
from support.ptx.memory import BANK, WARP
from support.ptx.text import Instruction, Operand
from support.ptx.warps import check_whole

if TYPE_CHECKING:
    from support.ptx.machine import Machine

Array: TypeAlias = NDArray[Any]

ELEMENTS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
# Those that may be turned, of the matrices in shared memory.
TURNED = ("f16", "bf16")
# The bits of an f32 that the hardware does not read.
IGNORED = {"tf32": 0x1FFF}
# The bytes of a product along its depth.
GROUP, ROWS, DEEP_BYTES = 4 * WARP, 64, 32
# The bytes of a row of a swizzled matrix, and what is in the top bits of a descriptor of such.
ROW, SWIZZLED = 128, 1
G, T = np.arange(WARP) // 4, np.arange(WARP) % 4
UNDEFINED = np.uint32(0xFFFFFFFF)


@dataclass
class Flight:
    """An instruction of threads that have not all waited for it.

    Attributes:
        group: the number of the group that it belongs to, in each thread.
        read: places in shared memory that it reads, and what was there.
        registers: those that it reads, and what is in them in each thread.
    """

    threads: Array
    group: Array
    read: list[tuple[Array, Array]]
    registers: list[tuple[str, Array]]


@dataclass
class Products:
    """Messages that are on their way.

    Attributes:
        fenced: the threads whose registers are ready for products.
        groups: how many groups each thread has ended.
        flying: by the names of registers, the sums that they will have, an element a thread.
        last: by these names, the last group that adds to them in each thread; -1 if there is none.
    """

    fenced: Array
    groups: Array
    flying: dict[str, Array] = field(default_factory=dict[str, Array])
    last: dict[str, Array] = field(default_factory=dict[str, Array])
    flights: list[Flight] = field(default_factory=list[Flight])


def places_of(descriptor: Array, rows: Array, is_transposed: bool, size: int) -> Array:
    """The addresses in a block of elements of so many bytes: by descriptor, row, and column along the depth.

    Without `is_transposed` elements along the depth are neighbours, else those along the rows.
    """
    start, leading, stride = (
        (descriptor >> np.uint64(at) & np.uint64(0x3FFF)) << np.uint64(4) for at in (0, 16, 32)
    )
    assert np.all(descriptor >> np.uint64(62) == SWIZZLED), "a matrix is not swizzled by 128 bytes"
    assert np.all(descriptor >> np.uint64(49) & np.uint64(7) == 0), "a matrix begins at no multiple of 1024"
    start, leading, stride = (part.astype(np.int64)[:, None, None] for part in (start, leading, stride))
    row, deep = rows[..., :, None], np.arange(DEEP_BYTES // size)
    if is_transposed:
        across = ROW // size
        linear = row // across * leading + deep // 8 * stride + deep % 8 * ROW + row % across * size
    else:
        linear = row // 8 * stride + row % 8 * ROW + deep * size
    address = start + linear
    return address ^ (address >> 7 & 7) << 4


def matrices(
    machine: Machine,
    threads: Array,
    descriptor: Array,
    rows: Array,
    is_transposed: bool,
    type: str,
    read: list[tuple[Array, Array]],
) -> Array:
    """The matrices that descriptors of some threads describe; appends what is read."""
    size = np.dtype(ELEMENTS[type]).itemsize
    places = places_of(descriptor, rows, is_transposed, size)
    assert np.all((places >= 0) & (places + size <= machine.shared.size)), (
        "a matrix is outside of shared memory"
    )
    places = places + machine.shared.block[threads][:, None, None]
    assert not np.any(machine.shared.unfenced[places // BANK]), "a product reads what is not fenced"
    found = machine.shared.bytes.view(f"u{size}")[places // size]
    read.append((places // size, found))
    known = found & ~np.array(IGNORED.get(type, 0), found.dtype)
    return known.view(ELEMENTS[type]).astype(np.float32)


def products_of(machine: Machine) -> Products:
    if machine.products is None:
        machine.products = Products(np.zeros(machine.count, bool), np.zeros(machine.count, np.int64))
    return machine.products


def multiply(machine: Machine, op: Instruction) -> None:
    """`wgmma.mma_async.sync.aligned.m64nNk16.f32.type.type`, of which each warp has 16 rows.

    The depth of TF32 is 8, that of 8 bits 32, and such operands are not turned. Sums start from nothing where
    the first of three factors says so.
    """
    check_whole(machine, op)
    assert machine.threads % GROUP == 0, op.text
    result, left, right, *others = op.operands
    assert isinstance(result, tuple)
    shape, type, other = op.modes[-4], op.modes[-2], op.modes[-1]
    scales, turned = others[:3], others[3:]
    assert scales in ([0, 1, 1], [1, 1, 1]), op.text
    assert len(turned) == (0 if type not in TURNED else 1 if isinstance(left, tuple) else 2), op.text
    left_turned, right_turned = [0, 0, *turned][-2:]
    depth = DEEP_BYTES // np.dtype(ELEMENTS[type]).itemsize
    columns = int(shape.removeprefix(f"m{ROWS}n").removesuffix(f"k{depth}"))
    assert type == other
    assert len(result) == columns // 2
    products, active = products_of(machine), machine.active
    assert np.all(products.fenced[active]), "registers are not fenced before a product"
    firsts = active.reshape(-1, WARP)[:, 0]
    read: list[tuple[Array, Array]] = []
    registers: list[tuple[str, Array]] = []
    if isinstance(left, tuple):
        registers = [(str(name), machine.value(name, "b32")) for name in left]
        x = fragments([found for _, found in registers], type)
    else:
        own = machine.lanes[firsts].astype(np.int64) // WARP % 4 * 16
        rows = own[:, None] + np.arange(16)
        x = matrices(machine, firsts, of_warps(machine, left), rows, bool(left_turned), type, read)
    described = of_warps(machine, right)
    blocks = np.stack([firsts // machine.threads, described.astype(np.int64)], 1)
    _, some, which = np.unique(blocks, axis=0, return_index=True, return_inverse=True)
    rows = np.broadcast_to(np.arange(columns), (len(some), columns))
    w = matrices(machine, firsts[some], described[some], rows, bool(right_turned), type, read)
    products.flights.append(Flight(active, products.groups[active], read, registers))
    total = x @ w[which.reshape(-1)].transpose(0, 2, 1)
    for k, name in enumerate(result):
        part = total[:, G + 8 * (k // 2 % 2), 8 * (k // 4) + 2 * T + k % 2].reshape(-1)
        add(machine, products, str(name), part, starts=scales[0] == 0)


def of_warps(machine: Machine, operand: Operand) -> Array:
    """The descriptor that the threads of each warp have."""
    found = machine.value(operand, "u64").reshape(-1, WARP)
    assert np.all(found == found[:, :1]), "threads of a warp have other matrices"
    return found[:, 0]


def fragments(registers: Sequence[Array], type: str) -> Array:
    """The left operands of warps, of which each thread has four registers: rows vary before the depth, and
    elements of 16 bits share one, neighbours along the depth.
    """
    element = np.dtype(ELEMENTS[type])
    pack, unread = 4 // element.itemsize, np.uint32(IGNORED.get(type, 0))
    assert len(registers) == 4
    found = np.zeros((len(registers[0]) // WARP, 16, 8 * pack), np.float32)
    for k, register in enumerate(registers):
        bits = register.view(np.uint32) & ~unread
        elements = bits.view(element).astype(np.float32).reshape(-1, WARP, pack)
        for part in range(pack):
            found[:, G + 8 * (k % 2), pack * (T + 4 * (k // 2)) + part] = elements[..., part]
    return found


def add(machine: Machine, products: Products, name: str, part: Array, starts: bool) -> None:
    """Adds to registers that are on their way, or else to their values; or starts from zero."""
    active = machine.active
    flying = products.flying.setdefault(name, np.zeros(machine.count, np.float32))
    last = products.last.setdefault(name, np.full(machine.count, -1))
    begins = active[last[active] < 0]
    if starts:
        assert len(begins) == len(active), "a product starts where others are on their way"
        flying[begins] = 0
    else:
        flying[begins] = machine.registers[name].view(np.float32)[begins]
    last[active] = products.groups[active]
    flying[active] += part
    machine.define(name, np.full(len(active), UNDEFINED))


def wait(machine: Machine, op: Instruction) -> None:
    """All products of the active threads are there, but for those of their last groups."""
    (pending,) = op.operands
    assert isinstance(pending, int)
    products, active = products_of(machine), machine.active
    done = np.full(machine.count, -1)
    done[active] = products.groups[active] - pending - 1
    bytes = machine.shared.bytes
    for flight in products.flights:
        is_over = flight.group <= done[flight.threads]
        assert not np.any(is_over) or all(
            np.array_equal(bytes.view(found.dtype)[p], found) for p, found in flight.read
        ), "operands of a product are overwritten before the wait for it"
        for name, found in flight.registers:
            assert np.array_equal(
                machine.registers[name].view(np.uint32)[flight.threads[is_over]], found[is_over]
            ), "a register of a product is overwritten before the wait for it"
        flight.registers = [(name, found[~is_over]) for name, found in flight.registers]
        flight.threads, flight.group = flight.threads[~is_over], flight.group[~is_over]
    products.flights = [flight for flight in products.flights if len(flight.threads)]
    for name, last in products.last.items():
        is_over = (last >= 0) & (last <= done)
        if np.any(is_over):
            machine.define(
                name,
                np.where(is_over, products.flying[name].view(np.uint32), machine.registers[name])[active],
            )
            last[is_over] = -1
    products.fenced[active] = False


def run(machine: Machine, op: Instruction) -> None:
    """Any instruction of warpgroups."""
    match op.modes[0]:
        case "fence":
            products_of(machine).fenced[machine.active] = True
        case "mma_async":
            multiply(machine, op)
        case "wait_group":
            wait(machine, op)
        case _:
            assert op.modes[0] == "commit_group", op.text
            products_of(machine).groups[machine.active] += 1


def fence(machine: Machine, op: Instruction) -> None:
    """`fence.proxy.async`: what the active threads wrote to shared memory is there for products."""
    assert op.modes[:2] == ["proxy", "async"], op.text
    machine.shared.fence(machine.active)
    bulk_copies.fence(machine)
