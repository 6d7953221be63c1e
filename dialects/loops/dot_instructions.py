"""Instructions that add up products of small numbers: of matrix units, which multiply small matrices, and of
vectors, which multiply groups of neighbours.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import bf16, f16, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.records import dataclass

# The rows of a tile of a matrix unit, the accumulators in each of them, and its groups along the sum.
TILE = 16


@dataclass(frozen=True, slots=True)
class DotInstruction:
    """An instruction for operands of two types, those of rows and of columns.

    Attributes:
        name: the instruction, as assemblers call it.
        features: the features of a processor of which each brings it, as LLVM calls them.
        operands: the element types, and how each is widened: a float, or an integer with or without sign.
        result: the type in which products are added up.
        depth: the neighbours along the sum that each product takes from both operands: those in 32 bits.
        on_tiles: whether it is one of a matrix unit (Intel, "Advanced Matrix Extensions").
        ports: how many a core begins in a cycle, where these are fewer than its vectors of f32.
    """

    name: str
    features: frozenset[str]
    operands: tuple[tuple[Attribute, type[Operation]], tuple[Attribute, type[Operation]]]
    result: Attribute
    depth: int
    on_tiles: bool
    ports: int | None = None


def _instruction(
    name: str, features: str, rows: str, columns: str, *, on_tiles: bool = False, ports: int | None = None
) -> DotInstruction:
    (of_rows, result, depth), (of_columns, _, _) = _NUMBERS[rows], _NUMBERS[columns]
    operands = of_rows, of_columns
    return DotInstruction(name, frozenset(features.split()), operands, result, depth, on_tiles, ports)


# How a number is widened, the type of sums of products, and how many are in 32 bits.
_NUMBERS: dict[str, tuple[tuple[Attribute, type[Operation]], Attribute, int]] = {
    "bf16": ((bf16, arith.ExtFOp), f32, 2),
    "f16": ((f16, arith.ExtFOp), f32, 2),
    "signed": ((i8, arith.ExtSIOp), i32, 4),
    "unsigned": ((i8, arith.ExtUIOp), i32, 4),
}

# The fastest first. Of `vdpbf16ps` a core begins one in a cycle (https://uops.info/table.html): as many as of
# vectors of f32 on Zen 4, and half as many as of these on Intel's server cores.
DOT_INSTRUCTIONS = (
    _instruction("tdpbf16ps", "amx-bf16", "bf16", "bf16", on_tiles=True),
    _instruction("tdpfp16ps", "amx-fp16", "f16", "f16", on_tiles=True),
    _instruction("tdpbssd", "amx-int8", "signed", "signed", on_tiles=True),
    _instruction("tdpbsud", "amx-int8", "signed", "unsigned", on_tiles=True),
    _instruction("tdpbusd", "amx-int8", "unsigned", "signed", on_tiles=True),
    _instruction("tdpbuud", "amx-int8", "unsigned", "unsigned", on_tiles=True),
    _instruction("vdpbf16ps", "avx512bf16", "bf16", "bf16", ports=1),
    _instruction("vpdpbusd", "avx512vnni avxvnni", "unsigned", "signed"),
    _instruction("vpdpbusd", "avx512vnni avxvnni", "signed", "unsigned"),
    _instruction("vpdpbusd", "avx512vnni avxvnni", "signed", "signed"),
    *(
        _instruction("vpmaddwd", "avx2", rows, columns, ports=1)
        for rows in ("signed", "unsigned")
        for columns in ("signed", "unsigned")
    ),
    _instruction("sdot", "dotprod", "signed", "signed"),
    _instruction("udot", "dotprod", "unsigned", "unsigned"),
    _instruction("usdot", "i8mm", "unsigned", "signed"),
    _instruction("usdot", "i8mm", "signed", "unsigned"),
)
DOT_NAMES = tuple(dict.fromkeys(dot.name for dot in DOT_INSTRUCTIONS))
DOT_FEATURES = frozenset[str]().union(*(dot.features for dot in DOT_INSTRUCTIONS))
TILE_FEATURES = frozenset[str]().union(*(dot.features for dot in DOT_INSTRUCTIONS if dot.on_tiles))


def widened(value: SSAValue) -> tuple[Attribute, type[Operation]]:
    """The type of a number before it is widened, and the operation that widens it."""
    op = value.owner
    if isinstance(op, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp):
        return op.input.type, type(op)
    return value.type, Operation


def dot_instructions(rows: SSAValue, columns: SSAValue, result: Attribute) -> list[DotInstruction]:
    """The instructions that add up products of two widened numbers, the fastest first."""
    operands = widened(rows), widened(columns)
    return [dot for dot in DOT_INSTRUCTIONS if (dot.operands, dot.result) == (operands, result)]
