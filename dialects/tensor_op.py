"""What the operations on tensors share: one tensor as the result, and shapes that follow from operands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from ocannl.dialects.tensor_type import TensorType, parse_tensor_type


class TensorOp(IRDLOperation):
    """An operation with one tensor as its result."""

    result = result_def(TensorType)

    def _print_type(self, printer: Printer) -> None:
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def parse_result_type(parser: Parser) -> TensorType:
    parser.parse_punctuation(":")
    return parse_tensor_type(parser)


class LikeOp(TensorOp, ABC):
    """An operation whose result has the shape of a value, and its precision, or f32 for integers."""

    @property
    @abstractmethod
    def like(self) -> SSAValue:
        """The value whose shape the result has."""

    @property
    def refinements(self) -> Iterable[tuple[SSAValue, SSAValue]]:
        """Pairs of values of which the second is broadcast to the first."""
        return ()
