"""The shared arrays of a kernel that runs the nests of a group for one block after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import SSAValue

from ocannl.dialects.index.linear import Linear, Map, MapAttr
from ocannl.dialects.index.memref import element_bytes, element_type, memref_shape
from ocannl.dialects.kernel import CopyOp
from ocannl.dialects.kernel.gpu import VECTOR_BYTES
from ocannl.dialects.kernel.launch import SharedOp
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, StoreOp
from ocannl.dialects.loops.values import address_of
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.pipelining import whole
from ocannl.passes.analysis.nests import operations

# The variables of copies of tiles, outermost first.
TILE_ROW, TILE_COLUMN = "tile_row", "tile_column"
# Rows of scores are padded, so that four of them lie in different banks.
PADDING_BYTES = 32


@dataclass
class Tile:
    """A part of a node in shared memory, as rows and columns of a matrix."""

    array: SharedOp
    copy: CopyOp


@dataclass
class BlockArrays:
    """Arrays in place of the nodes of a group, and of the parts of others that its products read.

    Attributes:
        most: the bytes that they may take.
        arrays: all of them.
        tiles: those of operands, by node and index map.
    """

    most: int
    arrays: list[SharedOp] = field(default_factory=list[SharedOp])
    tiles: dict[tuple[SSAValue, Map], Tile] = field(default_factory=dict[tuple[SSAValue, Map], Tile])

    @property
    def bytes(self) -> int:
        return sum(array.bytes for array in self.arrays)

    def replace_nodes(self, group: GroupOp) -> None:
        """Puts arrays in place of the nodes of a group; those that are not needed at the same time share
        one.
        """
        nests = list(group.nests)
        ends: dict[SharedOp, int] = {}
        for node in sorted(group.nodes, key=lambda node: first_use(nests, node.result)):
            start = first_use(nests, node.result)
            *rows, columns = memref_shape(node.result)
            padding = PADDING_BYTES // element_bytes(node.result) if rows else 0
            type = MemRefType(element_type(node.result), [*rows, columns + padding])
            free = (array for array, end in ends.items() if end < start and array.result.type == type)
            array = next(free, None)
            if array is None:
                array = SharedOp(type)
                self.arrays.append(array)
            ends[array] = last_use(nests, node.result)
            node.result.replace_all_uses_with(array.result)

    def tile(self, load: LoadOp, side: tuple[str, int], deep: tuple[str, int]) -> SharedOp | None:
        """An array with what a load reads along two variables, which it then loads from; None where there is
        no room.
        """
        outer, inner = sorted((side, deep), key=lambda variable: -abs(address_of(load).stride(variable[0])))
        places = {outer[0]: Linear.var(TILE_ROW), inner[0]: Linear.var(TILE_COLUMN)}
        source = tuple(index.substitute(places) for index in load.indices.data)
        key = (load.node, source)
        if key not in self.tiles:
            made = make_tile(load.node, source, (outer[1], inner[1]))
            if made is None or self.bytes + made.array.bytes > self.most:
                return None
            self.arrays.append(made.array)
            self.tiles[key] = made
        array = self.tiles[key].array
        load.operands[0] = array.result
        load.properties["indices"] = MapAttr((Linear.var(outer[0]), Linear.var(inner[0])))
        return array


def make_tile(node: SSAValue, source: Map, sizes: tuple[int, int]) -> Tile | None:
    """A tile of a node, and its copy: padded, so that threads read neighbouring rows from different banks."""
    type, (rows, columns) = element_type(node), sizes
    if not isinstance(type, FixedBitwidthType):
        return None
    array = SharedOp(MemRefType(type, [rows, columns + VECTOR_BYTES // element_bytes(node)]))
    target = (Linear.var(TILE_ROW), Linear.var(TILE_COLUMN))
    space = ((TILE_ROW, rows), (TILE_COLUMN, columns))
    return Tile(array, whole((node, source), (array.result, target), space, (), True))


def uses(nests: Sequence[NestOp], node: SSAValue) -> list[int]:
    """The numbers of the nests that touch a node."""
    return [
        number
        for number, nest in enumerate(nests)
        if any(isinstance(op, LoadOp | StoreOp) and op.node is node for op in operations(nest.body.block))
    ]


def first_use(nests: Sequence[NestOp], node: SSAValue) -> int:
    return min(uses(nests, node), default=len(nests))


def last_use(nests: Sequence[NestOp], node: SSAValue) -> int:
    return max(uses(nests, node), default=-1)
