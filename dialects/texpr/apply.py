"""`texpr.apply`: one tensor operation, with a logic as built and with index maps once projected."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_accumulator, check_set_once, check_space
from ocannl.dialects.index.linear import (
    Linear,
    MapAttr,
    Space,
    SpaceAttr,
    map_text,
    parse_optional_map,
    parse_space,
)
from ocannl.dialects.ir.op_helpers import fill, given, operation_definition, string
from ocannl.dialects.scalar.combination import (
    Combination,
    TermAttr,
    arity,
    check_term,
    parse_combination,
    print_as_built,
)
from ocannl.dialects.scalar.terms import Arg, Term
from ocannl.dialects.shapes.shape import DimTerm
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.dialects.texpr.parts import Part, PartAttr, parse_part
from ocannl.dialects.texpr.placement import PlacementAttr, check_placement, parse_placement, print_placement
from ocannl.dialects.texpr.tensor_op import TensorOp, check_tensor_access, parse_result_type
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType, parse_logic, print_logic, shape_of

MATERIALIZED, VIRTUAL = MODES = ("materialized", "virtual")


def slot_count(spec: str) -> int:
    """The number of operands that a spec has slots for."""
    return spec.partition("=>")[0].count(";") + 1


@operation_definition
class ApplyOp(TensorOp):
    """One tensor operation.

    As built: `texpr.apply add= mul(%w, %x) logic "@"`. Projected:
    `texpr.apply [b, o] add= mul(%w[o, i], %x[b, i]) over (b = 10, o = 16, i = 2)`, where the result is reset
    to the accumulation's neutral element first. More parts may follow, which accumulate into the same result:
    `texpr.apply [a] = %x[a] over (a = 3) then [b + 3] = %y[b] over (b = 5)`. `stop` lets no gradient through.
    What is computed from `again` is computed late.
    `materialized` values pass through memory of their own, `virtual` ones through none. `compute` marks the
    precision in which products of a parameter are computed, `factors bf16` that to which their factors alone
    are rounded. `literal` marks a number that takes its type from its uses, as one in a term does, whatever
    that of the data is that it is read from. `from stage 0 to 1` is a copy that another stage of the program
    reads. `shard <...>` places the result on a mesh.
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
    again = opt_prop_def(UnitAttr)
    mode = opt_prop_def(StringAttr)
    compute = opt_prop_def(UnitAttr)
    factors = opt_prop_def(Attribute)
    literal = opt_prop_def(UnitAttr)
    stages = opt_prop_def(ArrayAttr[IntAttr])
    placement = opt_prop_def(PlacementAttr)

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
        again: bool = False,
        mode: str | None = None,
        compute: bool = False,
        factors: Attribute | None = None,
        literal: bool = False,
        placement: PlacementAttr | None = None,
    ) -> None:
        properties = given(
            term=TermAttr(term),
            accum=None if accum is None else string(accum),
            logic=None if logic is None else string(logic),
            dims=DimsAttr(tuple(dims)) if dims else None,
            result_map=None if result_map is None else MapAttr(tuple(result_map)),
            arg_maps=None if arg_maps is None else ArrayAttr(MapAttr(tuple(m)) for m in arg_maps),
            space=None if space is None else SpaceAttr(tuple(space)),
            stop=UnitAttr() if stop else None,
            again=UnitAttr() if again else None,
            mode=None if mode is None else StringAttr(mode),
            compute=UnitAttr() if compute else None,
            factors=factors,
            literal=UnitAttr() if literal else None,
            placement=placement,
        )
        fill(self, args, properties, [type])

    @staticmethod
    def projected(
        combination: Combination,
        type: TensorType,
        accum: str | None,
        result_map: Sequence[Linear],
        space: Sequence[tuple[str, int]],
        *,
        mode: str | None = None,
    ) -> ApplyOp:
        return ApplyOp.of_parts([Part(combination, tuple(result_map), tuple(space))], type, accum, mode=mode)

    @staticmethod
    def of_parts(
        parts: Sequence[Part],
        type: TensorType,
        accum: str | None,
        *,
        stop: bool = False,
        mode: str | None = None,
    ) -> ApplyOp:
        return ApplyOp.create(
            operands=_operands_of(parts),
            properties=_properties_of(parts, accum, stop=stop, mode=mode),
            result_types=[type],
        )

    def project(self, parts: Sequence[Part], accum: str | None) -> None:
        """Replaces the logic by parts with index maps, in place: the result stays the same SSA value."""
        operands = _operands_of(parts)
        if operands != tuple(self.args):
            self.operands = operands
        kept = given(
            placement=self.placement,
            compute=self.compute,
            factors=self.factors,
            stages=self.stages,
            again=self.again,
        )
        self.properties = kept | _properties_of(parts, accum, stop=self.stop is not None, mode=self.mode_name)

    def set_mode(self, mode: str) -> None:
        self.properties["mode"] = StringAttr(mode)

    def set_stages(self, stages: tuple[int, int]) -> None:
        """Makes the operation a copy that goes from one stage to another."""
        self.properties["stages"] = ArrayAttr([IntAttr(stage) for stage in stages])

    @property
    def moves(self) -> tuple[int, int] | None:
        """The stages between which it moves its operand."""
        if self.stages is None:
            return None
        start, end = self.stages.data
        return start.data, end.data

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
    def mode_name(self) -> str | None:
        return None if self.mode is None else self.mode.data

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
            print_as_built(printer, self.term.data, tuple(self.args))
        print_logic(printer, self.logic, self.dims)
        if self.stop is not None:
            printer.print_string(" stop")
        if self.again is not None:
            printer.print_string(" again")
        if self.mode is not None:
            printer.print_string(f" {self.mode.data}")
        if self.compute is not None:
            printer.print_string(" compute")
        if self.factors is not None:
            printer.print_string(" factors ")
            printer.print_attribute(self.factors)
        if self.literal is not None:
            printer.print_string(" literal")
        if self.moves is not None:
            printer.print_string(" from stage {} to {}".format(*self.moves))
        print_placement(printer, self.placement)
        self._print_type(printer)

    def _print_parts(self, printer: Printer) -> None:
        for number, part in enumerate(self.parts):
            start = " then " if number else " "
            printer.print_string(f"{start}{map_text(part.result_map)} {self.accum_name or ''}= ")
            part.print(printer)

    @classmethod
    def parse(cls, parser: Parser) -> ApplyOp:
        pos = parser.pos
        result_map = parse_optional_map(parser)
        accum = parser.parse_optional_identifier()
        parser.parse_punctuation("=")
        combination, logic, dims = _parse_combination(parser, has_maps=result_map is not None)
        space, more = _parse_space_and_parts(parser, accum)
        stop = parser.parse_optional_keyword("stop") is not None
        again = parser.parse_optional_keyword("again") is not None
        mode = next((mode for mode in MODES if parser.parse_optional_keyword(mode)), None)
        compute = parser.parse_optional_keyword("compute") is not None
        factors = parser.parse_type() if parser.parse_optional_keyword("factors") else None
        literal = parser.parse_optional_keyword("literal") is not None
        stages = _parse_stages(parser)
        placement = parse_placement(parser)
        type = parse_result_type(parser)
        if more and (result_map is None or space is None or logic is not None):
            parser.raise_error("an operation of several parts has index maps", pos, parser.pos)
        if more and result_map is not None and space is not None:
            parts = [Part(combination, result_map, space), *more]
            made = cls.of_parts(parts, type, accum, stop=stop, mode=mode)
        else:
            made = cls(
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
                mode=mode,
                literal=literal,
            )
            if stages is not None:
                made.set_stages(stages)
        made.properties |= given(
            placement=placement,
            compute=UnitAttr() if compute else None,
            factors=factors,
            again=UnitAttr() if again else None,
        )
        return made

    def verify_(self) -> None:
        check_placement(self)
        if self.mode is not None and self.mode.data not in MODES:
            raise VerifyException(f"a mode is {' or '.join(MODES)}, found {self.mode.data!r}")
        if self.stages is not None and len(self.stages.data) != 2:
            raise VerifyException("a copy goes from one stage to another one")
        if self.literal is not None and (self.term.data != Arg(0) or self.accum is not None):
            raise VerifyException("a literal is a number as it is read")
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
        check_logic(self.logic.data, len(self.args))
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


