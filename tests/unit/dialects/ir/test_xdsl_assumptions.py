"""Assumptions about xDSL's private parts that helpers in `dialects/ir` rely on.

A new version of xDSL that breaks one of them fails here, and not somewhere in a pass.
"""

from __future__ import annotations

from dataclasses import fields
from io import StringIO
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, IndexType, MemRefType, StringAttr, f32
from xdsl.ir import Attribute, Block, Operation, OpResult
from xdsl.irdl import (
    IRDLOperation,
    VarIRConstruct,
    irdl_op_definition,
    operand_def,
    region_def,
    result_def,
    var_operand_def,
)
from xdsl.irdl.operations import BeforeVariadicSingleAccessor, UniqueVariadicAccessor
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from ocannl.dialects.ir.locating_parser import LinearTimeLexer, LocatingParser
from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    copied,
    fill,
    operands_of,
    operation_definition,
    operations_of,
    set_type,
)
from ocannl.dialects.ir.origins import place
from ocannl.dialects.ir.text_printer import TextPrinter, op_text

TEXT = """
builtin.module {
  %a = "test.make"() {note = "a \\"quote\\"", bits = dense<[1, 2]> : tensor<2xi32>} : () -> memref<3xf32>
  %b, %c = "test.use"(%a, %a) ({
    "test.inner"(%a) : (memref<3xf32>) -> ()
  }) : (memref<3xf32>, memref<3xf32>) -> (f32, index)
}
"""


class TwoOperands(IRDLOperation):
    """One operand, several, and one at the end, a result and a region."""

    name = "test.two"
    first = operand_def()
    some = var_operand_def()
    last = operand_def()
    result = result_def()
    body = region_def()


Slow = irdl_op_definition(type("Slow", (TwoOperands,), {"name": "test.slow"}))
Fast = operation_definition(type("Fast", (TwoOperands,), {"name": "test.fast"}))


def context() -> Context:
    ctx = Context(allow_unregistered=True)
    ctx.load_dialect(Builtin)
    return ctx


def parsed(text: str = TEXT) -> Operation:
    return LocatingParser(context(), text, "text.mlir").parse_module()


def inner(module: Operation) -> list[Operation]:
    return list(module.regions[0].block.ops)


def text_of(op: Operation) -> str:
    stream = StringIO()
    Printer(stream).print_op(op)
    return stream.getvalue()


class TestOperations:
    def test_operands_are_a_tuple_that_follows_changes(self):
        make, use = inner(parsed())
        assert operands_of(use) == (make.results[0], make.results[0])
        assert isinstance(operands_of(use), tuple)
        other = Block(arg_types=[f32]).args[0]
        use.operands[1] = other
        assert operands_of(use) == (make.results[0], other)
        use.operands = [other]
        assert operands_of(use) == tuple(use.operands) == (other,)

    def test_the_operations_of_a_block_are_linked(self):
        block = parsed().regions[0].block
        assert operations_of(block) == list(block.ops)
        assert operations_of(Block()) == []

    def test_accessors_have_places(self):
        """`operation_definition` knows from them which part of a tuple each accessor gives."""
        first, some = (vars(Slow)[name] for name in ("first", "some"))
        assert isinstance(first, BeforeVariadicSingleAccessor)
        assert isinstance(some, UniqueVariadicAccessor)
        assert (first.construct, first.idx) == (VarIRConstruct.OPERAND, 0)
        assert (some.construct, some.idx, some.num_defs) == (VarIRConstruct.OPERAND, 1, 3)

    @pytest.mark.parametrize("count", range(3))
    def test_fast_accessors_give_the_same(self, count: int):
        values = Block(arg_types=[f32] * (count + 2)).args
        found: list[Any] = []
        for kind in (Slow, Fast):
            op: Any = kind.create(operands=values, result_types=[f32], regions=[parsed().regions[0].clone()])
            assert op.result is op.results[0]
            assert op.body is op.regions[0]
            found.append((op.first, tuple(op.some), op.last))
        assert found[0] == found[1] == (values[0], tuple(values[1:-1]), values[-1])

    def test_fast_accessors_are_there(self):
        assert all(isinstance(vars(Fast)[name], property) for name in ("first", "some", "result", "body"))

    def test_values_are_equal_to_themselves_alone(self):
        """So the hash of an object is theirs, which `op_helpers` gives to them in place of xDSL's."""
        module = parsed()
        values = [*Block(arg_types=[f32, f32]).args, *(v for op in inner(module) for v in op.results)]
        alike = [*Block(arg_types=[f32, f32]).args, *(v for op in inner(module.clone()) for v in op.results)]
        assert all((one == other) == (one is other) for one in values for other in values + alike)
        assert [type(value).__hash__ for value in values] == [object.__hash__] * len(values)
        assert len({*values, *alike}) == len(values) + len(alike)

    def test_a_type_can_be_replaced(self):
        (make, _) = inner(parsed())
        value, uses = make.results[0], len(list(make.results[0].uses))
        set_type(value, f32)
        assert value.type == f32
        assert value is make.results[0]
        assert len(list(value.uses)) == uses


class Kind(OwnOperation):
    """A class of operations, of which others are made."""


@operation_definition
class OneKind(Kind):
    name = "test.one_kind"


@operation_definition
class OtherKind(Kind):
    name = "test.other_kind"


