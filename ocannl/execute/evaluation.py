"""Values of expressions that no routine keeps, computed each time that they are looked at.

Looking changes nothing: shapes are inferred on a copy, and what is computed goes to memory of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

from numpy.typing import NDArray
from xdsl.ir import Attribute

from ocannl.dialects.shapes.shape import Shape
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.execute.node import Node
from ocannl.execute.routine import Rerun
from ocannl.program import graph
from ocannl.program.extract import ExtractedRoutine
from ocannl.program.values import Value


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What was known of a value's type when a copy of it was closed."""

    value: ref[Value]
    shape: Shape | None
    """Where it was not final."""
    element: Attribute | None

    @staticmethod
    def of(value: Value) -> Knowledge:
        """What is known now."""
        shape = graph.known_shape(value)
        return Knowledge(ref(value), None if shape.is_final else shape, tensor_type(value).element_or_none)

    def is_current(self) -> bool:
        """Whether no more is known by now."""
        value = self.value()
        if value is None or tensor_type(value).element_or_none != self.element:
            return False
        return self.shape is None or graph.known_shape(value) == self.shape


def open_types(program: ExtractedRoutine) -> list[Knowledge]:
    """What is known of those values of a program whose types are not final."""
    known = [Knowledge.of(value) for value in program.copies if isinstance(value, Value)]
    return [one for one in known if one.shape is not None or one.element is None]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A compiled computation of one expression from the present memory."""

    rerun: Rerun
    result: Node
    copied: Sequence[tuple[Node, Node]]
    """Memory that the computation reads and would write, with the copy that it has instead."""
    types: Sequence[Knowledge]

    def is_current(self) -> bool:
        """Whether the expression would be compiled in the same way now."""
        return all(known.is_current() for known in self.types)

    def value(self) -> NDArray[Any]:
        """The value now."""
        for source, copy in self.copied:
            copy.memory.write(source.memory.read())
        self.rerun.call()
        return self.result.memory.read()
