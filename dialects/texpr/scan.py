"""`texpr.scan`: a loop over positions of tensors, whose body is a region of tensor expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import Float64Type, FloatAttr, IntAttr, UnitAttr, f64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, SSAValues
from xdsl.irdl import (
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import (
    OWN_RESULTS,
    given,
    operation_definition,
    operations_of,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.routine import Indexed
from ocannl.dialects.scalar.combination import number_text, parse_number
from ocannl.dialects.shapes.shape import ROW_KINDS, Dim, DimTerm, Shape, closed_row
from ocannl.dialects.texpr.axes import AxesAttr, Axis, parse_axis
from ocannl.dialects.texpr.scan_checks import check_along, check_same
from ocannl.dialects.texpr.scan_yield import YieldOp
from ocannl.dialects.texpr.tensor_op import TensorOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType, parse_dim, parse_tensor_type


@operation_definition
class ScanOp(TensorOp, Indexed):
    """A loop whose iterations run in order, over positions from the first or, with `reverse`, from the last.

        %last, %ys = texpr.scan t = 64 carry (%h = %h0 : ...) each (%x = %xs at batch -1 : ...) with (%v = %w)
        {
          ...
          texpr.yield carry (%next) each (%y at batch -1)
        } : ..., ...

    The body sees its arguments only: carries, which begin with a value and are then what the iteration before
    has yielded; positions of sequences along an axis; and captured values. The results are the last carries,
    and then the stacks of what each iteration yields, at the position that it reads. The index counts the
    iterations. With `while %h` the loop ends before the first iteration at which that carry is 0; stacks are
    0 where it did not run. What the adjoint reads of a scan with `recompute`, inside of another, is computed
    again.

    With `where %s` nothing comes of the iterations at which that position of a sequence is 0: the body hands
    its carries on and gives 0 to stacks, and what else it computes there may be anything, which derivatives
    leave out.

    One that ends `within` a tolerance is a fixed point: it has one carry and nothing else but captured
    values, and ends when no element of the carry changes by more than the tolerance; with `relative`, than
    this share of the greatest element that it begins with. Its derivative is that of the fixed point, not of
    iterations.
    """

    name = "texpr.scan"
    inputs = var_operand_def(TensorType)
    carried = prop_def(IntAttr)
    axes = prop_def(AxesAttr)
    dims = prop_def(DimsAttr)
    reversed = opt_prop_def(UnitAttr)
    going = opt_prop_def(IntAttr)
    counting = opt_prop_def(IntAttr)
    recompute = opt_prop_def(UnitAttr)
    within = opt_prop_def(FloatAttr[Float64Type])
    relative = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    others = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    results: SSAValues[OpResult[Attribute]] = OWN_RESULTS

    def __init__(
        self,
        index: str,
        count: DimTerm,
        inits: Sequence[SSAValue],
        sequences: Sequence[tuple[SSAValue, Axis]],
        captured: Sequence[SSAValue],
        types: Sequence[TensorType],
        body: Region,
        *,
        reverse: bool = False,
        going: int | None = None,
        counting: int | None = None,
        recompute: bool = False,
        within: float | None = None,
        relative: bool = False,
    ) -> None:
        Operation.__init__(
            self,
            operands=[*inits, *(value for value, _ in sequences), *captured],
            properties=given(
                carried=IntAttr(len(inits)),
                axes=AxesAttr(tuple(axis for _, axis in sequences)),
                dims=DimsAttr(((index, count),)),
                reversed=UnitAttr() if reverse else None,
                going=None if going is None else IntAttr(going),
                counting=None if counting is None else IntAttr(counting),
                recompute=UnitAttr() if recompute else None,
                within=None if within is None else FloatAttr(within, f64),
                relative=UnitAttr() if relative else None,
            ),
            result_types=types,
            regions=[body],
        )

    @property
    def index(self) -> str:
        """The name of the position in the body."""
        return self.dims.data[0][0]

    @property
    def count(self) -> DimTerm:
        """The number of iterations."""
        return self.dims.data[0][1]

    @property
    def size(self) -> int:
        """The number of iterations. Raises `OcannlError` where it is not known."""
        if not isinstance(self.count, Dim):
            message = f"the size of {self.index} is not known: run infer-shapes first"
            raise OcannlError(at_line(self, message))
        return self.count.size

    @property
    def ranges(self) -> dict[str, int | None]:
        return {self.index: self.count.size if isinstance(self.count, Dim) else None}

    @property
    def flag(self) -> int | None:
        """The number of the carry that ends the loop where it is 0."""
        return None if self.going is None else self.going.data

    @property
    def counted(self) -> int | None:
        """The number of the sequence that is 0 at the iterations of which nothing comes."""
        return None if self.counting is None else self.counting.data

    @property
    def tolerance(self) -> float | None:
        """That of a fixed point."""
        return None if self.within is None else self.within.value.data

    @property
    def kind(self) -> str:
        """Which function of a program makes such a loop."""
        if self.tolerance is not None:
            return "fixed_point"
        if self.going is None:
            return "scan"
        return "cond" if self.count == Dim(1) else "while_loop"

    @property
    def inits(self) -> tuple[SSAValue, ...]:
        """The values that carries begin with."""
        return tuple(self.operands[: self.carried.data])

    @property
    def sequences(self) -> tuple[tuple[SSAValue, Axis], ...]:
        """Tensors that are read at one position each iteration, and along which axis."""
        start = self.carried.data
        axes = self.axes.data
        return tuple(zip(self.operands[start : start + len(axes)], axes, strict=True))

    @property
    def captured(self) -> tuple[SSAValue, ...]:
        """The values that all iterations read."""
        return tuple(self.operands[self.carried.data + len(self.axes.data) :])

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def arguments(self) -> tuple[BlockArgument, ...]:
        """The arguments of the body, one for each operand."""
        return tuple(self.block.args)

    @property
    def carry_arguments(self) -> tuple[BlockArgument, ...]:
        return self.arguments[: self.carried.data]

    @property
    def sequence_arguments(self) -> tuple[BlockArgument, ...]:
        start = self.carried.data
        return self.arguments[start : start + len(self.axes.data)]

    @property
    def captured_arguments(self) -> tuple[BlockArgument, ...]:
        return self.arguments[self.carried.data + len(self.axes.data) :]

    @property
    def yielded(self) -> YieldOp:
        last = self.block.last_op
        assert isinstance(last, YieldOp)
        return last

    @property
    def steps(self) -> list[Operation]:
        """The operations of the body without its end."""
        return operations_of(self.block)[:-1]

    def stack_type(self, value: SSAValue, axis: Axis) -> TensorType:
        """The type of the stack of a value of the body along an axis."""
        type = cast("TensorType", value.type)
        row = type.shape.data.row(axis.row)
        axes = list(row.axes)
        at = axis.number if axis.number >= 0 else len(axes) + 1 + axis.number
        longer = closed_row(*axes[:at], self.count, *axes[at:])
        rows = (longer if kind == axis.row else type.shape.data.row(kind) for kind in ROW_KINDS)
        return TensorType.of(Shape(*rows), type.element)

    def stack(self, value: SSAValue, axis: Axis) -> tuple[SSAValue, Axis]:
        """The stack of a value of the body, and its axis: a new result along `axis` if there is none."""
        yielded, carried = self.yielded, self.carried.data
        for result, (other, along) in zip(self.results[carried:], yielded.stacked, strict=True):
            if other is value:
                return result, along
        result = OpResult(self.stack_type(value, axis), self, len(self.results))
        result.name_hint = value.name_hint
        self.results = SSAValues([*self.results, result])
        yielded.operands = [*yielded.values, value]
        yielded.properties["axes"] = AxesAttr((*yielded.axes.data, axis))
        return result, axis

    def add_sequence(self, whole: SSAValue, axis: Axis, like: SSAValue) -> BlockArgument:
        """Makes the body read positions of one more tensor; gives the argument, which is like a value."""
        place = self.carried.data + len(self.axes.data)
        argument = self.block.insert_arg(like.type, place)
        argument.name_hint = like.name_hint
        self.operands = [*self.operands[:place], whole, *self.operands[place:]]
        self.properties["axes"] = AxesAttr((*self.axes.data, axis))
        return argument

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.index} = {self.count}")
        if self.reversed is not None:
            printer.print_string(" reverse")
        if self.recompute is not None:
            printer.print_string(" recompute")
        if self.flag is not None:
            print_parts(printer, " while ", self.carry_arguments[self.flag])
        if self.counted is not None:
            print_parts(printer, " where ", self.sequence_arguments[self.counted])
        if self.tolerance is not None:
            printer.print_string(f" within {number_text(self.tolerance)}")
        if self.relative is not None:
            printer.print_string(" relative")
        carried, axes, arguments = self.carried.data, self.axes.data, self.arguments
        operands = tuple(self.operands)

        def one(number: int) -> None:
            print_parts(printer, arguments[number], " = ", operands[number])
            if carried <= number < carried + len(axes):
                printer.print_string(f" at {axes[number - carried]}")
            if number < carried + len(axes):
                print_parts(printer, " : ", arguments[number].type)

        groups = (
            ("carry", range(carried)),
            ("each", range(carried, carried + len(axes))),
            ("with", range(carried + len(axes), len(operands))),
        )
        for keyword, numbers in groups:
            if numbers:
                printer.print_string(f" {keyword} ")
                with printer.in_parens():
                    printer.print_list(numbers, one)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.print_string(" : ")
        printer.print_list(self.results, lambda result: printer.print_attribute(result.type))

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        index = parser.parse_identifier(" naming the position")
        parser.parse_punctuation("=")
        count = parse_dim(parser)
        reverse = parser.parse_optional_keyword("reverse") is not None
        recompute = parser.parse_optional_keyword("recompute") is not None
        flag = parser.parse_argument(expect_type=False) if parser.parse_optional_keyword("while") else None
        counts = parser.parse_argument(expect_type=False) if parser.parse_optional_keyword("where") else None
        within = _parse_tolerance(parser) if parser.parse_optional_keyword("within") else None
        relative = within is not None and parser.parse_optional_keyword("relative") is not None
        arguments: list[Parser.Argument] = []

        def one(has_axis: bool, has_type: bool) -> tuple[SSAValue, Axis | None]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            value, axis = parse_defined_operand(parser), None
            if has_axis:
                parser.parse_keyword("at")
                axis = parse_axis(parser)
            type: Attribute = value.type
            if has_type:
                parser.parse_punctuation(":")
                type = parse_tensor_type(parser)
            arguments.append(argument.resolve(type))
            return value, axis

        def group(keyword: str, has_axis: bool, has_type: bool) -> list[tuple[SSAValue, Axis | None]]:
            if parser.parse_optional_keyword(keyword) is None:
                return []
            return parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: one(has_axis, has_type))

        inits = [value for value, _ in group("carry", has_axis=False, has_type=True)]
        found = group("each", has_axis=True, has_type=True)
        sequences = [(value, axis) for value, axis in found if axis is not None]
        captured = [value for value, _ in group("with", has_axis=False, has_type=False)]
        body = parser.parse_region(arguments)
        names = [argument.name.text for argument in arguments]
        going = _parsed_number(parser, flag, names[: len(inits)], "carry")
        counting = _parsed_number(parser, counts, names[len(inits) :][: len(sequences)], "sequence")
        parser.parse_punctuation(":")
        types = [parse_tensor_type(parser)]
        while parser.parse_optional_punctuation(","):
            types.append(parse_tensor_type(parser))
        return cls(
            index,
            count,
            inits,
            sequences,
            captured,
            types,
            body,
            reverse=reverse,
            going=going,
            counting=counting,
            recompute=recompute,
            within=within,
            relative=relative,
        )

    def verify_(self) -> None:
        arguments, inside = self.arguments, set[SSAValue](self.arguments)
        if len(arguments) != len(self.operands):
            raise VerifyException(f"{len(arguments)} arguments of the body for {len(self.operands)} operands")
        if not isinstance(self.block.last_op, YieldOp):
            raise VerifyException("the body of a scan ends with `texpr.yield`")
        for op in operations_of(self.block):
            if not isinstance(op, TensorOp | YieldOp) or (isinstance(op, YieldOp) and op.next_op is not None):
                raise VerifyException(f"`{op.name}` is no part of the body of a scan")
            for operand in op.operands:
                if operand not in inside:
                    raise VerifyException("the body of a scan sees nothing but its arguments")
            inside.update(op.results)
        yielded = self.yielded
        if len(yielded.carries) != self.carried.data or len(yielded.operands) != len(self.results):
            raise VerifyException(
                f"{self.carried.data} carries and {len(self.results)} results are expected, "
                f"found {len(yielded.carries)} and {len(yielded.operands)} values"
            )
        if not self.results:
            raise VerifyException("a scan has results: carries or stacks")
        if self.flag is not None and not 0 <= self.flag < self.carried.data:
            raise VerifyException("the flag of a scan is one of its carries")
        if self.counted is not None and not 0 <= self.counted < len(self.sequences):
            raise VerifyException("what iterations of a scan count by is one of its sequences")
        if self.flag is not None and self.counted is not None:
            raise VerifyException("a scan has `while` or `where`, not both")
        self._verify_fixed_point()
        self._verify_shapes()

    def _verify_fixed_point(self) -> None:
        if self.tolerance is None:
            if self.relative is not None:
                raise VerifyException("a relative tolerance is that of a fixed point")
            return
        if (self.carried.data, len(self.results), len(self.sequences)) != (1, 1, 0):
            raise VerifyException("a fixed point has one carry, no sequences and no stacks")
        if any(given is not None for given in (self.flag, self.counted, self.reversed)):
            raise VerifyException("a fixed point ends by its tolerance: it has no flag and no direction")
        if not self.tolerance >= 0:
            raise VerifyException(f"a tolerance is 0 or more, found {self.tolerance}")

    def _verify_shapes(self) -> None:
        yielded, carried = self.yielded, self.carried.data
        values = zip(self.carry_arguments, yielded.carries, self.results[:carried], strict=True)
        for argument, value, result in values:
            check_same(argument, value, "what is carried")
            check_same(argument, result, "the last carry")
        for argument, (value, axis) in zip(self.sequence_arguments, self.sequences, strict=True):
            check_along(value, argument, axis, self.count)
        for result, (value, axis) in zip(self.results[carried:], yielded.stacked, strict=True):
            check_along(result, value, axis, self.count)
        for argument, value in zip(self.captured_arguments, self.captured, strict=True):
            check_same(argument, value, "what is captured")


def _parsed_number(
    parser: Parser, named: Parser.UnresolvedArgument | None, names: Sequence[str], kind: str
) -> int | None:
    """The number of an argument among those of its kind; None if there is none."""
    if named is None:
        return None
    if named.name.text not in names:
        parser.raise_error(f"{named.name.text} is no {kind}", named.name)
    return names.index(named.name.text)


def _parse_tolerance(parser: Parser) -> float:
    """How far a carry may still move at the end."""
    pos = parser.pos
    value = parse_number(parser)
    if value is None or not value >= 0:
        parser.raise_error("expected a tolerance, which is 0 or more", pos, pos + 1)
    return value
