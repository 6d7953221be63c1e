"""The arrays and loops around operations that are emitted."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from xdsl.ir import SSAValue

from ocannl.dialects.index.addresses import Address
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.records import dataclass
from ocannl.lowering.llvm.builder import FunctionBuilder, Loop, Position
from ocannl.lowering.llvm.memory import Found
from ocannl.lowering.llvm.types import ValueType
from ocannl.lowering.loops_to_llvm.tile_access import TileAccess


@dataclass(frozen=True, slots=True)
class Environment:
    """The names that operations of a step refer to, in a function under construction.

    Attributes:
        b: the function.
        pointers: the pointers to nodes.
        first: which element of a node its pointer is that of, if not of element 0.
        positions: the static indices and, while loops are open, their variables.
    """

    b: FunctionBuilder
    pointers: Mapping[SSAValue, str]
    first: Mapping[SSAValue, int]
    positions: dict[str, Position]

    def with_pointers(self, pointers: Mapping[SSAValue, str]) -> Environment:
        """The environment with further nodes."""
        return replace(self, pointers={**self.pointers, **pointers})

    def first_byte(self, node: SSAValue) -> int:
        """The byte of a node that its pointer is that of."""
        return self.first.get(node, 0) * element_bytes(node)

    def access(
        self,
        node: SSAValue,
        address: Address,
        type: ValueType,
        found: Mapping[str, Found] | None = None,
        lanes: Mapping[str, str] | None = None,
    ) -> TileAccess:
        """Accesses of a node at an address in elements of `type`, which need not be those of the node."""
        own = address.after(self.first_byte(node) // type.bytes)
        return TileAccess(self.b, self.pointers[node], own, self.positions, type, found or {}, lanes or {})

    def open_loop(
        self,
        variable: str,
        start: int | str,
        stop: int | str,
        step: int = 1,
        initial: Sequence[tuple[str, str]] = (),
    ) -> Loop:
        """Enters the loop of a variable, whose position is then the loop's."""
        loop = self.b.open_loop(start, stop, step, initial)
        self.positions[variable] = Position(loop.index, 0, self.b.depth)
        return loop

    @contextmanager
    def loop(self, variable: str, start: int | str, stop: int | str, step: int = 1) -> Generator[Loop]:
        """The loop of a variable, around what is emitted inside."""
        loop = self.open_loop(variable, start, stop, step)
        yield loop
        self.b.close_loop(loop)
