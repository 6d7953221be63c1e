"""The blocks of tiles that run together, and whether a convolution by tiles pays."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ocannl.dialects.index.linear import Linear, Space
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.schedules.divisors import divisors
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.winograd.transforms import OFFSETS, POSITIONS, TERMS

# The terms of a tile, and the products of a tile and a pair of channels without transformations.
SQUARE, DIRECT = TERMS**2, (OFFSETS * POSITIONS) ** 2
WORD = 4
# The cycles to transform a vector of an image, of an output or to it, and of a kernel or to it.
OF_IMAGE, OF_OUTPUT, OF_KERNEL = 36.0, 48.0, 200.0
# Those to load or store a line in the second-level cache, and beyond it.
NEAR_LINE, FAR_LINE = 1.0, 6.0
# The multiplications that are worth it, and the part of the cycles of a plain convolution that it may take.
LEAST_WORK, PAYS = 2**22, 0.75
# The bytes of what is transformed of a block that lives on the stack, and the fewest tiles of a block: of
# rows of a product, and of a sum, which adds to memory for each block.
LARGEST_BLOCK, FEWEST_TILES, FEWEST_SUMMED = 2**18, 8, 32


@dataclass(frozen=True)
class Extents:
    """The sizes of a convolution by tiles: the loops over tiles, and the channels on both sides."""

    tiles: Space
    inner: int
    outer: int
    of_kernel: bool

    @property
    def count(self) -> int:
        return math.prod(size for _, size in self.tiles)

    @property
    def kernel_bytes(self) -> int:
        return SQUARE * WORD * self.inner * self.outer

    @property
    def tile_bytes(self) -> int:
        """The bytes of a tile of image and output, transformed."""
        return SQUARE * WORD * (self.inner + self.outer)

    @property
    def largest_tile(self) -> int:
        return SQUARE * WORD * max(self.inner, self.outer)


def pays(extents: Extents, target: TargetDescription) -> bool:
    """Whether tiles take far fewer cycles than the multiplications of a plain convolution."""
    lanes = target.vector_bytes // WORD
    inner, outer = math.ceil(extents.inner / lanes), math.ceil(extents.outer / lanes)
    pairs = extents.count * extents.inner * extents.outer
    if pairs * DIRECT < LEAST_WORK:
        return False
    transformed = extents.count * (OF_IMAGE * inner + OF_OUTPUT * outer)
    kernel = OF_KERNEL * min(extents.inner * outer, inner * extents.outer)
    rate = lanes * target.fma_ports
    _, _, tiles = best_part(extents, target)
    total = pairs * SQUARE / rate + transformed + kernel + traffic(extents, tiles, target)
    return total <= PAYS * pairs * DIRECT / rate


def traffic(extents: Extents, tiles: int, target: TargetDescription) -> float:
    """The cycles to move what is transformed between caches, in blocks of so many tiles."""
    own, kernel = tiles * extents.tile_bytes, extents.kernel_bytes
    blocks = extents.count / tiles
    line = FAR_LINE if own > target.l2_bytes // 2 else NEAR_LINE
    again = FAR_LINE if kernel > target.l2_bytes // 2 or own > target.l2_bytes // 2 else NEAR_LINE
    moved = 2 * own * blocks * line + (2 if extents.of_kernel else 1) * kernel * blocks * again
    return moved / LINE


@dataclass(frozen=True)
class Blocking:
    """A block of tiles: the loops around it, those in it, and the tile at a point by the loop over tiles."""

    around: Space
    inside: Space
    tile: dict[str, Linear]

    @property
    def count(self) -> int:
        return math.prod(size for _, size in self.around)


def best_blocking(extents: Extents, names: Names, target: TargetDescription) -> Blocking:
    """The blocking with the least traffic."""
    place, size, _ = best_part(extents, target)
    return blocked(extents.tiles, place, size, names)


def best_part(extents: Extents, target: TargetDescription) -> tuple[int, int, int]:
    """The part of a loop over tiles that, with all loops in it, is the block with the least traffic, of those
    that fit on the stack, and all tiles.
    """
    fewest = min(extents.count, FEWEST_SUMMED if extents.of_kernel else FEWEST_TILES)
    fitting = [
        part
        for part in parts_of(extents.tiles)
        if part[-1] == extents.count
        or (part[-1] >= fewest and part[-1] * extents.largest_tile <= LARGEST_BLOCK)
    ]
    return min(fitting, key=lambda part: (traffic(extents, part[-1], target), part[-1]))


def parts_of(tiles: Space) -> Iterator[tuple[int, int, int]]:
    """The blocks of the inner loops and a part of one more: its place, the part, and the tiles of a block."""
    inner = 1
    for place in reversed(range(len(tiles))):
        _, size = tiles[place]
        for part in divisors(size, size):
            if part > 1 or place == len(tiles) - 1 or size == 1:
                yield place, part, inner * part
        inner *= size


def blocked(tiles: Space, place: int, part: int, names: Names) -> Blocking:
    around, inside, tile = list(tiles[:place]), list(tiles[place + 1 :]), dict[str, Linear]()
    for name, _ in tiles:
        tile[name] = Linear.var(name)
    name, size = tiles[place]
    if part == size:
        inside.insert(0, (name, size))
    elif part == 1:
        around.append((name, size))
    else:
        block = names.fresh(f"{name}_block")
        around.append((block, size // part))
        inside.insert(0, (name, part))
        tile[name] = Linear.of({block: part, name: 1})
    return Blocking(tuple(around), tuple(inside), tile)
