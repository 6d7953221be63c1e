"""Routines, the functions of every level: a name, static indices and one block of code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import LocationAttr, StringAttr
from xdsl.ir import Attribute, Block, Data, Operation, Region
from xdsl.irdl import irdl_attr_definition, opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.ir.op_helpers import OwnOperation, fill, print_parts

STAGE = "stage"
"""The mesh axis along which ranks compute the stages of a program."""
MICROBATCH = "microbatch"
"""The axis of a program's mesh that is in time: each rank computes one microbatch after the other."""
MOST_RANKS = 2**16
"""The most ranks along an axis of a mesh; of a program in stages, each has a routine of its own."""


@irdl_attr_definition
class IndicesAttr(Data[tuple[tuple[str, int | None], ...]]):
    """Static indices with their ranges, `(batch_n = 80, step_n)`; a run of the routine gives each a value."""

    name = "assign.indices"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, int | None], ...]:
        return parse_indices(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(indices_text(self.data))


def indices_text(indices: Sequence[tuple[str, int | None]]) -> str:
    return "(" + ", ".join(n if r is None else f"{n} = {r}" for n, r in indices) + ")"


def parse_indices(parser: AttrParser) -> tuple[tuple[str, int | None], ...]:
    def index() -> tuple[str, int | None]:
        name = parser.parse_identifier(" naming a static index")
        if parser.parse_optional_punctuation("=") is None:
            return name, None
        return name, parser.parse_integer(
            allow_boolean=False, allow_negative=False, context_msg=" as the range"
        )

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.PAREN, index, " in static indices"))


class RoutineCommentOp(OwnOperation):
    """Base of `texpr.comment` and `assign.comment`, which name the code that follows them."""

    text = prop_def(StringAttr)

    def __init__(self, text: str) -> None:
        fill(self, (), {"text": StringAttr(text)})

    def print(self, printer: Printer) -> None:
        print_parts(printer, " ", self.text)

    @classmethod
    def parse(cls, parser: Parser):
        return cls(parser.parse_str_literal())


class Indexed(ABC):
    """An operation that gives static indices to the code in its body."""

    @property
    @abstractmethod
    def ranges(self) -> dict[str, int | None]:
        """The ranges of the indices, by name."""


class RoutineOp(OwnOperation, Indexed):
    """Base of `texpr.routine`, `assign.routine` and `loops.func`: `@name indices (i = 80, j) { ... }`."""

    sym_name = prop_def(StringAttr)
    indices = prop_def(IndicesAttr)
    mesh = opt_prop_def(IndicesAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove())

    def __init__(
        self,
        name: str,
        indices: Sequence[tuple[str, int | None]],
        body: Region | None = None,
        attributes: dict[str, Attribute] | None = None,
        location: LocationAttr | None = None,
    ) -> None:
        super().__init__(
            properties={"sym_name": StringAttr(name), "indices": IndicesAttr(tuple(indices))},
            attributes=attributes or {},
            regions=[body if body is not None else Region(Block())],
        )
        if location is not None:
            self.location = location

    @property
    def ranges(self) -> dict[str, int | None]:
        """The ranges of the static indices; none in a routine that is not well-formed."""
        indices = self.properties.get("indices")
        return dict(indices.data) if isinstance(indices, IndicesAttr) else {}

    def set_mesh(self, sizes: Mapping[str, int]) -> None:
        """Makes the routine one for a mesh, of these numbers of ranks by axis."""
        self.properties["mesh"] = IndicesAttr(tuple(sizes.items()))

    @property
    def mesh_sizes(self) -> dict[str, int]:
        """The axes of the mesh that the routine is for, with their numbers of ranks."""
        return {} if self.mesh is None else {name: size or 1 for name, size in self.mesh.data}

    @property
    def rank_sizes(self) -> dict[str, int]:
        """The static indices that are ranks along axes of the mesh, set by the engine, with ranges."""
        found = {f"{mesh}.rank": ranks for mesh, ranks in self.mesh_sizes.items()}
        return {name: ranks for name, ranks in found.items() if name in self.ranges}

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.indices.data:
            printer.print_string(" indices " + indices_text(self.indices.data))
        if self.mesh is not None:
            printer.print_string(" mesh " + indices_text(self.mesh.data))
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser):
        name = parser.parse_symbol_name().data
        indices = parse_indices(parser) if parser.parse_optional_keyword("indices") else ()
        mesh = parse_indices(parser) if parser.parse_optional_keyword("mesh") else ()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parse_body(parser)
        made = cls(name, indices, body, dict(attributes.data) if attributes else None)
        if mesh:
            made.properties["mesh"] = IndicesAttr(mesh)
        return made

    def verify_(self) -> None:
        names = [n for n, _ in self.indices.data]
        if len(set(names)) != len(names):
            raise VerifyException("a static index is declared twice")
        if self.mesh is not None and not all(ranks for _, ranks in self.mesh.data):
            raise VerifyException("each axis of a mesh has a number of ranks")
        if max(self.mesh_sizes.values(), default=0) > MOST_RANKS:
            raise VerifyException(f"an axis of a mesh has at most {MOST_RANKS} ranks")
        check_no_arguments(self.body)

    def verify_steps(self) -> None:
        """Checks the steps as a sequence. Raises `VerifyException` with the line of one."""


def verify_steps(module: Operation) -> None:
    """Verifies the routines of a module, all of whose operations are well-formed, as sequences of steps."""
    for op in module.walk():
        if isinstance(op, RoutineOp):
            op.verify_steps()


def parse_body(parser: Parser) -> Region:
    """Reads a region of one block, which may be empty."""
    body = parser.parse_region()
    if not body.blocks:
        body.add_block(Block())
    return body


def check_no_arguments(body: Region) -> None:
    if body.block.args:
        raise VerifyException(
            "the block has no arguments: variables are named in the space, nodes are declared"
        )


def enclosing_routine(op: Operation) -> RoutineOp | None:
    """The routine around `op`, if there is one."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, RoutineOp):
        parent = parent.parent_op()
    return parent


def static_ranges(op: Operation) -> dict[str, int | None] | None:
    """The ranges of the static indices that an operation sees; None outside of routines."""
    found: dict[str, int | None] = {}
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, Indexed):
            found |= parent.ranges
        if isinstance(parent, RoutineOp):
            return found
        parent = parent.parent_op()
    return None
