"""The LLVM values that a value of a kernel has in a thread."""

from __future__ import annotations

from ocannl.dialects.records import dataclass
from ocannl.lowering.kernels.registers import Point, Variables, key
from ocannl.lowering.llvm.types import ValueType


@dataclass(frozen=True, slots=True)
class Registers:
    """A value in a thread: its registers by the values of the variables `over`."""

    over: Variables
    names: dict[tuple[int, ...], str]
    type: ValueType

    def at(self, point: Point) -> str:
        return self.names[key(self.over, point)]

    @property
    def is_literal(self) -> bool:
        return all(name[0] != "%" for name in self.names.values())
