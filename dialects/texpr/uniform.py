"""`texpr.uniform`: random numbers in tensor expressions."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_operand_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import operation_definition, parse_defined_operand, print_parts
from ocannl.dialects.scalar.precisions import is_float
from ocannl.dialects.scalar.streams import Stream, StreamAttr, parse_stream, print_stream
from ocannl.dialects.texpr.tensor_op import TensorOp, parse_result_type
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of


@operation_definition
class UniformOp(TensorOp):
    """Random numbers in [0, 1): `texpr.uniform "dropout#1" at %step`.

    Functions of the stream, the counter, which is one whole number, and each element's place in memory. The
    shape is inferred, or that of a tensor: `like %x`, until shapes are known.
    """

    name = "texpr.uniform"
    stream = prop_def(StreamAttr)
    counter = operand_def(TensorType)
    like = opt_operand_def(TensorType)

    def __init__(
        self, stream: Stream, counter: SSAValue, type: TensorType, like: SSAValue | None = None
    ) -> None:
        super().__init__(
            operands=[counter, like], properties={"stream": StreamAttr(stream)}, result_types=[type]
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_stream(printer, self.stream.data)
        print_parts(printer, " at ", self.counter)
        if self.like is not None:
            print_parts(printer, " like ", self.like)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> UniformOp:
        stream = parse_stream(parser)
        parser.parse_keyword("at")
        counter = parse_defined_operand(parser)
        like = parse_defined_operand(parser) if parser.parse_optional_keyword("like") else None
        return cls(stream, counter, parse_result_type(parser), like)

    def verify_(self) -> None:
        element = self.result.type.element_or_none
        if element is not None and not is_float(element):
            raise VerifyException(f"random numbers are floats, found {element}")
        shape = shape_of(self.counter)
        if shape.is_final and any(size != 1 for size in shape.memory_sizes):
            raise VerifyException(f"a counter is one number, found shape {shape}")
