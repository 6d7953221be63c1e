"""Operations of `texpr` that are memory: parameters, data, nodes, gradients and last values of tensors."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import (
    fill,
    given,
    operation_definition,
    parse_defined_operand,
    print_parts,
)
from ocannl.dialects.texpr.placement import PlacementAttr, check_placement, parse_placement, print_placement
from ocannl.dialects.texpr.tensor_op import LikeOp, TensorOp, parse_result_type
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of


class MemoryOp(TensorOp):
    """A named tensor node: reading it gives the value that its memory has at that point."""

    label = prop_def(StringAttr)
    placement = opt_prop_def(PlacementAttr)

    def __init__(self, label: str, type: TensorType, placement: PlacementAttr | None = None) -> None:
        fill(self, (), given(label=StringAttr(label), placement=placement), [type])

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.label)
        print_placement(printer, self.placement)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser):
        label = parser.parse_str_literal(" naming the node")
        placement = parse_placement(parser)
        return cls(label, parse_result_type(parser), placement)

    def verify_(self) -> None:
        check_placement(self)


@operation_definition
class ParamOp(MemoryOp):
    """A parameter: memory that training updates."""

    name = "texpr.param"


@operation_definition
class DataOp(MemoryOp):
    """A data tensor: memory that the user fills. `texpr.data "x" flat 12` has 12 elements, in whatever
    shape its uses give it.
    """

    name = "texpr.data"
    elements = opt_prop_def(IntAttr)

    def __init__(
        self,
        label: str,
        type: TensorType,
        elements: int | None = None,
        placement: PlacementAttr | None = None,
    ) -> None:
        super().__init__(label, type, placement)
        if elements is not None:
            self.properties["elements"] = IntAttr(elements)

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.label)
        if self.elements is not None:
            printer.print_string(f" flat {self.elements.data}")
        print_placement(printer, self.placement)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> DataOp:
        label = parser.parse_str_literal(" naming the node")
        elements = None
        if parser.parse_optional_keyword("flat"):
            elements = parser.parse_integer(allow_boolean=False, allow_negative=False)
        placement = parse_placement(parser)
        return cls(label, parse_result_type(parser), elements, placement)

    def verify_(self) -> None:
        super().verify_()
        shape = shape_of(self.result)
        if self.elements is not None and shape.is_final:
            elements, found = self.elements.data, math.prod(shape.memory_sizes)
            if elements != found:
                raise VerifyException(f"flat data of {elements} elements has a shape of {found}: {shape}")


@operation_definition
class NodeOp(MemoryOp):
    """A non-differentiable tensor node, written by code."""

    name = "texpr.node"


class OfOp(LikeOp):
    """Memory that belongs to a tensor: its gradient or its last value."""

    source = operand_def(TensorType)
    placement = opt_prop_def(PlacementAttr)

    @property
    def like(self) -> SSAValue:
        return self.source

    def __init__(self, source: SSAValue, type: TensorType, placement: PlacementAttr | None = None) -> None:
        fill(self, [source], given(placement=placement), [type])

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.source)
        print_placement(printer, self.placement)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser):
        source, placement = parse_defined_operand(parser), parse_placement(parser)
        return cls(source, parse_result_type(parser), placement)

    def verify_(self) -> None:
        check_placement(self)


@operation_definition
class GradOp(OfOp):
    """The gradient node of a tensor; `texpr.backprop` adds to it."""

    name = "texpr.grad"


@operation_definition
class ValueOp(OfOp):
    """The memory that the last computation of an expression left."""

    name = "texpr.value"


@operation_definition
class MergeOp(MemoryOp):
    """The value of memory in another context, one of those that are numbered `from`, as a run begins: a merge
    buffer, which nothing writes but that.
    """

    name = "texpr.merge"
    source = operand_def(TensorType)
    context = prop_def(IntAttr)

    def __init__(
        self,
        label: str,
        source: SSAValue,
        context: int,
        type: TensorType,
        placement: PlacementAttr | None = None,
    ) -> None:
        properties = given(label=StringAttr(label), context=IntAttr(context), placement=placement)
        fill(self, [source], properties, [type])

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.label, " of ", self.source, f" from {self.context.data}")
        print_placement(printer, self.placement)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> MergeOp:
        label = parser.parse_str_literal(" naming the node")
        parser.parse_keyword("of")
        source = parse_defined_operand(parser)
        parser.parse_keyword("from")
        context = parser.parse_integer(allow_boolean=False, allow_negative=False)
        placement = parse_placement(parser)
        return cls(label, source, context, parse_result_type(parser), placement)

    def verify_(self) -> None:
        super().verify_()
        owner = self.source.owner
        if not isinstance(owner, MemoryOp | OfOp) or isinstance(owner, MergeOp):
            raise VerifyException("only memory is merged: a parameter, data, a node, a gradient or a value")
