"""Base classes of operations with one tensor as the result, and the check of index maps to tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import Attribute, OpResult, SSAValue, SSAValues
from xdsl.irdl import IRDLOperation, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_names
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.ir.op_helpers import OWN_RESULTS, OwnOperation, print_parts
from ocannl.dialects.routine import static_ranges
from ocannl.dialects.shapes.shape import Shape
from ocannl.dialects.texpr.tensor_type import TensorType, parse_tensor_type


class TensorOp(OwnOperation):
    """An operation with one tensor as its result."""

    result = result_def(TensorType)
    results: SSAValues[OpResult[Attribute]] = OWN_RESULTS

    def _print_type(self, printer: Printer) -> None:
        print_parts(printer, " : ", self.result.type)


def parse_result_type(parser: Parser) -> TensorType:
    parser.parse_punctuation(":")
    return parse_tensor_type(parser)


class LikeOp(TensorOp, ABC):
    """An operation whose result has the shape and the precision of a value; of integers the
    precision is f32.
    """

    @property
    @abstractmethod
    def like(self) -> SSAValue:
        """The value whose shape the result has."""

    @property
    def refinements(self) -> Iterable[tuple[SSAValue, SSAValue]]:
        """Pairs of values of which the second is broadcast to the first."""
        return ()


def check_tensor_access(
    op: IRDLOperation, shape: Shape, indices: Sequence[Linear], sizes: Mapping[str, int]
) -> None:
    if not shape.is_final:
        raise VerifyException(f"an index map needs a final shape, found {shape}")
    axes = shape.memory_sizes
    if len(indices) != len(axes):
        raise VerifyException(f"{len(indices)} indices for the {len(axes)} axes of {shape}")
    for index, size in zip(indices, axes, strict=True):
        if static_ranges(op) is not None:
            check_names(op, index.names, sizes)
        extremes = index.extremes(sizes)
        if extremes is not None and not (extremes[0] >= 0 and extremes[1] < size) and 0 not in sizes.values():
            raise VerifyException(
                f"index {index} runs from {extremes[0]} to {extremes[1]}, outside size {size}"
            )
