"""The scalar operations of a block under construction: loads and stores, with the conversions at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects import arith
from xdsl.dialects.builtin import i8, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ocannl.dialects import assign, loops
from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.index.memref import element_type
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar import TRUTH_VALUES
from ocannl.dialects.scalar.accumulation import ORDERED, accumulate, accumulated_in, neutral_number
from ocannl.dialects.scalar.arith_builder import ArithBuilder, ScalarType
from ocannl.dialects.scalar.precisions import BOOL, computed_in, is_float, widest, work_type
from ocannl.dialects.scalar.term_lowering import TermLowering, constant, converted, resized_float
from ocannl.dialects.scalar.terms import Term
from ocannl.dialects.scalar.types_of_terms import promoted, term_type


def element_of(value: SSAValue) -> Attribute:
    """The element type of a node, or of a static index as a number."""
    return value.type if isinstance(value.owner, assign.EmbedOp) else element_type(value)


@dataclass
class Body:
    """A block under construction, with floats of one type."""

    type: ScalarType
    builder: ArithBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.builder = ArithBuilder(self.type)

    def add(self, op: Operation) -> SSAValue:
        self.builder.ops.append(op)
        return op.results[0]

    def load(self, node: SSAValue, indices: Sequence[Linear], positions: Sequence[SSAValue] = ()) -> SSAValue:
        """An element as it is computed with: floats in the body's type, bytes of truth values as such."""
        value, element = self.add(loops.LoadOp(node, indices, positions)), element_type(node)
        if element == BOOL:
            return converted(self.builder, value, i8, BOOL)
        return resized_float(self.builder, value, self.type) if is_float(element) else value

    def read(
        self, node: SSAValue, indices: Sequence[Linear], type: Attribute, positions: Sequence[SSAValue] = ()
    ) -> SSAValue:
        """An element in a type of the arithmetic."""
        value = self.load(node, indices, positions)
        return converted(self.builder, value, self.source(element_type(node)), type)

    def source(self, element: Attribute) -> Attribute:
        """The type of an element that is loaded."""
        return self.type if is_float(element) else element

    def index(self, index: Linear, type: Attribute) -> SSAValue:
        """The value of an index expression in a type of the arithmetic."""
        own = type if is_float(type) or type in (i32, i64) else i64
        return converted(self.builder, self.add(loops.IndexOp(index, own)), own, type)

    def term(
        self, term: Term, operands: Sequence[SSAValue], maps: Sequence[Map], type: Attribute
    ) -> SSAValue:
        """The value of a term over elements of nodes and static indices, in a type of the arithmetic."""
        elements = [self.source(element_of(v)) for v in operands]
        read = [self.operand(v, m) for v, m in zip(operands, maps, strict=True)]

        def operand(place: int, wanted: Attribute) -> SSAValue:
            value = read[place]
            if isinstance(value, Linear):
                return self.index(value, wanted)
            return converted(self.builder, value, elements[place], wanted)

        return TermLowering(self.builder, elements, operand).value(term, type)

    def operand(self, value: SSAValue, indices: Map) -> SSAValue | Linear:
        """An element, or a static index; that as an integer is left to its uses."""
        if not isinstance(value.owner, assign.EmbedOp):
            return self.load(value, indices)
        index = value.owner.index
        return self.index(index, self.type) if is_float(value.type) else index

    def stored(self, value: SSAValue, source: Attribute, element: Attribute) -> SSAValue:
        """A value of a type of the arithmetic as an element in memory."""
        b = self.builder
        if is_float(element):
            return resized_float(b, converted(b, value, source, self.type), element)
        stored = converted(b, value, source, element)
        return b.convert(arith.ExtUIOp, stored, i8) if element == BOOL else stored

    def write(self, value: SSAValue, source: Attribute, node: SSAValue, indices: Sequence[Linear]) -> None:
        """Stores a value of a type of the arithmetic."""
        self.builder.ops.append(loops.StoreOp(self.stored(value, source, element_type(node)), node, indices))

    def region(self) -> Region:
        return Region(Block(self.builder.ops))


def floats_of(op: assign.AccumOp) -> ScalarType:
    """The type of all floats of an assignment: the widest among the nodes."""
    nodes = [v for v in (op.lhs, *op.rhs) if not isinstance(v.owner, assign.EmbedOp)]
    return computed_in(widest(map(element_type, nodes)))


def common_element(op: assign.AccumOp, body: Body) -> Attribute:
    """The common type of an assignment's term and of the node."""
    natural = term_type(op.term.data, [body.source(element_of(v)) for v in op.rhs])
    common = promoted((natural, body.source(element_type(op.lhs))))
    assert common is not None
    return common


def assigned(op: assign.AccumOp, body: Body) -> SSAValue:
    """The element that an assignment stores: the value of its term."""
    type = work_type(common_element(op, body))
    value = body.term(op.term.data, op.rhs, op.maps, type)
    return body.stored(value, type, element_type(op.lhs))


def accumulated(
    op: assign.AccumOp,
    accum: str,
    body: Body,
    reduced: Space,
    *,
    add: bool,
    positions: Sequence[SSAValue] = (),
) -> SSAValue:
    """The element that an accumulation stores: its term reduced over a space, with `add` accumulated into
    what is there, at positions that are values.
    """
    common = BOOL if accum in TRUTH_VALUES else common_element(op, body)
    type = accumulated_in(accum, common)

    def term(body: Body) -> SSAValue:
        source = common if common == BOOL else type
        return converted(body.builder, body.term(op.term.data, op.rhs, op.maps, source), source, type)

    if reduced:
        inner = Body(body.type)
        inner.builder.ops.append(loops.YieldOp(term(inner)))
        result = body.add(loops.ReduceOp(accum, reduced, inner.region(), type))
    else:
        result = term(body)
    if add:
        old = body.read(op.lhs, op.lhs_map.data, type, positions)
        result = accumulate(body.builder, accum, old, result)
    if accum in ORDERED:
        result = bounded(body.builder, accum, result, element_type(op.lhs) if is_float(type) else common)
    return body.stored(result, type, element_type(op.lhs))


def bounded(b: ArithBuilder, accum: str, value: SSAValue, element: Attribute) -> SSAValue:
    """A maximum or minimum of nothing as the neutral element of a type with fewer numbers."""
    type = value.type
    if neutral_number(accum, element) == neutral_number(accum, type):
        return value
    return accumulate(b, accum, value, constant(b, neutral_number(accum, element), type))
