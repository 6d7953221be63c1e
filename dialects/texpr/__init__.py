"""The `texpr` dialect: pure tensor expressions with inferred shapes, and the code of a routine over them.

An expression has one operation a tensor. As built, `texpr.apply` has a logic (`"."` pointwise, `"@"` compose,
`"T"` transpose, or an einsum spec) and types with row and dimension variables; after projection inference it
has an iteration space and index maps instead.
"""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.irdl import prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_names
from ocannl.dialects.index.linear import Linear, MapAttr, only_index, parse_linear
from ocannl.dialects.ir.op_helpers import fill, operation_definition, print_parts
from ocannl.dialects.routine import static_ranges
from ocannl.dialects.scalar.combination import TermAttr, number_text, parse_number
from ocannl.dialects.scalar.terms import Const
from ocannl.dialects.shapes.shape import Dim, DimTerm
from ocannl.dialects.texpr.apply import ApplyOp
from ocannl.dialects.texpr.axes import AxesAttr
from ocannl.dialects.texpr.code import (
    AssignOp,
    BackpropOp,
    CommentOp,
    ForwardOp,
    OnTensorOp,
    TexprRoutineOp,
    ZeroGradsOp,
)
from ocannl.dialects.texpr.collectives import COLLECTIVES
from ocannl.dialects.texpr.derivatives import AdjointOp, CustomOp, JvpOp, VjpOp
from ocannl.dialects.texpr.memory import DataOp, GradOp, MemoryOp, MergeOp, NodeOp, OfOp, ParamOp, ValueOp
from ocannl.dialects.texpr.messages import MESSAGES
from ocannl.dialects.texpr.parts import PartAttr
from ocannl.dialects.texpr.placement import PlacementAttr
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_yield import YieldOp
from ocannl.dialects.texpr.slices import PositionsAttr, SliceOp
from ocannl.dialects.texpr.tensor_op import TensorOp, parse_result_type
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
    "MergeOp",
    "NodeOp",
    "OfOp",
    "OnTensorOp",
    "ParamOp",
    "RangeOp",
    "ScanOp",
    "SizeOp",
    "SliceOp",
    "TensorOp",
    "TexprRoutineOp",
    "UniformOp",
    "ValueOp",
    "VjpOp",
    "YieldOp",
    "ZeroGradsOp",
]


@operation_definition
class ConstantOp(TensorOp):
    """A number at every point of its inferred shape: `texpr.constant 1.0`."""

    name = "texpr.constant"
    term = prop_def(TermAttr)

    def __init__(self, value: float, type: TensorType) -> None:
        fill(self, (), {"term": TermAttr(Const(value))}, [type])

    @property
    def value(self) -> float:
        term = self.term.data
        assert isinstance(term, Const)
        return term.value

    def print(self, printer: Printer) -> None:
        print_parts(printer, f" {number_text(self.value)} : ", self.result.type)

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
        fill(self, (), {"dims": DimsAttr((("d", dim),))}, [type])

    @property
    def dim(self) -> DimTerm:
        return self.dims.data[0][1]

    def print(self, printer: Printer) -> None:
        print_parts(printer, f" {self.dim} : ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> SizeOp:
        size = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        if size is None:
            return cls(parse_dim(parser), parse_result_type(parser))
        # A basis follows a colon, and so does the type, which is not an identifier.
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
        fill(self, (), None, [type])

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
        fill(self, (), {"indices": MapAttr((index,))}, [type])

    @property
    def index(self) -> Linear:
        return self.indices.data[0]

    def print(self, printer: Printer) -> None:
        print_parts(printer, f" {self.index} : ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> EmbedOp:
        return cls(parse_linear(parser), parse_result_type(parser))

    def verify_(self) -> None:
        index = only_index(self.indices.data)
        if static_ranges(self) is not None:
            check_names(self, index.names, {})


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
        MergeOp,
        ApplyOp,
        VjpOp,
        JvpOp,
        AdjointOp,
        CustomOp,
        ScanOp,
        YieldOp,
        AssignOp,
        ForwardOp,
        ZeroGradsOp,
        BackpropOp,
        CommentOp,
        TexprRoutineOp,
        *COLLECTIVES,
        *MESSAGES,
    ],
    [ShapeAttr, TensorType, DimsAttr, PartAttr, PositionsAttr, AxesAttr, PlacementAttr],
)
