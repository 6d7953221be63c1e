"""Collectives: operations in which the ranks along one axis of a mesh exchange their parts of a tensor."""

from __future__ import annotations

from abc import abstractmethod

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import check_accumulator
from ocannl.dialects.ir.op_helpers import operation_definition, parse_defined_operand, print_parts
from ocannl.dialects.routine import enclosing_routine
from ocannl.dialects.texpr.tensor_op import TensorOp, parse_result_type
from ocannl.dialects.texpr.tensor_type import TensorType, shape_of


def part_of(size: int, ranks: int) -> int:
    """The size of each rank's part of an axis: those of the last ranks may have less that is real."""
    return -(-size // ranks)


class CollectiveOp(TensorOp):
    """Base of collectives over one mesh axis. Axes are numbered in memory order."""

    tensor = operand_def(TensorType)
    mesh = prop_def(StringAttr)

    @property
    @abstractmethod
    def moved_axes(self) -> tuple[int, ...]:
        """The axes whose sizes the operand and the result do not share."""

    @abstractmethod
    def wanted_sizes(self, sizes: list[int], ranks: int) -> list[int]:
        """The sizes that a result has for those of an operand. Raises `VerifyException`."""

    def verify_(self) -> None:
        routine = enclosing_routine(self)
        ranks = {} if routine is None else routine.mesh_sizes
        operand, result = shape_of(self.tensor), shape_of(self.result)
        if routine is None or not (operand.is_final and result.is_final):
            return
        if self.mesh.data not in ranks:
            raise VerifyException(f'the routine\'s mesh has no axis "{self.mesh.data}"')
        sizes = operand.memory_sizes
        if any(axis >= len(sizes) for axis in self.moved_axes):
            raise VerifyException(f"axis {max(self.moved_axes)} of a tensor of {len(sizes)} axes")
        wanted = self.wanted_sizes([*sizes], ranks[self.mesh.data])
        if wanted != [*result.memory_sizes]:
            raise VerifyException(f"the sizes of the result are {wanted}, found {[*result.memory_sizes]}")

    def _print_end(self, printer: Printer) -> None:
        print_parts(printer, " over ", self.mesh)
        self._print_type(printer)


def _parse_end(parser: Parser) -> tuple[str, TensorType]:
    parser.parse_keyword("over")
    return parser.parse_str_literal(" naming a mesh axis"), parse_result_type(parser)


def _given_axis(parser: Parser) -> int:
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


def _check_gathered(operand: int, size: int, ranks: int) -> None:
    if operand != part_of(size, ranks):
        raise VerifyException(
            f"{ranks} ranks have parts of {part_of(size, ranks)} of {size}, found {operand}"
        )


@operation_definition
class AllReduceOp(CollectiveOp):
    """`texpr.all_reduce %x add over "data"`: what the ranks have, accumulated in their order, on each."""

    name = "texpr.all_reduce"
    accum = prop_def(StringAttr)

    def __init__(self, tensor: SSAValue, accum: str, mesh: str, type: TensorType) -> None:
        properties: dict[str, Attribute] = {"accum": StringAttr(accum), "mesh": StringAttr(mesh)}
        Operation.__init__(self, operands=[tensor], properties=properties, result_types=[type])

    @property
    def moved_axes(self) -> tuple[int, ...]:
        return ()

    def wanted_sizes(self, sizes: list[int], ranks: int) -> list[int]:
        check_accumulator(self.accum.data)
        return sizes

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.tensor, f" {self.accum.data}")
        self._print_end(printer)

    @classmethod
    def parse(cls, parser: Parser) -> AllReduceOp:
        tensor, accum = parse_defined_operand(parser), parser.parse_identifier(" naming an accumulation")
        return cls(tensor, accum, *_parse_end(parser))


