"""The code of a `texpr` routine: what is computed, written to memory and differentiated, in order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_prop_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign import (
    axes_at_ids,
    check_accumulator,
    check_set_once,
    check_space,
    parse_ids,
    print_ids,
)
from ocannl.dialects.index.linear import (
    Linear,
    Map,
    MapAttr,
    SpaceAttr,
    map_text,
    parse_optional_map,
    parse_space,
    space_text,
)
from ocannl.dialects.ir.errors import at_line
from ocannl.dialects.ir.op_helpers import (
    OwnOperation,
    UnaryOp,
    fill,
    given,
    operation_definition,
    parse_defined_operand,
    print_parts,
    string,
)
from ocannl.dialects.routine import RoutineCommentOp, RoutineOp
from ocannl.dialects.shapes.shape import DimTerm
from ocannl.dialects.texpr.apply import check_logic
from ocannl.dialects.texpr.memory import MemoryOp, MergeOp, OfOp
from ocannl.dialects.texpr.slices import Positions, PositionsAttr, ids_of, parse_positions, positions_text
from ocannl.dialects.texpr.tensor_op import check_tensor_access
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType, parse_logic, print_logic, shape_of


@operation_definition
class AssignOp(OwnOperation):
    """Writes memory: `texpr.assign %p = %v logic "."`; accumulates: `texpr.assign %p max= %v logic "a => 0"`.

    `:` resets the memory to the accumulation's neutral element first. A part of memory is written at
    positions of its axes: `texpr.assign %p at [i, ... | ... -> ...] = %v logic "."`. Those that are values,
    `at [<0 as 1>, ... | ... -> ...] by (%ids)`, are `at$0` in index maps.
    """

    name = "texpr.assign"
    target = operand_def(TensorType)
    value = operand_def(TensorType)
    ids = var_operand_def(TensorType)
    accum = opt_prop_def(StringAttr)
    reset = opt_prop_def(UnitAttr)
    logic = opt_prop_def(StringAttr)
    dims = opt_prop_def(DimsAttr)
    at = opt_prop_def(PositionsAttr)
    result_map = opt_prop_def(MapAttr)
    value_map = opt_prop_def(MapAttr)
    id_maps = opt_prop_def(ArrayAttr[MapAttr])
    space = opt_prop_def(SpaceAttr)

    def __init__(
        self,
        target: SSAValue,
        value: SSAValue,
        *,
        accum: str | None = None,
        reset: bool = False,
        logic: str | None = None,
        dims: Sequence[tuple[str, DimTerm]] = (),
        at: Positions | None = None,
        ids: Sequence[SSAValue] = (),
        result_map: Sequence[Linear] | None = None,
        value_map: Sequence[Linear] | None = None,
        id_maps: Sequence[Sequence[Linear]] = (),
        space: Sequence[tuple[str, int]] | None = None,
    ) -> None:
        properties = given(
            accum=None if accum is None else string(accum),
            reset=UnitAttr() if reset else None,
            logic=None if logic is None else string(logic),
            dims=DimsAttr(tuple(dims)) if dims else None,
            at=None if at is None else PositionsAttr(at),
            result_map=None if result_map is None else MapAttr(tuple(result_map)),
            value_map=None if value_map is None else MapAttr(tuple(value_map)),
            id_maps=ArrayAttr([MapAttr(tuple(m)) for m in id_maps]) if id_maps else None,
            space=None if space is None else SpaceAttr(tuple(space)),
        )
        fill(self, [target, value, *ids], properties)

    @property
    def accum_name(self) -> str | None:
        return None if self.accum is None else self.accum.data

    @property
    def is_projected(self) -> bool:
        return self.space is not None

    @property
    def maps_of_ids(self) -> tuple[Map, ...]:
        """The index map of each tensor of ids; empty maps as built."""
        return ((),) * len(self.ids) if self.id_maps is None else tuple(m.data for m in self.id_maps.data)

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.target)
        if self.at is not None:
            printer.print_string(f" at {positions_text(self.at.data)}")
        if self.result_map is not None:
            printer.print_string(map_text(self.result_map.data))
        print_ids(printer, self.ids, None if self.id_maps is None else self.maps_of_ids)
        printer.print_string(" :" if self.reset is not None else " ")
        print_parts(printer, f"{self.accum.data}= " if self.accum is not None else "= ", self.value)
        if self.value_map is not None:
            printer.print_string(map_text(self.value_map.data))
        print_logic(printer, self.logic, self.dims)
        if self.space is not None:
            printer.print_string(f" over {space_text(self.space.data)}")

    @classmethod
    def parse(cls, parser: Parser) -> AssignOp:
        target = parse_defined_operand(parser)
        at = parse_positions(parser) if parser.parse_optional_keyword("at") else None
        result_map = parse_optional_map(parser)
        ids, id_maps = parse_ids(parser)
        reset = parser.parse_optional_punctuation(":") is not None
        accum = parser.parse_optional_identifier()
        parser.parse_punctuation("=")
        value = parse_defined_operand(parser)
        value_map = parse_optional_map(parser)
        logic, dims = parse_logic(parser)
        space = parse_space(parser) if parser.parse_optional_keyword("over") else None
        return cls(
            target,
            value,
            accum=accum,
            reset=reset,
            logic=logic,
            dims=dims,
            at=at,
            ids=ids,
            result_map=result_map,
            value_map=value_map,
            id_maps=id_maps,
            space=space,
        )

    def verify_(self) -> None:
        if self.accum is not None:
            check_accumulator(self.accum.data)
        if not isinstance(self.target.owner, MemoryOp | OfOp):
            raise VerifyException(
                "only memory can be assigned: a parameter, data, a node, a gradient or a value"
            )
        if isinstance(self.target.owner, MergeOp):
            raise VerifyException("a merge buffer has the value of another context: it cannot be assigned")
        if self.at is not None and (self.logic is None or self.logic.data != "." or self.reset is not None):
            raise VerifyException('a part of memory is written with the logic ".", and is not reset')
        if self.is_projected:
            if self.logic is not None:
                raise VerifyException("a projected assignment has index maps, not a logic")
            if self.result_map is None or self.value_map is None:
                raise VerifyException("a projected assignment has two index maps")
            assert self.space is not None
            sizes = dict(self.space.data)
            check_space(self, sizes)
            maps = self.maps_of_ids
            if len(maps) != len(self.ids):
                raise VerifyException(f"{len(maps)} index maps for {len(self.ids)} operands in `by`")
            if self.accum is None:
                check_set_once([*self.result_map.data, *(index for m in maps for index in m)], sizes)
            at = axes_at_ids(self.result_map.data, shape_of(self.target).memory_sizes, len(self.ids))
            check_tensor_access(self, shape_of(self.target), self.result_map.data, sizes | at)
            check_tensor_access(self, shape_of(self.value), self.value_map.data, sizes)
            for value, indices in zip(self.ids, maps, strict=True):
                check_tensor_access(self, shape_of(value), indices, sizes)
        elif self.logic is None:
            raise VerifyException('an assignment has a logic (".", "T" or an einsum spec) or index maps')
        elif self.result_map is not None or self.value_map is not None or self.id_maps is not None:
            raise VerifyException("an assignment with a logic has no index maps yet")
        else:
            check_logic(self.logic.data, 1)
            found = [] if self.at is None else [p.operand for p in ids_of(self.at.data)]
            if sorted(found) != [*range(len(self.ids))]:
                raise VerifyException(
                    f"each of the {len(self.ids)} operands in `by` is the position of one axis, by its number"
                )


class OnTensorOp(UnaryOp):
    """Base of code with one tensor as its operand."""

    tensor = operand_def(TensorType)


@operation_definition
class ForwardOp(OnTensorOp):
    """Computes an expression at this point of the code, and leaves its value in memory.

    `texpr.forward %v keep`: the value holds for the rest of the routine, whatever is written meanwhile.
    """

    name = "texpr.forward"
    keep = opt_prop_def(UnitAttr)

    def __init__(self, tensor: SSAValue, *, keep: bool = False) -> None:
        super().__init__(tensor)
        if keep:
            self.properties["keep"] = UnitAttr()

    def print(self, printer: Printer) -> None:
        super().print(printer)
        if self.keep is not None:
            printer.print_string(" keep")

    @classmethod
    def parse(cls, parser: Parser) -> ForwardOp:
        tensor = parse_defined_operand(parser)
        return cls(tensor, keep=parser.parse_optional_keyword("keep") is not None)


@operation_definition
class ZeroGradsOp(OnTensorOp):
    """Sets the gradient nodes of everything that a tensor depends on, and its own, to zero."""

    name = "texpr.zero_grads"


@operation_definition
class BackpropOp(OnTensorOp):
    """Adds to the gradient nodes of everything that a tensor depends on, from the tensor's gradient node."""

    name = "texpr.backprop"


@operation_definition
class CommentOp(RoutineCommentOp):
    name = "texpr.comment"


@operation_definition
class TexprRoutineOp(RoutineOp):
    """A routine: expressions and the code over them, in order."""

    name = "texpr.routine"

    def verify_steps(self) -> None:
        for op in self.walk():
            if op.dialect_name() != "texpr":
                raise VerifyException(at_line(op, f"`{op.name}`: a {self.name} has operations of texpr only"))
