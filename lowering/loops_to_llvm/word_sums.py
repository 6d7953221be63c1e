"""Emits sums of the products of four neighbouring bytes: vectors of words, each of which has four of them.

Sources: Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual" (VNNI, PMADDWD, PMADDUBSW);
Arm, "Arm Architecture Reference Manual" (DotProd, I8MM).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.ir import Operation

from ocannl.dialects.loops import ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.instructions import call, neighbours
from ocannl.lowering.llvm.types import ValueType, vector
from ocannl.lowering.loops_to_llvm.tile import Lanes, Tile
from ocannl.lowering.loops_to_llvm.tile_emitter import RowAccess, TileEmitter
from ocannl.passes.analysis.patterns.word_products import DEPTH, WordFactor, WordProduct, byte_scale

I32, I16, I8 = ValueType("i32", "i32", 4), ValueType("i16", "i16", 2), ValueType("i8", "i8", 1)
# A word of four times 128, which turns numbers with a sign into ones without.
BIASES = "splat (i32 -2139062144)"
STEPS: dict[type[Operation], str] = {arith.AndIOp: "and", arith.ShRSIOp: "lshr", arith.ShRUIOp: "lshr"}
PMADDWD = {4: "x86.sse2.pmadd.wd", 8: "x86.avx2.pmadd.wd", 16: "x86.avx512.pmaddw.d.512"}
PSIGN = {4: "x86.ssse3.psign.b.128", 8: "x86.avx2.psign.b"}
# The bytes of the vectors that are splat from general registers by one instruction.
FROM_REGISTERS = 64
PMADDUBSW = {4: "x86.ssse3.pmadd.ub.sw.128", 8: "x86.avx2.pmadd.ub.sw", 16: "x86.avx512.pmaddubs.w.512"}


@dataclass(frozen=True, slots=True)
class Words:
    """A vector of words of bytes, which may be read with a sign, without one, or as is the same; with
    `opposites` all of them have one of 8 bits.
    """

    value: str
    type: ValueType
    signed: bool
    unsigned: bool
    opposites: bool = False


def emit_word_sum(nest: TileEmitter, op: ReduceOp, product: WordProduct, has_rows: bool) -> Tile | None:
    """The sums of a reduction on the rows and lanes of a tile; None where these are not words in memory."""
    before = nest.positions.get(product.variable)
    nest.positions[product.variable] = Position(None, 0)
    accesses = [nest.access(factor.load) for factor in product.factors]
    width = nest.lanes.width
    if width < DEPTH or any(not is_of_words(access) for access in accesses):
        if before is None:
            del nest.positions[product.variable]
        return None
    # What is the same in all rows is read, and corrected for, once.
    order = sorted(zip(product.factors, accesses, strict=True), key=lambda found: not found[1].has_rows)
    same = {factor: words(nest, factor, access, 0) for factor, access in order if not access.has_rows}
    as_pairs = stay_pairs(nest, op, product)
    rows: list[str] = []
    for row in range(nest.height if has_rows else 1):
        each = [same.get(factor) or words(nest, factor, access, row) for factor, access in order]
        rows.append(pairs(nest.b, *each) if as_pairs else in_pieces(nest.b, each, width))
    for factor, access in order:
        nest.fetch_ahead(factor.load, access, nest.height if access.has_rows else 1, DEPTH)
    return Tile(rows, vector(I16, 2 * width) if as_pairs else vector(I32, width), nest.b.depth)


def stay_pairs(nest: TileEmitter, op: ReduceOp, product: WordProduct) -> bool:
    """Whether sums of pairs are added up when they are multiplied with a byte that is the same in all lanes:
    both in one instruction.
    """
    scale, width = byte_scale(op), nest.lanes.width
    if scale is None or scale.positions or nest.placement.addresses[scale].stride(nest.lane_variable):
        return False
    fit = [factor.signed or factor.greatest < 128 for factor in product.factors]
    has_small = any(not factor.signed and factor.greatest < 128 for factor in product.factors)
    is_whole = width in PMADDUBSW and width <= nest.b.machine.vector_bytes // 4
    return all(fit) and has_small and is_whole and "pmaddubsw" in nest.b.machine.word_products


def scaled(nest: TileEmitter, sums: Tile, scale: Tile, is_signed: bool) -> Tile:
    """Sums of pairs, added up and multiplied with a byte."""
    b, type = nest.b, sums.type
    result, name = vector(I32, type.width // 2), PMADDWD[type.width // 2]
    b.declarations.add(f"declare {result.text} @llvm.{name}({type.text}, {type.text})")
    splats = [splat_byte(b, row, type, is_signed) for row in scale.rows]
    rows: list[str] = []
    for row in range(max(len(sums.rows), len(splats))):
        pair, factor = nest.row(sums, row), splats[row % len(splats)]
        rows.append(b.emit(f"call {result.text} @llvm.{name}({type.text} {pair}, {type.text} {factor})"))
    return Tile(rows, result, b.depth)


def splat_byte(b: FunctionBuilder, number: str, type: ValueType, is_signed: bool) -> str:
    """A byte, widened to 32 bits, in all lanes of 16. AVX2 splats bytes from memory, and numbers of 16 bits
    from general registers by way of vectors only.
    """
    if b.machine.vector_bytes >= FROM_REGISTERS:
        return b.splat(b.emit(f"trunc i32 {number} to i16"), I16, type.width, b.depth)
    bytes = vector(I8, 2 * type.width)
    both = b.splat(b.emit(f"trunc i32 {number} to i8"), I8, bytes.width, b.depth)
    twice = b.emit(f"bitcast {bytes.text} {both} to {type.text}")
    return b.emit(f"{'ashr' if is_signed else 'lshr'} {type.text} {twice}, splat (i16 8)")


def is_of_words(access: RowAccess) -> bool:
    return not access.rows[0].scattered and access.lane_stride in (0, DEPTH)


def words(nest: TileEmitter, factor: WordFactor, access: RowAccess, row: int) -> Words:
    """The words of a factor in a row."""
    b, width, active = nest.b, nest.lanes.width, nest.lanes.active
    bytes = vector(I8, DEPTH * width)
    offset = row * access.row_stride if access.has_rows else 0
    if access.lane_stride:
        value = access.row(0).load_vector(offset, 1, Lanes(DEPTH * width, DEPTH * active))
    else:
        word = access.row(0).load_vector(offset, 1, Lanes(DEPTH, DEPTH))
        word = b.emit(f"bitcast <{DEPTH} x i8> {word} to i32")
        value = b.emit(
            f"bitcast {vector(I32, width).text} {b.splat(word, I32, width, b.depth)} to {bytes.text}"
        )
    for step, number in factor.steps:
        if step is arith.MaxSIOp:
            b.declarations.add(f"declare {bytes.text} @llvm.smax.{bytes.mangled}({bytes.text}, {bytes.text})")
            value = call(b, "smax", [value, f"splat (i8 {number})"], bytes)
        else:
            value = b.emit(f"{STEPS[step]} {bytes.text} {value}, splat (i8 {number})")
    value = b.emit(f"bitcast {bytes.text} {value} to {vector(I32, width).text}")
    is_small = factor.greatest < 128
    signed = factor.signed or is_small
    return Words(value, vector(I32, width), signed, not factor.signed, factor.has_opposites)


def in_pieces(b: FunctionBuilder, factors: Sequence[Words], width: int) -> str:
    """The sums of words as wide as registers of vectors, or wider."""
    most = b.machine.vector_bytes // 4
    if width <= most:
        return products(b, *factors)
    half = width // 2
    sums = [
        in_pieces(
            b,
            [
                replace(f, value=neighbours(b, f.value, f.type, start, half), type=vector(I32, half))
                for f in factors
            ],
            half,
        )
        for start in (0, half)
    ]
    both, places = vector(I32, half).text, ", ".join(f"i32 {lane}" for lane in range(width))
    return b.emit(f"shufflevector {both} {sums[0]}, {both} {sums[1]}, <{width} x i32> <{places}>")


def products(b: FunctionBuilder, x: Words, y: Words) -> str:
    """The sums of the products of two vectors of words, by the shortest way that the target has."""
    zero, names = "zeroinitializer", b.machine.word_products
    if "vpdpbusd" in names:
        for one, other in ((x, y), (y, x)):
            if one.unsigned and other.signed:
                return dot(b, "vpdpbusd", zero, one, other)
        if x.signed and y.signed:
            return biased(b, x, y)
    for name, first, second in (("sdot", True, True), ("udot", False, False), ("usdot", False, True)):
        for one, other in ((x, y), (y, x)):
            if name in names and has_sign(one, first) and has_sign(other, second):
                return dot(b, name, zero, one, other)
    for one, other in ((x, y), (y, x)):
        if "pmaddubsw" in names and one.signed and one.unsigned and other.signed:
            return in_pairs(b, one, other)
        if "pmaddubsw" in names and one.opposites and other.signed and other.type.width in PSIGN:
            return in_pairs(b, *with_signs(b, one, other))
    return in_halves(b, x, y) if "pmaddwd" in names else in_bytes(b, x, y)


def has_sign(words: Words, signed: bool) -> bool:
    return words.signed if signed else words.unsigned


def biased(b: FunctionBuilder, x: Words, y: Words) -> str:
    """Numbers with a sign, of which 128 more have none: begins with 128 times the others less."""
    type = x.type
    biases = once(
        b,
        f"call {type.text} @llvm.{declared(b, 'vpdpbusd', type)}("
        + ", ".join(f"{type.text} {value}" for value in ("zeroinitializer", BIASES, y.value))
        + ")",
    )
    start = once(b, f"sub {type.text} zeroinitializer, {biases}")
    moved = Words(b.emit(f"xor {type.text} {x.value}, {BIASES}"), type, False, True)
    return dot(b, "vpdpbusd", start, moved, y)


def once(b: FunctionBuilder, instruction: str) -> str:
    """The value of an instruction, which is emitted once in the innermost loop."""
    return b.emit_at(b.depth, instruction)


def declared(b: FunctionBuilder, name: str, type: ValueType) -> str:
    """The name of an intrinsic on words, which is declared."""
    if name == "vpdpbusd":
        full, of = f"x86.avx512.vpdpbusd.{32 * type.width}", type.text
    else:
        full, of = f"aarch64.neon.{name}.v4i32.v16i8", "<16 x i8>"
    b.declarations.add(f"declare {type.text} @llvm.{full}({type.text}, {of}, {of})")
    return full


def dot(b: FunctionBuilder, name: str, start: str, x: Words, y: Words) -> str:
    """An instruction that adds to `start` the products of each word."""
    type, values = x.type, [x.value, y.value]
    full, of = declared(b, name, type), type.text
    if name != "vpdpbusd":
        of = "<16 x i8>"
        values = [once(b, f"bitcast {type.text} {value} to {of}") for value in values]
    return b.emit(f"call {type.text} @llvm.{full}({type.text} {start}, {of} {values[0]}, {of} {values[1]})")


def with_signs(b: FunctionBuilder, x: Words, y: Words) -> tuple[Words, Words]:
    """`y` without its signs, up to 128, and `x` with those too, which has opposites: the products stay."""
    type, bytes, name = x.type, vector(I8, DEPTH * x.type.width), PSIGN[x.type.width]
    b.declarations.add(f"declare {bytes.text} @llvm.abs.{bytes.mangled}({bytes.text}, i1)")
    b.declarations.add(f"declare {bytes.text} @llvm.{name}({bytes.text}, {bytes.text})")
    left, right = (once(b, f"bitcast {type.text} {each.value} to {bytes.text}") for each in (x, y))
    positive = once(b, f"call {bytes.text} @llvm.abs.{bytes.mangled}({bytes.text} {right}, i1 false)")
    signed = once(b, f"call {bytes.text} @llvm.{name}({bytes.text} {left}, {bytes.text} {right})")
    y_words, x_words = (b.emit(f"bitcast {bytes.text} {each} to {type.text}") for each in (positive, signed))
    return Words(y_words, type, False, True), Words(x_words, type, True, False)


def in_pairs(b: FunctionBuilder, x: Words, y: Words) -> str:
    """By products of bytes, of which two add up to 16 bits: none overflows, as `x` is from 0 to 127, or to
    128 where `y` is from -127 on.
    """
    type, halves, words = x.type, vector(I16, 2 * x.type.width).text, PMADDWD[x.type.width]
    b.declarations.add(f"declare {type.text} @llvm.{words}({halves}, {halves})")
    return b.emit(f"call {type.text} @llvm.{words}({halves} {pairs(b, x, y)}, {halves} splat (i16 1))")


def pairs(b: FunctionBuilder, x: Words, y: Words) -> str:
    """The sums of the products of two bytes. Those of one factor are from 0 to 127, or of `x` to 128."""
    if not x.unsigned or not y.signed:
        x, y = y, x
    bytes, halves, name = (
        vector(I8, DEPTH * x.type.width).text,
        vector(I16, 2 * x.type.width).text,
        PMADDUBSW[x.type.width],
    )
    b.declarations.add(f"declare {halves} @llvm.{name}({bytes}, {bytes})")
    left, right = (once(b, f"bitcast {x.type.text} {each.value} to {bytes}") for each in (x, y))
    return b.emit(f"call {halves} @llvm.{name}({bytes} {left}, {bytes} {right})")


def in_halves(b: FunctionBuilder, x: Words, y: Words) -> str:
    """By products of 16 bits, summed in pairs: the bytes at even places, and those at odd ones."""
    type = x.type
    name, halves = PMADDWD[type.width], vector(I16, 2 * type.width).text
    b.declarations.add(f"declare {type.text} @llvm.{name}({halves}, {halves})")
    sums: list[str] = []
    for is_odd in (False, True):
        left, right = (half(b, words, halves, is_odd) for words in (x, y))
        sums.append(b.emit(f"call {type.text} @llvm.{name}({halves} {left}, {halves} {right})"))
    return b.emit(f"add {type.text} {sums[0]}, {sums[1]}")


def half(b: FunctionBuilder, words: Words, halves: str, is_odd: bool) -> str:
    """The bytes at odd or even places in 16 bits each."""
    value = once(b, f"bitcast {words.type.text} {words.value} to {halves}")
    right = "lshr" if words.unsigned else "ashr"
    if is_odd:
        return once(b, f"{right} {halves} {value}, splat (i16 8)")
    if words.unsigned:
        return once(b, f"and {halves} {value}, splat (i16 255)")
    return once(b, f"ashr {halves} {once(b, f'shl {halves} {value}, splat (i16 8)')}, splat (i16 8)")


def in_bytes(b: FunctionBuilder, x: Words, y: Words) -> str:
    """Byte by byte, each in 32 bits."""
    type, total = x.type, ""
    for place in range(DEPTH):
        left, right = (byte(b, words, place) for words in (x, y))
        product = b.emit(f"mul {type.text} {left}, {right}")
        total = b.emit(f"add {type.text} {total}, {product}") if total else product
    return total


def byte(b: FunctionBuilder, words: Words, place: int) -> str:
    type = words.type.text
    moved = once(b, f"shl {type} {words.value}, splat (i32 {24 - 8 * place})")
    return once(b, f"{'lshr' if words.unsigned else 'ashr'} {type} {moved}, splat (i32 24)")