@operation_definition
class ReduceScatterOp(CollectiveOp):
    """`texpr.reduce_scatter %x add to 0 over "data"`: as `texpr.all_reduce`, but each rank has its part of an
    axis only.
    """

    name = "texpr.reduce_scatter"
    accum = prop_def(StringAttr)
    target = prop_def(IntAttr)

    def __init__(self, tensor: SSAValue, accum: str, target: int, mesh: str, type: TensorType) -> None:
        properties: dict[str, Attribute] = {
            "accum": StringAttr(accum),
            "target": IntAttr(target),
            "mesh": StringAttr(mesh),
        }
        Operation.__init__(self, operands=[tensor], properties=properties, result_types=[type])

    @property
    def moved_axes(self) -> tuple[int, ...]:
        return (self.target.data,)

    def wanted_sizes(self, sizes: list[int], ranks: int) -> list[int]:
        check_accumulator(self.accum.data)
        sizes[self.target.data] = part_of(sizes[self.target.data], ranks)
        return sizes

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.tensor, f" {self.accum.data} to {self.target.data}")
        self._print_end(printer)

    @classmethod
    def parse(cls, parser: Parser) -> ReduceScatterOp:
        tensor, accum = parse_defined_operand(parser), parser.parse_identifier(" naming an accumulation")
        parser.parse_keyword("to")
        return cls(tensor, accum, _given_axis(parser), *_parse_end(parser))


@operation_definition
class AllGatherOp(CollectiveOp):
    """`texpr.all_gather %x at 0 of 10 over "data"`: the ranks' parts of an axis one behind the other, on
    each: 10 cells in all, without what the last ranks have beyond them.
    """

    name = "texpr.all_gather"
    source = prop_def(IntAttr)
    size = prop_def(IntAttr)

    def __init__(self, tensor: SSAValue, source: int, size: int, mesh: str, type: TensorType) -> None:
        properties: dict[str, Attribute] = {
            "source": IntAttr(source),
            "size": IntAttr(size),
            "mesh": StringAttr(mesh),
        }
        Operation.__init__(self, operands=[tensor], properties=properties, result_types=[type])

    @property
    def moved_axes(self) -> tuple[int, ...]:
        return (self.source.data,)

    def wanted_sizes(self, sizes: list[int], ranks: int) -> list[int]:
        _check_gathered(sizes[self.source.data], self.size.data, ranks)
        sizes[self.source.data] = self.size.data
        return sizes

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.tensor, f" at {self.source.data} of {self.size.data}")
        self._print_end(printer)

    @classmethod
    def parse(cls, parser: Parser) -> AllGatherOp:
        tensor = parse_defined_operand(parser)
        return cls(tensor, *_parse_gathered(parser), *_parse_end(parser))


def _parse_gathered(parser: Parser) -> tuple[int, int]:
    parser.parse_keyword("at")
    source = _given_axis(parser)
    parser.parse_keyword("of")
    return source, _given_axis(parser)


@operation_definition
class AllToAllOp(CollectiveOp):
    """`texpr.all_to_all %x at 0 of 10 to 1 over "data"`: what is split along one axis, of 10 cells in all,
    is split along another one.
    """

    name = "texpr.all_to_all"
    source = prop_def(IntAttr)
    size = prop_def(IntAttr)
    target = prop_def(IntAttr)

    def __init__(
        self, tensor: SSAValue, source: int, size: int, target: int, mesh: str, type: TensorType
    ) -> None:
        properties: dict[str, Attribute] = {
            "source": IntAttr(source),
            "size": IntAttr(size),
            "target": IntAttr(target),
            "mesh": StringAttr(mesh),
        }
        Operation.__init__(self, operands=[tensor], properties=properties, result_types=[type])

    @property
    def moved_axes(self) -> tuple[int, ...]:
        return self.source.data, self.target.data

    def wanted_sizes(self, sizes: list[int], ranks: int) -> list[int]:
        if self.source.data == self.target.data:
            raise VerifyException("a tensor is split along another axis than before")
        _check_gathered(sizes[self.source.data], self.size.data, ranks)
        sizes[self.source.data] = self.size.data
        sizes[self.target.data] = part_of(sizes[self.target.data], ranks)
        return sizes

    def print(self, printer: Printer) -> None:
        axes = f" at {self.source.data} of {self.size.data} to {self.target.data}"
        print_parts(printer, " ", self.tensor, axes)
        self._print_end(printer)

    @classmethod
    def parse(cls, parser: Parser) -> AllToAllOp:
        tensor = parse_defined_operand(parser)
        source, size = _parse_gathered(parser)
        parser.parse_keyword("to")
        return cls(tensor, source, size, _given_axis(parser), *_parse_end(parser))


COLLECTIVES = (AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp)
