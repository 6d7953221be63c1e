"""Stand-ins for the arguments and results of scans in a program under construction, which has no blocks."""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, prop_def

from ocannl.dialects.ir.op_helpers import fill, operation_definition
from ocannl.dialects.shapes.shape import DimTerm
from ocannl.dialects.texpr.axes import AxesAttr, Axis
from ocannl.dialects.texpr.tensor_op import TensorOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType


@operation_definition
class ArgumentOp(TensorOp):
    """Stands for an argument of a scan while its body is under construction: `texpr.argument %init` for a
    carry, `texpr.argument %xs at batch -1 <t = 64>` for a position of a sequence.
    """

    name = "texpr.argument"
    source = operand_def(TensorType)
    axes = prop_def(AxesAttr)
    dims = prop_def(DimsAttr)

    def __init__(self, source: SSAValue, axis: Axis | None, count: DimTerm, type: TensorType) -> None:
        axes, dims = AxesAttr(() if axis is None else (axis,)), DimsAttr((("t", count),))
        fill(self, [source], {"axes": axes, "dims": dims}, [type])

    @property
    def axis(self) -> Axis | None:
        """The axis of the sequence; None for a carry."""
        return next(iter(self.axes.data), None)


@operation_definition
class ResultOp(TensorOp):
    """A result of a scan under construction, but for the first one."""

    name = "texpr.result"
    scan = operand_def(TensorType)
    number = prop_def(IntAttr)

    def __init__(self, scan: SSAValue, number: int, type: TensorType) -> None:
        fill(self, [scan], {"number": IntAttr(number)}, [type])
