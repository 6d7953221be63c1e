"""Stores of products of 16 bits in pieces of 16 bytes: the four threads that have a row exchange columns.

Of eight neighbours in a row, each of four threads has two, and so of those of the next tiles. By two rounds
of exchanges a thread has all eight of one tile of four, so that a warp stores 32 neighbours of 8 rows:
whole sectors, in place of halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation

from ocannl.dialects.index.addresses import Address, flatten
from ocannl.dialects.index.memref import is_swizzled, loaded_type
from ocannl.dialects.kernel import WhereOp
from ocannl.dialects.kernel.gpu import HALF_BYTES, WARP
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.kernel.mma import ACROSS, COLUMNS
from ocannl.dialects.loops import StoreOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.kernels.registers import Point, Variables, is_aligned, key
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.types import ValueType, value_type, vector

Shuffle = Callable[[str, int], str]


@dataclass(frozen=True)
class QuadStore:
    """A store whose `lane`, the last variable of the block, counts pairs of a row's neighbours, and whose
    register variables `tile` and `pair` count eights of them, and both of a pair; `over` are all of these.
    """

    lane: str
    tile: str
    pair: str
    over: Variables
    address: Address

    def quad(self, point: Point) -> tuple[int, ...]:
        """The four tiles that a point is in, and its other variables."""
        others = tuple(name for name in self.over if name not in (self.tile, self.pair))
        return (point[self.tile] // ACROSS, *key(others, point))

    def is_last(self, point: Point) -> bool:
        return point[self.tile] % ACROSS == ACROSS - 1

    @property
    def pieces(self) -> Address:
        """The address of the eight neighbours that a thread stores, at the last of four tiles."""
        terms = tuple((n, COLUMNS if n == self.lane else c) for n, c in self.address.terms)
        return Address(terms, self.address.constant - (ACROSS - 1) * COLUMNS)


def quad_store(launch: LaunchOp, op: StoreOp, over: Variables) -> QuadStore | None:
    """How four threads may store together what is stored everywhere, if its columns are those of products."""
    if (
        not is_for_warps(launch, op.parent_op())
        or op.positions
        or is_swizzled(op.node)
        or not is_aligned(op.node)
    ):
        return None
    if value_type(loaded_type(op.node)).bytes != HALF_BYTES or launch.threads % WARP or not over:
        return None
    lane, lanes = launch.block.data[-1]
    address, sizes, pair = flatten(op.node, op.indices.data), dict(launch.registers.data), over[-1]
    tile = next(
        (name for name in over if address.stride(name) == COLUMNS and sizes[name] % ACROSS == 0), None
    )
    if (
        tile is None
        or lanes != ACROSS
        or sizes[pair] != 2
        or address.stride(pair) != 1
        or address.stride(lane) != 2
    ):
        return None
    rest = [c for name, c in address.terms if name not in (lane, pair)]
    if any(step % COLUMNS for step in (*rest, address.constant)):
        return None
    return QuadStore(lane, tile, pair, over, address)


def is_for_warps(launch: LaunchOp, parent: Operation | None) -> bool:
    """Whether all threads of a warp do what an operation has inside, for four tiles or for none."""
    if not isinstance(parent, WhereOp):
        return parent is launch
    return parent.parent_op() is launch and four_tiles(launch, parent) is not None


def four_tiles(launch: LaunchOp, op: WhereOp) -> str | None:
    """The register variable that counts eights of columns and is alone in a bound of whole fours of them."""
    lanes, sizes = launch.block.names, dict(launch.registers.data)
    if len(op.where.data) != 1:
        return None
    ((index, below),) = ((bound.index, bound.below) for bound in op.where.data)
    names = [name for name, _ in index.terms if name in sizes]
    if len(names) != 1 or any(name in lanes for name, _ in index.terms):
        return None
    rest = [c for name, c in index.terms if name != names[0]]
    step, (tile,) = ACROSS * COLUMNS, names
    is_whole = not any(number % step for number in (*rest, index.constant, below))
    return tile if is_whole and dict(index.terms)[tile] == COLUMNS and sizes[tile] % ACROSS == 0 else None


def transposed(b: FunctionBuilder, lane: str, words: Sequence[str], exchange: Shuffle) -> list[str]:
    """Of four words of each of four threads, `i32`, those with the thread's number."""
    words = list(words)
    for mask in (1, 2):
        bit = b.emit(f"and i32 {lane}, {mask}")
        is_set = b.emit(f"icmp ne i32 {bit}, 0")
        for low in range(ACROSS):
            if low & mask:
                continue
            high = low | mask
            sent = b.emit(f"select i1 {is_set}, i32 {words[low]}, i32 {words[high]}")
            found = exchange(sent, mask)
            words[low], words[high] = (
                b.emit(f"select i1 {is_set}, i32 {found}, i32 {words[low]}"),
                b.emit(f"select i1 {is_set}, i32 {words[high]}, i32 {found}"),
            )
    return words


def word_of(b: FunctionBuilder, type: ValueType, pair: Sequence[str]) -> str:
    """Two numbers of 16 bits as an `i32`."""
    own, found = vector(type, 2).text, "poison"
    for k, name in enumerate(pair):
        found = b.emit(f"insertelement {own} {found}, {type.element} {name}, i64 {k}")
    return b.emit(f"bitcast {own} {found} to i32")


def piece_of(b: FunctionBuilder, type: ValueType, words: Sequence[str]) -> str:
    """Four words as a vector of eight numbers."""
    found = "poison"
    for k, word in enumerate(words):
        found = b.emit(f"insertelement <{ACROSS} x i32> {found}, i32 {word}, i64 {k}")
    return b.emit(f"bitcast <{ACROSS} x i32> {found} to {vector(type, COLUMNS).text}")
