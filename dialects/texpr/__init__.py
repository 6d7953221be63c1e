"""The `texpr` dialect: pure tensor expressions with inferred shapes, and the code of a routine over them.

An expression has one operation a tensor. As built, `texpr.apply` has a logic (`"."` pointwise, `"@"` compose,
`"T"` transpose, or an einsum spec) and types with row and dimension variables; after projection inference it
has an iteration space and index maps instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    SSAValue,
)
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_accumulator, check_names, check_set_once, check_space
from ocannl.dialects.index.linear import (
    Linear,
    MapAttr,
    SpaceAttr,
    only_index,
    parse_linear,
    parse_optional_map,
    parse_space,
    print_map,
)
from ocannl.dialects.ir.op_helpers import given, operation_definition, parse_defined_operand
from ocannl.dialects.routine import enclosing_routine
from ocannl.dialects.scalar.combination import (
    Combination,
    TermAttr,
    arity,
    check_term,
    number_text,
    parse_combination,
    parse_number,
    print_combination,
)
from ocannl.dialects.scalar.terms import Const, Term
from ocannl.dialects.shapes.shape import Dim, DimTerm
from ocannl.dialects.shapes.spec import SpecSyntaxError, parse_spec
from ocannl.dialects.texpr.code import (
    AssignOp,
    BackpropOp,
    CommentOp,
    ForwardOp,
    OnTensorOp,
    TexprRoutineOp,
    ZeroGradsOp,
)
from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp, JvpOp, VjpOp
from ocannl.dialects.texpr.memory import DataOp, GradOp, MemoryOp, NodeOp, OfOp, ParamOp, ValueOp
from ocannl.dialects.texpr.parts import Part, PartAttr, parse_part
from ocannl.dialects.texpr.tensor_op import TensorOp, check_tensor_access, parse_result_type
from ocannl.dialects.texpr.tensor_type import (
    DimsAttr,
    ShapeAttr,
    TensorType,
    parse_dim,
    parse_tensor_type,
    shape_of,
)
from ocannl.dialects.texpr.uniform import UniformOp

__all__ = [
    "TEXPR",
    "AdjointOp",
    "ApplyOp",
    "AssignOp",
    "BackpropOp",
    "CommentOp",
    "ConstantOp",
    "CustomOp",
    "DataOp",
    "EmbedOp",
    "ForwardOp",
    "GradOp",
    "JvpOp",
    "MemoryOp",
    "NodeOp",
    "OfOp",
    "OnTensorOp",
    "ParamOp",
    "RangeOp",
    "SizeOp",
    "SliceOp",
    "TensorOp",
    "TexprRoutineOp",
    "UniformOp",
    "ValueOp",
    "VjpOp",
    "ZeroGradsOp",
]


@operation_definition
class ConstantOp(TensorOp):
    """A number at every point of its inferred shape: `texpr.constant 1.0`."""

    name = "texpr.constant"
    term = prop_def(TermAttr)

    def __init__(self, value: float, type: TensorType) -> None:
        Operation.__init__(self, properties={"term": TermAttr(Const(value))}, result_types=[type])

    @property
    def value(self) -> float:
        term = self.term.data
        assert isinstance(term, Const)
        return term.value

    def print(self, printer: Printer) -> None:
        printer.print_string(" " + number_text(self.value))
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        pos = parser.pos
        value = parse_number(parser)
        if value is None:
            parser.raise_error("expected a number", pos, pos + 1)
        return cls(value, parse_result_type(parser))

    def verify_(self) -> None:
        if not isinstance(self.term.data, Const):
            raise VerifyException(f"the term of a constant is a number, found {self.term.data}")


@operation_definition
class SizeOp(TensorOp):
    """The size of a captured dimension as a number: `texpr.size ?d7`; a constant once shapes are known."""

    name = "texpr.size"
    dims = prop_def(DimsAttr)

    def __init__(self, dim: DimTerm, type: TensorType) -> None:
        super().__init__(properties={"dims": DimsAttr((("d", dim),))}, result_types=[type])

    @property
    def dim(self) -> DimTerm:
        return self.dims.data[0][1]

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.dim}")
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> SizeOp:
        size = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        if size is None:
            return cls(parse_dim(parser), parse_result_type(parser))
        # A basis follows a colon, and so does the type, which is no identifier.
        parser.parse_punctuation(":")
        basis = parser.parse_optional_identifier()
        if basis is not None:
            parser.parse_punctuation(":")
        return cls(Dim(size, basis), parse_tensor_type(parser))

    def verify_(self) -> None:
        if len(self.dims.data) != 1:
            raise VerifyException(f"expected one dimension, found {len(self.dims.data)}")


@operation_definition
class RangeOp(TensorOp):
    """The positions 0, 1, 2, ... along its one output axis."""

    name = "texpr.range"

    def __init__(self, type: TensorType) -> None:
        super().__init__(result_types=[type])

    def print(self, printer: Printer) -> None:
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> RangeOp:
        return cls(parse_result_type(parser))

    def verify_(self) -> None:
        shape = shape_of(self.result)
        if shape.is_final and (len(shape.memory_sizes) != 1 or shape.output.known != 1):
            raise VerifyException(f"a range has one axis, in the output row; found {shape}")


@operation_definition
class EmbedOp(TensorOp):
    """The value of static indices as a number: `texpr.embed step_n + 1`."""

    name = "texpr.embed"
    indices = prop_def(MapAttr)

    def __init__(self, index: Linear, type: TensorType) -> None:
        Operation.__init__(self, properties={"indices": MapAttr((index,))}, result_types=[type])

    @property
    def index(self) -> Linear:
        return self.indices.data[0]

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.index}")
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> EmbedOp:
        return cls(parse_linear(parser), parse_result_type(parser))

    def verify_(self) -> None:
        index = only_index(self.indices.data)
        if enclosing_routine(self) is not None:
            check_names(self, index.names, {})


@operation_definition
class SliceOp(TensorOp):
    """`texpr.slice %x at batch_n`: the leftmost batch axis at a static index."""

    name = "texpr.slice"
    source = operand_def(TensorType)
    indices = prop_def(MapAttr)

    def __init__(self, source: SSAValue, index: Linear, type: TensorType) -> None:
        Operation.__init__(
            self, operands=[source], properties={"indices": MapAttr((index,))}, result_types=[type]
        )

    @property
    def index(self) -> Linear:
        return self.indices.data[0]

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f" at {self.index}")
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> SliceOp:
        source = parse_defined_operand(parser)
        parser.parse_keyword("at")
        return cls(source, parse_linear(parser), parse_result_type(parser))

    def verify_(self) -> None:
        index = only_index(self.indices.data)
        if enclosing_routine(self) is not None:
            check_names(self, index.names, {})


@operation_definition
class ApplyOp(TensorOp):
    """One tensor operation.

    As built: `texpr.apply add= mul(%w, %x) logic "@"`. Projected:
    `texpr.apply [b, o] add= mul(%w[o, i], %x[b, i]) over (b = 10, o = 16, i = 2)`, where the result is reset
    to the accumulation's neutral element first. More parts may follow, which accumulate into the same result:
    `texpr.apply [a] = %x[a] over (a = 3) then [b + 3] = %y[b] over (b = 5)`. `stop` lets no gradient through.
    """

    name = "texpr.apply"
    args = var_operand_def(TensorType)
    accum = opt_prop_def(StringAttr)
    term = prop_def(TermAttr)
    logic = opt_prop_def(StringAttr)
    dims = opt_prop_def(DimsAttr)
    result_map = opt_prop_def(MapAttr)
    arg_maps = opt_prop_def(ArrayAttr[MapAttr])
    space = opt_prop_def(SpaceAttr)
    more = opt_prop_def(ArrayAttr[PartAttr])
    stop = opt_prop_def(UnitAttr)

    def __init__(
        self,
        term: Term,
        args: Sequence[SSAValue],
        type: TensorType,
        *,
        accum: str | None = None,
        logic: str | None = None,
        dims: Sequence[tuple[str, DimTerm]] = (),
        result_map: Sequence[Linear] | None = None,
        arg_maps: Sequence[Sequence[Linear]] | None = None,
        space: Sequence[tuple[str, int]] | None = None,
        stop: bool = False,
    ) -> None:
        Operation.__init__(
            self,
            operands=args,
            properties=given(
                term=TermAttr(term),
                accum=None if accum is None else StringAttr(accum),
                logic=None if logic is None else StringAttr(logic),
                dims=DimsAttr(tuple(dims)) if dims else None,
                result_map=None if result_map is None else MapAttr(tuple(result_map)),
                arg_maps=None if arg_maps is None else ArrayAttr(MapAttr(tuple(m)) for m in arg_maps),
                space=None if space is None else SpaceAttr(tuple(space)),
                stop=UnitAttr() if stop else None,
            ),
            result_types=[type],
        )

    @staticmethod
    def projected(
        combination: Combination,
        type: TensorType,
        accum: str | None,
        result_map: Sequence[Linear],
        space: Sequence[tuple[str, int]],
    ) -> ApplyOp:
        return ApplyOp.of_parts([Part(combination, tuple(result_map), tuple(space))], type, accum)

    @staticmethod
    def of_parts(
        parts: Sequence[Part], type: TensorType, accum: str | None, *, stop: bool = False
    ) -> ApplyOp:
        return ApplyOp.create(
            operands=_operands_of(parts),
            properties=_properties_of(parts, accum, stop=stop),
            result_types=[type],
        )

    def project(self, parts: Sequence[Part], accum: str | None) -> None:
        """Has these parts from now on in place of a logic; its value stays the same one."""
        operands = _operands_of(parts)
        if operands != tuple(self.args):
            self.operands = operands
        self.properties = _properties_of(parts, accum, stop=self.stop is not None)

    @property
    def is_projected(self) -> bool:
        return self.space is not None

    @property
    def maps(self) -> tuple[tuple[Linear, ...], ...]:
        """The index map of each argument; empty maps as built."""
        if self.arg_maps is None:
            return ((),) * len(self.args)
        return tuple(m.data for m in self.arg_maps.data)

    @property
    def accum_name(self) -> str | None:
        return None if self.accum is None else self.accum.data

    @property
    def parts(self) -> tuple[Part, ...]:
        """The accumulations of a projected operation, in the order in which they run."""
        assert self.result_map is not None
        assert self.space is not None
        further = () if self.more is None else self.more.data
        headers = [
            (self.term, self.result_map, self.space),
            *((p.term, p.result_map, p.space) for p in further),
        ]
        args, maps, found = tuple(self.args), self.maps, list[Part]()
        for term, result_map, space in headers:
            count = arity(term.data) if further else len(args)
            combination = Combination(term.data, args[:count], maps[:count])
            found.append(Part(combination, result_map.data, space.data))
            args, maps = args[count:], maps[count:]
        return tuple(found)

    def print(self, printer: Printer) -> None:
        if self.space is not None and self.result_map is not None:
            self._print_parts(printer)
        else:
            printer.print_string(f" {self.accum_name or ''}= ")
            print_combination(printer, self.term.data, tuple(self.args), self.maps, bare=True)
        if self.logic is not None:
            printer.print_string(" logic ")
            printer.print_string_literal(self.logic.data)
        if self.dims is not None:
            printer.print_string(" dims ")
            self.dims.print_parameter(printer)
        if self.stop is not None:
            printer.print_string(" stop")
        self._print_type(printer)

    def _print_parts(self, printer: Printer) -> None:
        for number, part in enumerate(self.parts):
            printer.print_string(" then " if number else " ")
            print_map(printer, part.result_map)
            printer.print_string(f" {self.accum_name or ''}= ")
            part.print(printer)

    @classmethod
    def parse(cls, parser: Parser) -> ApplyOp:
        pos = parser.pos
        result_map = parse_optional_map(parser)
        accum = parser.parse_optional_identifier()
        parser.parse_punctuation("=")
        combination = parse_combination(parser, merge=result_map is not None)
        logic = parser.parse_str_literal() if parser.parse_optional_keyword("logic") else None
        dims = DimsAttr.parse_parameter(parser) if parser.parse_optional_keyword("dims") else ()
        space = parse_space(parser) if parser.parse_optional_keyword("over") else None
        more = list[Part]()
        while space is not None and parser.parse_optional_keyword("then"):
            more.append(parse_part(parser, accum))
        stop = parser.parse_optional_keyword("stop") is not None
        type = parse_result_type(parser)
        if more:
            if result_map is None or space is None or logic is not None:
                parser.raise_error("an operation of several parts has index maps", pos, parser.pos)
            return cls.of_parts([Part(combination, result_map, space), *more], type, accum, stop=stop)
        return cls(
            combination.term,
            combination.operands,
            type,
            accum=accum,
            logic=logic,
            dims=dims,
            result_map=result_map,
            arg_maps=None if result_map is None else combination.maps,
            space=space,
            stop=stop,
        )

    def verify_(self) -> None:
        if self.accum is not None:
            check_accumulator(self.accum.data)
        if self.is_projected:
            if self.logic is not None:
                raise VerifyException("a projected operation has index maps, not a logic")
            if self.result_map is None or self.arg_maps is None:
                raise VerifyException(
                    "a projected operation has an index map for its result and every operand"
                )
            self._verify_parts()
            return
        if self.logic is None:
            raise VerifyException('an operation has a logic (".", "@", "T" or an einsum spec) or index maps')
        if self.result_map is not None or self.arg_maps is not None:
            raise VerifyException("an operation with a logic has no index maps yet")
        _check_logic(self.logic.data, len(self.args))
        check_term(self.term.data, len(self.args))

    def _verify_parts(self) -> None:
        if len(self.maps) != len(self.args):
            raise VerifyException(f"{len(self.maps)} index maps for {len(self.args)} operands")
        parts = self.parts
        if sum(len(part.combination.operands) for part in parts) != len(self.args):
            raise VerifyException("the terms of the parts read all operands, in order")
        for part in parts:
            self._verify_part(part)

    def _verify_part(self, part: Part) -> None:
        sizes = dict(part.space)
        check_space(self, sizes)
        if self.accum is None:
            check_set_once(part.result_map, sizes)
        combination = part.combination
        pairs = [(self.result, part.result_map), *zip(combination.operands, combination.maps, strict=True)]
        for value, indices in pairs:
            check_tensor_access(self, shape_of(value), indices, sizes)
        check_term(combination.term, len(combination.operands))


def _operands_of(parts: Sequence[Part]) -> tuple[SSAValue, ...]:
    return tuple([operand for part in parts for operand in part.combination.operands])


def _properties_of(parts: Sequence[Part], accum: str | None, *, stop: bool) -> dict[str, Attribute]:
    """What a projected operation says of its parts: the first in its own properties."""
    first, *more = parts
    further = [
        PartAttr(TermAttr(part.combination.term), MapAttr(part.result_map), SpaceAttr(part.space))
        for part in more
    ]
    return given(
        term=TermAttr(first.combination.term),
        accum=None if accum is None else StringAttr(accum),
        result_map=MapAttr(first.result_map),
        arg_maps=ArrayAttr([MapAttr(indices) for part in parts for indices in part.combination.maps]),
        space=SpaceAttr(first.space),
        more=ArrayAttr(further) if more else None,
        stop=UnitAttr() if stop else None,
    )


def _check_logic(logic: str, operands: int) -> None:
    if logic in (".", "@", "T"):
        return
    try:
        parse_spec(logic, operands)
    except SpecSyntaxError as error:
        raise VerifyException(str(error)) from None


TEXPR = Dialect(
    "texpr",
    [
        ParamOp,
        DataOp,
        NodeOp,
        ConstantOp,
        SizeOp,
        RangeOp,
        EmbedOp,
        UniformOp,
        SliceOp,
        GradOp,
        ValueOp,
        ApplyOp,
        VjpOp,
        JvpOp,
        AdjointOp,
        CustomOp,
        AssignOp,
        ForwardOp,
        ZeroGradsOp,
        BackpropOp,
        CommentOp,
        TexprRoutineOp,
    ],
    [ShapeAttr, TensorType, DimsAttr, PartAttr],
)
