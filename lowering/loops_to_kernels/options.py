"""Options of the conversion of nests to kernels: which GPU features, and how much shared memory, they use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import Attribute

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.kernel.gpu import (
    MOST_SHARED_BYTES,
    PORTABLE_SHARED_BYTES,
    STATIC_SHARED_BYTES,
    WARPGROUP_PROCESSORS,
)
from ocannl.dialects.records import dataclass

Types: TypeAlias = Sequence[type[Attribute]]


@dataclass(frozen=True)
class KernelOptions:
    """The default is for a GPU without tensor cores.

    Attributes:
        tensor_types: sums of products of these are for tensor cores.
        tile_bytes: what the tiles of other contractions may take of the shared memory of a block.
        stages: the most stages of a software pipeline: tiles of an operand in shared memory at a time.
        warpgroups: products may have the shape that warpgroups multiply, those of 8 bits, too.
        shared_bytes: what tiles for tensor cores may take of the shared memory of a block.
        roles: warps of their own copy for products of warpgroups, in one block for each of the `processors`.
    """

    tensor_types: Types = ()
    tile_bytes: int = STATIC_SHARED_BYTES
    stages: int = 4
    warpgroups: bool = False
    shared_bytes: int = PORTABLE_SHARED_BYTES
    roles: bool = False
    processors: int = WARPGROUP_PROCESSORS

    def __post_init__(self) -> None:
        """Raises `OcannlError` for tiles and stages that no GPU has room for, or processors that none has."""
        limits = {"tile_bytes": 2**20, "stages": 64, "shared_bytes": MOST_SHARED_BYTES, "processors": 2**16}
        for name, most in limits.items():
            if not 0 < getattr(self, name) <= most:
                raise OcannlError(f"{name} is from 1 to {most}, found {getattr(self, name)}")
