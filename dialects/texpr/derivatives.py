"""Derivatives as operations of the `texpr` dialect: gone after the pass `differentiate`.

Reverse mode is `texpr.vjp`, forward mode `texpr.jvp`. Both differentiate `y`
with respect to perturbations that are added to each `x`. So `x` may be any value that `y` depends on, also an
intermediate one, and the perturbation of one propagates through the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue
from xdsl.irdl import SameVariadicOperandSize, operand_def, opt_operand_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import operation_definition, parse_defined_operand, print_parts
from ocannl.dialects.texpr.tensor_op import LikeOp, parse_result_type
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of


class DerivativeOp(LikeOp):
    """Base of derivatives: the result has the shape of the value that they are about."""

    def verify_(self) -> None:
        wanted, found = shape_of(self.like), shape_of(self.result)
        if wanted.is_final and found.is_final and wanted.memory_sizes != found.memory_sizes:
            raise VerifyException(f"the result has the shape {wanted}, found {found}")


@operation_definition
class VjpOp(DerivativeOp):
    """`texpr.vjp %y wrt %x from %ct`: the gradient with respect to `x` of the sum of `y * ct`.

    Without a cotangent `y` is one number.
    """

    name = "texpr.vjp"
    tensor = operand_def(TensorType)
    wrt = operand_def(TensorType)
    cotangent = opt_operand_def(TensorType)

    def __init__(self, tensor: SSAValue, wrt: SSAValue, cotangent: SSAValue | None, type: TensorType) -> None:
        super().__init__(operands=[tensor, wrt, cotangent], result_types=[type])

    @property
    def like(self) -> SSAValue:
        return self.wrt

    @property
    def refinements(self) -> Iterable[tuple[SSAValue, SSAValue]]:
        return () if self.cotangent is None else ((self.tensor, self.cotangent),)

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.tensor, " wrt ", self.wrt)
        if self.cotangent is not None:
            print_parts(printer, " from ", self.cotangent)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> VjpOp:
        tensor = parse_defined_operand(parser)
        parser.parse_keyword("wrt")
        wrt = parse_defined_operand(parser)
        cotangent = parse_defined_operand(parser) if parser.parse_optional_keyword("from") else None
        return cls(tensor, wrt, cotangent, parse_result_type(parser))


@operation_definition
class JvpOp(DerivativeOp):
    """`texpr.jvp %y wrt (%x = %tx)`: the directional derivative of `y` along the tangent of each `x`."""

    name = "texpr.jvp"
    tensor = operand_def(TensorType)
    wrt = var_operand_def(TensorType)
    tangents = var_operand_def(TensorType)
    irdl_options = (SameVariadicOperandSize(),)

    def __init__(
        self, tensor: SSAValue, wrt: Sequence[SSAValue], tangents: Sequence[SSAValue], type: TensorType
    ) -> None:
        super().__init__(operands=[tensor, wrt, tangents], result_types=[type])

    @property
    def like(self) -> SSAValue:
        return self.tensor

    @property
    def refinements(self) -> Iterable[tuple[SSAValue, SSAValue]]:
        return tuple(zip(self.wrt, self.tangents, strict=True))

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.tensor, " wrt ")
        _print_pairs(printer, self.wrt, self.tangents)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> JvpOp:
        tensor = parse_defined_operand(parser)
        parser.parse_keyword("wrt")
        wrt, tangents = _parse_pairs(parser)
        return cls(tensor, wrt, tangents, parse_result_type(parser))


@operation_definition
class AdjointOp(DerivativeOp):
    """`texpr.adjoint %y`: stands for the cotangent of `y` inside a custom gradient of it, and
    nowhere else.
    """

    name = "texpr.adjoint"
    source = operand_def(TensorType)

    def __init__(self, source: SSAValue, type: TensorType) -> None:
        super().__init__(operands=[source], result_types=[type])

    @property
    def like(self) -> SSAValue:
        return self.source

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.source, " : ", self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> AdjointOp:
        return cls(parse_defined_operand(parser), parse_result_type(parser))


@operation_definition
class CustomOp(DerivativeOp):
    """`texpr.custom %y adjoint %ct pullback (%x = %g)`: the value of `y`, with a gradient of its own.

    In reverse mode a cotangent `ct` becomes the cotangent `g` of each `x`, summed over the axes along which
    `x` is broadcast. Nothing flows to other values that `y` depends on.
    """

    name = "texpr.custom"
    source = operand_def(TensorType)
    adjoint = operand_def(TensorType)
    wrt = var_operand_def(TensorType)
    pullbacks = var_operand_def(TensorType)
    irdl_options = (SameVariadicOperandSize(),)

    def __init__(
        self,
        source: SSAValue,
        adjoint: SSAValue,
        wrt: Sequence[SSAValue],
        pullbacks: Sequence[SSAValue],
        type: TensorType,
    ) -> None:
        super().__init__(operands=[source, adjoint, wrt, pullbacks], result_types=[type])

    @property
    def like(self) -> SSAValue:
        return self.source

    @property
    def refinements(self) -> Iterable[tuple[SSAValue, SSAValue]]:
        return tuple(zip(self.pullbacks, self.wrt, strict=True))

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.source, " adjoint ", self.adjoint, " pullback ")
        _print_pairs(printer, self.wrt, self.pullbacks)
        self._print_type(printer)

    @classmethod
    def parse(cls, parser: Parser) -> CustomOp:
        source = parse_defined_operand(parser)
        parser.parse_keyword("adjoint")
        adjoint = parse_defined_operand(parser)
        parser.parse_keyword("pullback")
        wrt, pullbacks = _parse_pairs(parser)
        return cls(source, adjoint, wrt, pullbacks, parse_result_type(parser))

    def verify_(self) -> None:
        super().verify_()
        if not isinstance(self.adjoint.owner, AdjointOp):
            raise VerifyException("what reaches a custom gradient is a `texpr.adjoint`")
        if self.adjoint.owner.source != self.source:
            raise VerifyException("the `texpr.adjoint` of a custom gradient is that of its value")


def _print_pairs(printer: Printer, left: Iterable[SSAValue], right: Iterable[SSAValue]) -> None:
    with printer.in_parens():
        pairs = zip(left, right, strict=True)
        printer.print_list(pairs, lambda pair: print_parts(printer, pair[0], " = ", pair[1]))


def _parse_pairs(parser: Parser) -> tuple[list[SSAValue], list[SSAValue]]:
    def pair() -> tuple[SSAValue, SSAValue]:
        left = parse_defined_operand(parser)
        parser.parse_punctuation("=")
        return left, parse_defined_operand(parser)

    pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
    return [left for left, _ in pairs], [right for _, right in pairs]