class TestKinds:
    def test_operations_are_of_their_classes_and_the_bases_of_these(self):
        op: object = OneKind()
        for kind in (OneKind, Kind, OwnOperation, IRDLOperation, Operation):
            assert isinstance(op, kind)
            assert isinstance(op, OtherKind | kind)
            assert isinstance(op, (OtherKind, kind))

    def test_operations_are_of_no_others(self):
        for other in (OtherKind(), inner(parsed())[0], f32, None):
            assert not isinstance(other, OneKind)
            assert not isinstance(other, OneKind | TwoOperands)


class TestFill:
    @pytest.mark.parametrize("count", range(3))
    def test_it_does_what_the_constructor_of_xdsl_does(self, count: int):
        values, types = Block(arg_types=[f32] * count).args, [f32, IndexType()][:count]
        properties: dict[str, Attribute] = {"a": StringAttr("b")}
        made, filled = OneKind.create(operands=values, result_types=types, properties=properties), OneKind()
        fill(filled, values, dict(properties), types)
        for field in fields(Operation):
            assert hasattr(filled, field.name)
        for op in (made, filled):
            assert operands_of(op) == tuple(values)
            assert [use.operation for value in values for use in value.uses if use.operation is op] == [
                op
            ] * count
            assert [(result.type, result.index, result.op) for result in op.results] == [
                (type, at, op) for at, type in enumerate(types)
            ]
        for name in ("properties", "attributes", "location", "regions", "parent", "successors"):
            assert getattr(made, name) == getattr(filled, name)

    def test_nothing_is_shared(self):
        one, other = OneKind(), OneKind()
        for op in (one, other):
            fill(op)
        one.properties["a"] = one.attributes["a"] = f32
        assert not other.properties
        assert not other.attributes


class TestCopies:
    def test_a_copy_is_a_clone(self):
        module = parsed()
        assert module.is_structurally_equivalent(copied(module, {}))
        assert text_of(copied(module, {})) == text_of(module.clone())

    def test_a_copy_has_every_field_of_an_operation(self):
        """`copied` sets no field that has a default; a new field without one would be missing."""
        use = inner(parsed())[1]
        copy, clone = copied(use, {}), use.clone()
        names = [field.name for field in fields(Operation)]
        assert {"_operands", "results", "properties", "attributes", "location", "regions"} <= set(names)
        assert [getattr(copy, name, "missing") is None for name in names] == [
            getattr(clone, name, "missing") is None for name in names
        ]
        assert all(hasattr(copy, name) for name in names)

    def test_locations_are_replaced_inside_and_out(self):
        use, there = inner(parsed())[1], place("there", 1)
        copy = copied(use, {}, lambda own: there)
        assert {op.location for op in copy.walk()} == {there}
        assert there not in {op.location for op in use.walk()}

    def test_uses_are_counted(self):
        make, use = inner(parsed())
        copy = copied(use, {})
        assert len(list(make.results[0].uses)) == 6
        assert [type(result) for result in copy.results] == [OpResult, OpResult]
        copy.operands = []
        assert len(list(make.results[0].uses)) == 4


class TestParser:
    def test_the_lexer_of_a_parser_can_be_replaced(self):
        parser = LocatingParser(context(), TEXT, "text.mlir")
        assert isinstance(parser.lexer, LinearTimeLexer)
        assert text_of(parser.parse_module()) == text_of(Parser(context(), TEXT).parse_module())

    @pytest.mark.parametrize(
        "text", ['"a"', '"a\\n"', '"\\22\\\\"', '""', '"a" "b"', '"é"', '"\\FF"'], ids=ascii
    )
    def test_strings_are_the_same_tokens(self, text: str):
        tokens: list[list[tuple[object, str]]] = []
        for lexer in (MLIRLexer(Input(text, "")), LinearTimeLexer(Input(text, ""))):
            found = [lexer.lex()]
            while found[-1].kind is not MLIRTokenKind.EOF:
                found.append(lexer.lex())
            tokens.append([(token.kind, token.text) for token in found])
        assert tokens[0] == tokens[1]

    def test_a_string_without_an_end_is_refused(self):
        with pytest.raises(ParseError):
            LinearTimeLexer(Input('"' + "\\\\" * 30, "")).lex()

    @pytest.mark.parametrize("text", ["é", "日本", 'a "b"'])
    def test_text_beyond_ascii_is_read(self, text: str):
        """xDSL prints it as bytes, and reads those as another kind of token."""
        printed = StringIO()
        Printer(printed).print_string_literal(text)
        read = LocatingParser(context(), printed.getvalue(), "").parse_optional_str_literal()
        assert read == text

    def test_operations_get_their_places(self):
        use = inner(parsed())[1]
        assert str(use.location) == 'loc("text.mlir":4:3)'


class TestPrinter:
    def test_the_text_is_that_of_xdsl(self):
        module = parsed()
        assert op_text(module) == text_of(module)

    def test_types_are_printed_alike_every_time(self):
        printer = TextPrinter()
        for _ in range(2):
            printer.print_attribute(MemRefType(f32, [3]))
        assert printer.parts[-1] == "memref<3xf32>"
        assert "".join(printer.parts) == "memref<3xf32>" * 2

    def test_regions_are_indented(self):
        assert '    "test.inner"' in op_text(parsed())