def is_literal(op: Operation) -> bool:
    """Whether an operation is a number that takes its type from its uses."""
    return isinstance(op, ApplyOp) and op.literal is not None


def _parse_combination(
    parser: Parser, *, has_maps: bool
) -> tuple[Combination, str | None, tuple[tuple[str, DimTerm], ...]]:
    """A combination of operands, with index maps or with a logic and its dimensions."""
    combination = parse_combination(parser, merge=has_maps)
    logic, dims = parse_logic(parser)
    operands = combination.operands
    if logic is not None and "=>" in logic and len(operands) > slot_count(logic):
        # What is read several times has one slot.
        combination = Combination.of(combination.term, operands, [()] * len(operands))
    return combination, logic, dims


def _parse_space_and_parts(parser: Parser, accum: str | None) -> tuple[Space | None, list[Part]]:
    """The iteration space of the first part, and the parts after it."""
    space = parse_space(parser) if parser.parse_optional_keyword("over") else None
    parts = list[Part]()
    while space is not None and parser.parse_optional_keyword("then"):
        parts.append(parse_part(parser, accum))
    return space, parts


def _parse_stages(parser: Parser) -> tuple[int, int] | None:
    if not parser.parse_optional_keyword("from"):
        return None
    parser.parse_keyword("stage")
    start = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_keyword("to")
    return start, parser.parse_integer(allow_boolean=False, allow_negative=False)


def _operands_of(parts: Sequence[Part]) -> tuple[SSAValue, ...]:
    return tuple([operand for part in parts for operand in part.combination.operands])


def _properties_of(
    parts: Sequence[Part], accum: str | None, *, stop: bool, mode: str | None
) -> dict[str, Attribute]:
    """The properties of a projected operation: the first part in its own, further ones in `more`."""
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
        mode=None if mode is None else StringAttr(mode),
    )


def check_logic(logic: str, operands: int) -> None:
    """Raises `VerifyException` for a logic that is no name and no spec of so many operands."""
    if logic in (".", "@", "T"):
        return
    try:
        parse_spec(logic, operands)
    except SpecSyntaxError as error:
        raise VerifyException(str(error)) from None
