"""Types of tensor expressions: three-row shapes with variables, and an element type once it is inferred."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from xdsl.dialects.builtin import NoneAttr, StringAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import print_parts, set_type
from ocannl.dialects.scalar.precisions import is_stored, not_stored
from ocannl.dialects.shapes.shape import Dim, DimTerm, DimVar, Row, RowVar, Shape, shape_text

NO_ELEMENT = NoneAttr()


@irdl_attr_definition
class ShapeAttr(Data[Shape]):
    """`<10 | 2 -> ...o3, 16>`: rows of sizes, `?d` dimension variables and `...` row variables."""

    name = "texpr.shape"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Shape:
        with parser.in_angle_brackets():
            shape, _ = _parse_shape(parser)
            return shape

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{ir_shape_text(self.data)}>")


def ir_shape_text(shape: Shape) -> str:
    return shape_text(shape, lambda var, letter: f"...{letter}{var.id}", ", ", " | ", " -> ", "...")


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """`!texpr.tensor<10 | 2 -> 16, f32>`; without an element type the precision is not inferred yet."""

    name = "texpr.tensor"
    shape: ShapeAttr
    element: Attribute

    @staticmethod
    def of(shape: Shape, element: Attribute | None = None) -> TensorType:
        if element is not None and not is_stored(element):
            raise VerifyException(_not_numbers(element))
        # The constructors check all parameters, which takes most of their time.
        attribute, made = object.__new__(ShapeAttr), object.__new__(TensorType)
        object.__setattr__(attribute, "data", shape)
        object.__setattr__(made, "shape", attribute)
        object.__setattr__(made, "element", NO_ELEMENT if element is None else element)
        return made

    @property
    def element_or_none(self) -> Attribute | None:
        return None if type(self.element) is NoneAttr else self.element

    def verify(self) -> None:
        if not isinstance(self.element, NoneAttr) and not is_stored(self.element):
            raise VerifyException(_not_numbers(self.element))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = _parse_shape(parser)
            return [ShapeAttr(shape), NO_ELEMENT if element is None else element]

    def print_parameters(self, printer: Printer) -> None:
        text = ir_shape_text(self.shape.data)
        if isinstance(self.element, NoneAttr):
            printer.print_string(f"<{text}>")
            return
        separator = ", " if text and not text.endswith(" ") else ""
        print_parts(printer, f"<{text}{separator}", self.element, ">")


def _not_numbers(element: Attribute) -> str:
    return not_stored(element, "the elements of a tensor")


def _parse_shape(parser: AttrParser) -> tuple[Shape, Attribute | None]:
    rows: dict[str, Row] = {"batch": Row(), "input": Row()}
    row, element = _parse_row(parser)
    separators: tuple[tuple[str, Literal["|", "->"]], ...] = (("batch", "|"), ("input", "->"))
    for kind, separator in separators:
        if element is None and parser.parse_optional_punctuation(separator):
            rows[kind] = row
            row, element = _parse_row(parser)
    return Shape(rows["batch"], rows["input"], row), element


def _parse_row(parser: AttrParser) -> tuple[Row, Attribute | None]:
    """A row, and the element type if one follows it."""
    leading: list[DimTerm] = []
    trailing: list[DimTerm] | None = None
    var: RowVar | None = None
    while True:
        pos = parser.pos
        if parser.parse_optional_punctuation("..."):
            if trailing is not None:
                parser.raise_error("a row has one variable or split", pos, parser.pos)
            name = parser.parse_optional_identifier()
            var = None if name is None else RowVar(_numbered(parser, name, pos, "bio"))
            trailing = []
        elif (dim := _parse_optional_dim(parser)) is not None:
            (leading if trailing is None else trailing).append(dim)
        elif not leading and trailing is None and parser.parse_optional_punctuation(","):
            parser.raise_error("an axis is missing; an empty row has no comma, as in `4 | i32`", pos, pos + 1)
        else:
            break
        if parser.parse_optional_punctuation(",") is None:
            break
    pos = parser.pos
    element = parser.parse_optional_type()
    if element is not None and not is_stored(element):
        parser.raise_error(_not_numbers(element), pos, parser.pos)
    row = Row((), None, tuple(leading)) if trailing is None else Row(tuple(leading), var, tuple(trailing))
    return row, element


def _parse_optional_dim(parser: AttrParser) -> DimTerm | None:
    pos = parser.pos
    if parser.parse_optional_punctuation("?"):
        return DimVar(_numbered(parser, parser.parse_identifier(" after `?`"), pos, "d"))
    size = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if size is None:
        return None
    if parser.parse_optional_punctuation(":") is None:
        return Dim(size)
    return Dim(size, parser.parse_identifier(" naming the basis"))


def parse_dim(parser: AttrParser) -> DimTerm:
    pos = parser.pos
    dim = _parse_optional_dim(parser)
    if dim is None:
        parser.raise_error("expected a dimension: a size or `?d1`", pos, pos + 1)
    return dim


def _numbered(parser: AttrParser, name: str, pos: int, letters: str) -> int:
    """The number in the name of a variable; the letter of a row variable says nothing."""
    if name[0] not in letters or not name[1:].isdecimal():
        examples = " or ".join(f"`{letter}1`" for letter in letters)
        parser.raise_error(f"a variable is numbered, as in {examples}; found `{name}`", pos, parser.pos)
    return int(name[1:])


@irdl_attr_definition
class DimsAttr(Data[tuple[tuple[str, DimTerm], ...]]):
    """Dimensions of a spec that are fixed or captured by name: `<h = 8, d = ?d7>`."""

    name = "texpr.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, DimTerm], ...]:
        def binding() -> tuple[str, DimTerm]:
            pos = parser.pos
            name = parser.parse_identifier_or_str_literal(" naming a dimension")
            if name in names:
                parser.raise_error(f"`{name}` is given twice", pos, parser.pos)
            names.add(name)
            parser.parse_punctuation("=")
            return name, parse_dim(parser)

        names: set[str] = set()
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, binding))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data, lambda binding: _print_binding(printer, *binding))


def _print_binding(printer: Printer, name: str, dim: DimTerm) -> None:
    """Names of specs may have letters that identifiers of the text have not."""
    printer.print_identifier_or_string_literal(name)
    printer.print_string(f" = {dim}")


def print_logic(printer: Printer, logic: StringAttr | None, dims: DimsAttr | None) -> None:
    """`logic "b | h -> o => b | o" dims <h = 8>`, without what is None."""
    if logic is not None:
        print_parts(printer, " logic ", logic)
    if dims is not None:
        printer.print_string(" dims ")
        dims.print_parameter(printer)


def parse_logic(parser: Parser) -> tuple[str | None, tuple[tuple[str, DimTerm], ...]]:
    """Reads what `print_logic` prints."""
    logic = parser.parse_str_literal() if parser.parse_optional_keyword("logic") else None
    return logic, DimsAttr.parse_parameter(parser) if parser.parse_optional_keyword("dims") else ()


def tensor_type(value: SSAValue) -> TensorType:
    type = value.type
    assert isinstance(type, TensorType)
    return type


def shape_of(value: SSAValue) -> Shape:
    return tensor_type(value).shape.data


@lru_cache(maxsize=2**12)
def known_type(shape: Shape, element: Attribute | None) -> TensorType:
    """The tensor type of a shape and an element type, cached: to construct one is slow."""
    return TensorType.of(shape, element)


def refine_type(value: SSAValue, type: TensorType) -> None:
    """Sets the type of a value to the inferred one, in place."""
    set_type(value, type)


def parse_tensor_type(parser: Parser) -> TensorType:
    pos = parser.pos
    type = parser.parse_type()
    if not isinstance(type, TensorType):
        parser.raise_error("expected a !texpr.tensor type", pos, parser.pos)
    return type
