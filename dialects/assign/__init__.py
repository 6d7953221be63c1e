"""The `assign` dialect: a routine as a sequence of accumulating assignments to named tensor nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from ocannl.dialects.assign.collective import CollectiveBase
from ocannl.dialects.assign.in_flight import check_in_flight
from ocannl.dialects.assign.node import NodeOp, check_writable
from ocannl.dialects.assign.repeat import RepeatBase
from ocannl.dialects.assign.unwritten import Access, check_written
from ocannl.dialects.index.bounds import Bound, extremes_within
from ocannl.dialects.index.dependences import check_own_reads
from ocannl.dialects.index.images import covers
from ocannl.dialects.index.linear import (
    POSITION,
    Linear,
    Map,
    MapAttr,
    SpaceAttr,
    has_position,
    map_text,
    only_index,
    parse_linear,
    parse_map,
    parse_optional_map,
    parse_space,
    space_text,
)
from ocannl.dialects.index.memref import is_ring, memref_shape
from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    UnaryOp,
    fill,
    given,
    operation_definition,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.routine import IndicesAttr, RoutineCommentOp, RoutineOp, static_ranges
from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.dialects.scalar.combination import (
    Combination,
    TermAttr,
    check_term,
    parse_combination,
    print_combination,
)
from ocannl.dialects.scalar.precisions import is_float
from ocannl.dialects.scalar.streams import Stream, StreamAttr, parse_stream, print_stream


class IndexNumberOp(OwnOperation):
    """Base of `assign.embed` and `loops.index`, the value of an index expression as a number."""

    indices = prop_def(MapAttr)
    result = result_def()

    def __init__(self, index: Linear, type: Attribute) -> None:
        Operation.__init__(self, properties={"indices": MapAttr((index,))}, result_types=[type])

    @property
    def index(self) -> Linear:
        return self.indices.data[0]

    def print(self, printer: Printer) -> None:
        print_parts(printer, f" {self.index} : ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser):
        index = parse_linear(parser)
        parser.parse_punctuation(":")
        return cls(index, parser.parse_type())


@operation_definition
class EmbedOp(IndexNumberOp):
    """The value of static indices as a number: `assign.embed 2*step_n + 1 : f32`."""

    name = "assign.embed"

    def verify_(self) -> None:
        check_names(self, only_index(self.indices.data).names, {})


@operation_definition
class AccumOp(OwnOperation):
    """`lhs[f(p)] = accum(lhs[f(p)], term(rhs...))` at every point of a space; `:` resets the left side first.

    Without an accumulation each point is set; with `:` the cells that no point reaches become zero. In
    `%m[at$0, d] by (%ids[b]) = %v[b, d]` values are positions of the left side: points run in turn, and where
    one is not a position nothing is written.
    """

    name = "assign.accum"
    lhs = operand_def(MemRefType)
    inputs = var_operand_def()
    accum = opt_prop_def(StringAttr)
    reset = opt_prop_def(UnitAttr)
    term = prop_def(TermAttr)
    lhs_map = prop_def(MapAttr)
    rhs_maps = prop_def(ArrayAttr[MapAttr])
    id_maps = opt_prop_def(ArrayAttr[MapAttr])
    space = prop_def(SpaceAttr)

    def __init__(
        self,
        lhs: SSAValue,
        lhs_map: Sequence[Linear],
        combination: Combination,
        space: Sequence[tuple[str, int]],
        accum: str | None = None,
        reset: bool = True,
        ids: Sequence[tuple[SSAValue, Map]] = (),
    ) -> None:
        properties = given(
            accum=None if accum is None else StringAttr(accum),
            reset=UnitAttr() if reset else None,
            term=TermAttr(combination.term),
            lhs_map=MapAttr(tuple(lhs_map)),
            rhs_maps=ArrayAttr(MapAttr(tuple(m)) for m in combination.maps),
            id_maps=ArrayAttr([MapAttr(m) for _, m in ids]) if ids else None,
            space=SpaceAttr(tuple(space)),
        )
        fill(self, [lhs, *combination.operands, *(value for value, _ in ids)], properties)

    @property
    def rhs(self) -> tuple[SSAValue, ...]:
        """The operands of the term."""
        return tuple(self.inputs[: len(self.rhs_maps.data)])

    @property
    def ids(self) -> list[tuple[SSAValue, Map]]:
        """The values that are positions of the left side, with their index maps."""
        maps = () if self.id_maps is None else self.id_maps.data
        values = self.inputs[len(self.rhs_maps.data) :]
        return [(value, m.data) for value, m in zip(values, maps, strict=True)]

    @property
    def maps(self) -> tuple[tuple[Linear, ...], ...]:
        """The index map of each operand of the term."""
        return tuple(m.data for m in self.rhs_maps.data)

    @property
    def combination(self) -> Combination:
        return Combination(self.term.data, self.rhs, self.maps)

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.lhs, map_text(self.lhs_map.data))
        print_ids(printer, [value for value, _ in self.ids], [indices for _, indices in self.ids])
        printer.print_string(" :" if self.reset is not None else " ")
        printer.print_string(f"{self.accum.data}= " if self.accum is not None else "= ")
        print_combination(printer, self.term.data, self.rhs, self.maps)
        printer.print_string(f" over {space_text(self.space.data)}")

    @classmethod
    def parse(cls, parser: Parser) -> AccumOp:
        lhs = parse_defined_operand(parser)
        lhs_map = parse_map(parser)
        start = parser.pos
        ids, maps = parse_ids(parser)
        if len(maps) != len(ids):
            parser.raise_error("each operand in `by` has an index map", start, parser.pos)
        reset = parser.parse_optional_punctuation(":") is not None
        accum = parser.parse_optional_identifier()
        parser.parse_punctuation("=")
        combination = parse_combination(parser)
        parser.parse_keyword("over")
        space = parse_space(parser)
        return cls(lhs, lhs_map, combination, space, accum, reset, [*zip(ids, maps, strict=True)])

    def verify_(self) -> None:
        check_writable(self.lhs)
        if self.accum is not None:
            check_accumulator(self.accum.data)
        maps = len(self.maps) + (0 if self.id_maps is None else len(self.id_maps.data))
        if maps != len(self.inputs):
            raise VerifyException(f"{maps} index maps for {len(self.inputs)} operands")
        if self.ids and self.reset is not None:
            raise VerifyException("what is written at positions is a part of a node, which is not reset")
        check_term(self.term.data, len(self.rhs))
        sizes = dict(self.space.data)
        check_space(self, sizes)
        at = axes_at_ids(self.lhs_map.data, memref_shape(self.lhs), len(self.ids))
        check_access(self, self.lhs, self.lhs_map.data, sizes | at)
        for value, indices in self.ids:
            check_access(self, value, indices, sizes)
        for value, indices in zip(self.rhs, self.maps, strict=True):
            if not isinstance(value.owner, NodeOp | EmbedOp):
                raise VerifyException("an operand is a node or an embedded index")
            check_access(self, value, indices, sizes)
            if value == self.lhs:
                self._verify_own_read(indices, sizes)
        if self.accum is None:
            check_set_once([*self.lhs_map.data, *(index for _, m in self.ids for index in m)], sizes)

    def _verify_own_read(self, indices: Map, sizes: Mapping[str, int]) -> None:
        stored = self.lhs_map.data
        check_own_reads(stored, indices, sizes)
        own = {name: sizes[name] for index in stored for name in index.names if name in sizes}
        if self.reset is not None and not covers(stored, own, memref_shape(self.lhs)):
            raise VerifyException("the node is reset before it is read: read a copy of it")


def axes_at_ids(indices: Map, sizes: Sequence[int], ids: int) -> dict[str, int]:
    """The sizes of the axes whose positions are ids, by the names of these. Raises `VerifyException` unless
    each of the ids is the position of one axis.
    """
    pairs = [(index, size) for index, size in zip(indices, sizes, strict=False) if has_position(index)]
    found = {index.variable or "": size for index, size in pairs}
    if len(pairs) != ids or found.keys() != {f"{POSITION}{k}" for k in range(ids)}:
        raise VerifyException(f"each of the {ids} operands in `by` is the position of one axis")
    return {f"{POSITION}{k}": found[f"{POSITION}{k}"] for k in range(ids)}


def print_ids(printer: Printer, ids: Sequence[SSAValue], maps: Sequence[Map] | None) -> None:
    """` by (%ids[b])`, before index maps are known ` by (%ids)`."""
    if ids:
        printer.print_string(" by (")
        own = [""] * len(ids) if maps is None else map(map_text, maps)
        printer.print_list(zip(ids, own, strict=True), lambda pair: print_parts(printer, *pair))
        printer.print_string(")")


def parse_ids(parser: Parser) -> tuple[list[SSAValue], list[Map]]:
    """Reads what `print_ids` prints: values, and as many index maps or none."""
    if parser.parse_optional_keyword("by") is None:
        return [], []
    start = parser.pos
    pairs = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: (parse_defined_operand(parser), parse_optional_map(parser))
    )
    maps = [indices for _, indices in pairs if indices is not None]
    if maps and len(maps) != len(pairs):
        parser.raise_error("all operands in `by` have index maps, or none has one", start, parser.pos)
    return [value for value, _ in pairs], maps


@operation_definition
class RangeOp(UnaryOp):
    """Fills a node of one axis with the positions 0, 1, 2, ...: `assign.range %r`."""

    name = "assign.range"
    lhs = operand_def(MemRefType)

    def verify_(self) -> None:
        check_writable(self.lhs)
        if len(memref_shape(self.lhs)) != 1:
            raise VerifyException("a range has one axis")


@operation_definition
class UniformOp(OwnOperation):
    """Fills a node with random numbers in [0, 1): `assign.uniform %u "dropout#1" at %step`."""

    name = "assign.uniform"
    lhs = operand_def(MemRefType)
    stream = prop_def(StreamAttr)
    counter = operand_def()

    def __init__(self, lhs: SSAValue, stream: Stream, counter: SSAValue) -> None:
        super().__init__(operands=[lhs, counter], properties={"stream": StreamAttr(stream)})

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.lhs, " ")
        print_stream(printer, self.stream.data)
        print_parts(printer, " at ", self.counter)

    @classmethod
    def parse(cls, parser: Parser) -> UniformOp:
        lhs, stream = parse_defined_operand(parser), parse_stream(parser)
        parser.parse_keyword("at")
        return cls(lhs, stream, parse_defined_operand(parser))

    def verify_(self) -> None:
        check_writable(self.lhs)
        assert isa(self.lhs.type, MemRefType[Attribute])
        element = self.lhs.type.get_element_type()
        if not is_float(element):
            raise VerifyException(f"random numbers are floats, found {element}")
        if not isinstance(self.counter.owner, NodeOp | EmbedOp):
            raise VerifyException("a counter is a node or an embedded index")
        if any(size != 1 for size in memref_shape(self.counter)):
            raise VerifyException(f"a counter is one number, found {self.counter.type}")


@operation_definition
class RepeatOp(RepeatBase):
    """Runs a routine before this one in the module, its body, at each value of an index:
    `assign.repeat @step.lstm t = 64 while %going ("h" = %h, "x" = %x)`.
    """

    name = "assign.repeat"

    def stored_by(self, op: Operation) -> SSAValue | None:
        return stored_by(op)


def stored_by(op: Operation) -> SSAValue | None:
    """The node that an assignment writes."""
    return op.lhs if isinstance(op, AccumOp | RangeOp | UniformOp) else None


def accesses_of(op: Operation) -> Iterator[Access]:
    """The accesses of an assignment, in the order in which they happen."""
    around = {name: size for name, size in (static_ranges(op) or {}).items() if size is not None}
    if isinstance(op, AccumOp):
        space = dict(op.space.data)
        read = [*zip(op.rhs, op.maps, strict=True), *op.ids]
        if op.accum is not None and op.reset is None:
            read.append((op.lhs, op.lhs_map.data))
        yield from (Access(op, node, False, indices, space, around) for node, indices in read)
        stored = op.lhs_map.data if op.reset is None else None
        yield Access(op, op.lhs, True, stored, space, around)
    elif isinstance(op, RangeOp | UniformOp):
        if isinstance(op, UniformOp):
            yield Access(op, op.counter, writes=False)
        yield Access(op, op.lhs, writes=True)


@operation_definition
class CollectiveOp(CollectiveBase):
    """Bytes that ranks exchange: `assign.collective all_gather %whole from %part over "data"`."""

    name = "assign.collective"


@operation_definition
class CommentOp(RoutineCommentOp):
    name = "assign.comment"


PARTS = (NodeOp, EmbedOp, AccumOp, RangeOp, UniformOp, RepeatOp, CollectiveOp, CommentOp)


@operation_definition
class AssignRoutineOp(RoutineOp):
    """A routine of assignments, run in order."""

    name = "assign.routine"

    def verify_(self) -> None:
        super().verify_()
        check_labels(self)
        for op in self.body.block.ops:
            if not isinstance(op, PARTS):
                raise VerifyException(f"`{op.name}` is no part of an assign.routine")
        if self.mesh is not None:
            check_in_flight([*self.body.block.ops], stored_by)

    def verify_steps(self) -> None:
        check_written(self, accesses_of)


def check_labels(routine: RoutineOp) -> None:
    """Checks that the labels of nodes, by which they are known outside, are unique."""
    labels: set[str] = set()
    for op in routine.walk():
        if isinstance(op, NodeOp):
            if op.label.data in labels:
                raise VerifyException(f"two nodes are called {op.label.data!r}")
            labels.add(op.label.data)


def check_accumulator(name: str) -> None:
    entry = SCALAR_OPS.get(name)
    if entry is None or entry.neutral is None:
        accumulators = ", ".join(n for n, op in SCALAR_OPS.items() if op.neutral is not None)
        raise VerifyException(f"`{name}` is not an accumulation, expected one of {accumulators}")


def check_names(op: IRDLOperation, names: Sequence[str], sizes: Mapping[str, int]) -> None:
    """Checks that every name in an index is an iteration variable or a static index of the routine."""
    ranges = static_ranges(op) or {}
    for name in names:
        if name not in sizes and name not in ranges:
            raise VerifyException(f"`{name}` is neither an iteration variable nor a static index here")


def check_space(op: IRDLOperation, names: Iterable[str]) -> None:
    """Checks that no iteration variable has the name of a static index."""
    ranges = static_ranges(op) or {}
    for name in names:
        if name in ranges:
            raise VerifyException(f"`{name}` is a static index of the routine, and no iteration variable")


def check_set_once(indices: Sequence[Linear], sizes: Mapping[str, int]) -> None:
    """Checks that, without an accumulation, every variable is in the index: no element is set twice."""
    used = {name for index in indices for name in index.names}
    for name, size in sizes.items():
        if size > 1 and name not in used:
            raise VerifyException(f"a reduction over `{name}` needs an accumulation, such as `add=`")


def check_access(
    op: IRDLOperation,
    value: SSAValue,
    indices: Sequence[Linear],
    sizes: Mapping[str, int],
    bounds: Sequence[Bound] = (),
) -> None:
    """Checks indices of an array: one for each axis, names known, and in bounds where `bounds` hold."""
    shape = memref_shape(value)
    if len(indices) != len(shape):
        raise VerifyException(f"{len(indices)} indices for {len(shape)} axes")
    known = {n: r for n, r in (static_ranges(op) or {}).items() if r is not None} | dict(sizes)
    for axis, (index, size) in enumerate(zip(indices, shape, strict=True)):
        check_names(op, index.names, sizes)
        extremes = extremes_within(index, known, bounds)
        if extremes is not None and axis == 0 and is_ring(value):
            extremes = min(extremes[0], 0), 0
        if extremes is not None and not (extremes[0] >= 0 and extremes[1] < size) and 0 not in sizes.values():
            low, high = extremes
            raise VerifyException(
                f"index {index} runs from {low} to {high}, outside axis {axis} of size {size}"
            )


ASSIGN = Dialect("assign", [*PARTS, AssignRoutineOp], [MapAttr, SpaceAttr, TermAttr, IndicesAttr, StreamAttr])
