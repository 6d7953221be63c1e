"""Loads and stores of the rows of a register tile."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.dialects.index.addresses import Address
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.instructions import first_lanes, neighbours, reversed_lanes
from ocannl.lowering.llvm.memory import ElementAccess, Found
from ocannl.lowering.llvm.range_check import RANGE_CHECK, RECORD, text_constant
from ocannl.lowering.llvm.types import ValueType, vector
from ocannl.lowering.loops_to_llvm.tile import Lanes
from ocannl.lowering.loops_to_llvm.transpose import gathered
from ocannl.passes.analysis.costs.cache_lines import LINE
from ocannl.passes.analysis.targets.target import SPACED

# The metadata that marks non-temporal stores.
NONTEMPORAL = "!0 = !{i32 1}"
# Arguments of a prefetch: to read, into all levels of the cache or the second one, data; and to write.
ALL_LEVELS, SECOND_LEVEL, TO_WRITE = "i32 0, i32 3, i32 1", "i32 0, i32 2, i32 1", "i32 1, i32 3, i32 1"


class TileAccess(ElementAccess):
    """Loads and stores along the lanes of a tile.

    `lanes` gives the terms of the address that are vectors of positions found at run time, an `i64` a lane:
    `scattered` are these, with their strides.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        pointer: str,
        address: Address,
        positions: Mapping[str, Position],
        type: ValueType,
        found: Mapping[str, Found],
        lanes: Mapping[str, str],
    ) -> None:
        self.scattered = [(lanes[name], stride) for name, stride in address.terms if name in lanes]
        terms = tuple(term for term in address.terms if term[0] not in lanes)
        super().__init__(b, pointer, Address(terms, address.constant), positions, type, found)
        self.array: str | None = None
        """The array that accesses must be inside of, as arguments of `@inside`."""

    def check(self, array: str, count: int, text: str) -> None:
        """Lets accesses touch harmless memory instead of what is outside of an array of `count` elements; the
        first of these is recorded, with a text about the array.
        """
        name = f'@"text {text.encode().hex()}"'
        self.b.declarations |= {RECORD, RANGE_CHECK, text_constant(name, text)}
        self.array = f"ptr {array}, i64 {self.type.bytes}, i64 {count}, ptr {name}"

    def reach(self, offset: int, touched: int = 1) -> str:
        return self.inside(self.at(offset), touched)

    def inside(self, pointer: str, touched: int) -> str:
        """A pointer through which so many elements may be touched."""
        if self.array is None:
            return pointer
        return self.b.emit(f"call ptr @inside(ptr {pointer}, i64 {touched}, {self.array})")

    def prefetch(
        self, offset: int, lanes: Lanes, how: str = ALL_LEVELS, aligned: int = LINE, *, last: bool = False
    ) -> None:
        """Fetches the cache lines of contiguous lanes that will be read later; they need not exist.

        They begin at a multiple of `aligned` bytes, a divisor of a line's, and may reach into one line more.
        Those with `last` are fetched at the end of the loop's body.
        """
        self.b.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        emit = self.b.emit_last if last else self.b.emit_void
        for start in range(0, lanes.active * self.type.bytes + LINE - aligned, LINE):
            pointer = self.at(offset + min(start // self.type.bytes, lanes.active - 1))
            emit(f"call void @llvm.prefetch.p0(ptr {pointer}, {how})")

    def load_vector(self, offset: int, stride: int, lanes: Lanes) -> str:
        """The elements at `offset`, `offset + stride`, ...; zero in inactive lanes."""
        wide = vector(self.type, lanes.width)
        if self.scattered:
            return self._load_scattered(offset, stride, lanes, wide)
        if stride == -1:
            return self._load_reversed(offset, lanes)
        if 1 < abs(stride) <= SPACED:
            return self._load_spaced(offset, stride, lanes, wide)
        if stride != 1:
            return self._gather(offset, stride, lanes, wide)
        pointer, align = self.reach(offset, lanes.active), self.type.bytes
        if not lanes.masked:
            return self.b.emit(f"load {wide.text}, ptr {pointer}, align {align}")
        mask = f"<{lanes.width} x i1>"
        self.b.declarations.add(
            f"declare {wide.text} @llvm.masked.load.{wide.mangled}.p0(ptr, i32, {mask}, {wide.text})"
        )
        return self.b.emit(
            f"call {wide.text} @llvm.masked.load.{wide.mangled}.p0(ptr {pointer}, i32 {align},"
            f" {mask} {lanes.mask}, {wide.text} zeroinitializer)"
        )

    def _load_reversed(self, offset: int, lanes: Lanes) -> str:
        """The elements at `offset`, `offset - 1`, ...; zero in inactive lanes."""
        part = vector(self.type, lanes.active)
        pointer = self.reach(offset - lanes.active + 1, lanes.active)
        value = self.b.emit(f"load {part.text}, ptr {pointer}, align {self.type.bytes}")
        return reversed_lanes(self.b, value, part, lanes.active, lanes.width)

    def _load_spaced(self, offset: int, stride: int, lanes: Lanes, wide: ValueType) -> str:
        """The elements at `offset`, `offset + stride`, ..., of vectors that have those between them, too;
        zero in inactive lanes.
        """
        apart, count = abs(stride), lanes.active
        first, last = min(0, (count - 1) * stride), (count - 1) * apart
        # The last vector ends with the last element, as what is behind need not exist.
        starts = [min(number * count, last + 1 - count) for number in range(apart)]
        type = vector(self.type, count)
        vectors = [
            self.b.emit(
                f"load {type.text}, ptr {self.reach(offset + first + start, count)}, align {type.bytes}"
            )
            for start in starts
        ]
        elements = [lane * stride - first for lane in range(count)]
        places = [(at // count, at - starts[at // count]) for at in elements]
        (found,) = gathered(self.b, vectors, places, type)
        return found if count == lanes.width else first_lanes(self.b, found, type, lanes.width)

    def _gather(self, offset: int, stride: int, lanes: Lanes, wide: ValueType) -> str:
        value = "zeroinitializer"
        for lane in range(lanes.active):
            element = self.load(offset + lane * stride)
            value = self.b.emit(
                f"insertelement {wide.text} {value}, {self.type.element} {element}, i64 {lane}"
            )
        return value

    def _pointers(self, offset: int, stride: int, lanes: Lanes) -> str:
        """A vector of pointers to elements at positions of their own in each lane."""
        wide = f"<{lanes.width} x i64>"
        steps = ", ".join([f"i64 {lane * stride}" for lane in range(lanes.width)])
        total = f"<{steps}>"
        for value, coefficient in self.scattered:
            scaled = self.b.emit(f"mul {wide} {value}, splat (i64 {coefficient})")
            total = self.b.emit(f"add {wide} {scaled}, {total}")
        base = self.at(offset)
        found = self.b.emit(f"getelementptr {self.type.element}, ptr {base}, {wide} {total}")
        return found if self.array is None else self._inside_each(found, lanes)

    def _inside_each(self, pointers: str, lanes: Lanes) -> str:
        wide = f"<{lanes.width} x ptr>"
        for lane in range(lanes.active):
            pointer = self.inside(self.b.emit(f"extractelement {wide} {pointers}, i64 {lane}"), 1)
            pointers = self.b.emit(f"insertelement {wide} {pointers}, ptr {pointer}, i64 {lane}")
        return pointers

    def _load_scattered(self, offset: int, stride: int, lanes: Lanes, wide: ValueType) -> str:
        pointers, mask = f"<{lanes.width} x ptr>", f"<{lanes.width} x i1>"
        name = f"@llvm.masked.gather.{wide.mangled}.v{lanes.width}p0"
        self.b.declarations.add(f"declare {wide.text} {name}({pointers}, i32, {mask}, {wide.text})")
        return self.b.emit(
            f"call {wide.text} {name}({pointers} {self._pointers(offset, stride, lanes)},"
            f" i32 {self.type.bytes}, {mask} {lanes.mask}, {wide.text} zeroinitializer)"
        )

    def _store_scattered(self, value: str, offset: int, stride: int, lanes: Lanes, wide: ValueType) -> None:
        pointers, mask = f"<{lanes.width} x ptr>", f"<{lanes.width} x i1>"
        name = f"@llvm.masked.scatter.{wide.mangled}.v{lanes.width}p0"
        self.b.declarations.add(f"declare void {name}({wide.text}, {pointers}, i32, {mask})")
        self.b.emit_void(
            f"call void {name}({wide.text} {value}, {pointers} {self._pointers(offset, stride, lanes)},"
            f" i32 {self.type.bytes}, {mask} {lanes.mask})"
        )

    def store_vector(
        self, value: str, offset: int, stride: int, lanes: Lanes, past_caches: bool = False
    ) -> None:
        """Stores the active lanes; with a stride of zero the last of them. Those that go past the caches are
        whole lines.
        """
        wide = vector(self.type, lanes.width)
        if self.scattered:
            self._store_scattered(value, offset, stride, lanes, wide)
            return
        if stride == -1:
            part = vector(self.type, lanes.active)
            value = reversed_lanes(self.b, value, wide, lanes.active, lanes.active)
            pointer = self.reach(offset - lanes.active + 1, lanes.active)
            self.b.emit_void(f"store {part.text} {value}, ptr {pointer}, align {self.type.bytes}")
            return
        if stride != 1:
            self._scatter(value, offset, stride, lanes, wide)
            return
        pointer, align = self.reach(offset, lanes.active), self.type.bytes
        if not lanes.masked:
            if past_caches and lanes.width * align % LINE == 0:
                self.b.declarations.add(NONTEMPORAL)
                self.b.emit_void(f"store {wide.text} {value}, ptr {pointer}, align {LINE}, !nontemporal !0")
            else:
                self.b.emit_void(f"store {wide.text} {value}, ptr {pointer}, align {align}")
            return
        if not self.b.machine.masks:
            # Stores of halves, quarters, ... instead: a masked store takes a core of Zen 3 12 cycles.
            part = neighbours(self.b, value, wide, 0, lanes.active)
            narrow = vector(self.type, lanes.active)
            self.b.emit_void(f"store {narrow.text} {part}, ptr {pointer}, align {align}")
            return
        mask = f"<{lanes.width} x i1>"
        self.b.declarations.add(
            f"declare void @llvm.masked.store.{wide.mangled}.p0({wide.text}, ptr, i32, {mask})"
        )
        self.b.emit_void(
            f"call void @llvm.masked.store.{wide.mangled}.p0({wide.text} {value}, ptr {pointer},"
            f" i32 {align}, {mask} {lanes.mask})"
        )

    def _scatter(self, value: str, offset: int, stride: int, lanes: Lanes, wide: ValueType) -> None:
        for lane in range(lanes.active) if stride else (lanes.active - 1,):
            element = self.b.emit(f"extractelement {wide.text} {value}, i64 {lane}")
            self.store(element, offset + lane * stride)
