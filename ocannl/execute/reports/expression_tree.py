"""The tree of an expression as text: what it is computed from, with the values that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import UninitializedError
from ocannl.dialects.shapes.shape import Shape
from ocannl.execute.context import Context
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.setting import is_eager, mode
from ocannl.program.tensor import Tensor
from ocannl.program.text.number_tables import GAP, line_of
from ocannl.program.types.final_types import known_types
from ocannl.program.values import Value, is_memory, label_of, operation_name, operation_of, values_of


def tree_text(value: Value, depth: int, ctx: Context, digits: int) -> str:
    """The tree of a value down to a depth, with the values in a context."""
    if is_eager():
        with ctx, suppress(UninitializedError):
            ENGINE.only.look(value)  # parameters get values
    with mode(False):
        levels = _levels(value, depth)
        tree = _Tree(levels, known_types([*levels]), ctx.present_values([*levels]), ctx, digits)
        return "\n".join(tree.lines())


def _levels(value: Value, depth: int) -> dict[Value, int]:
    """The operands of a value down to a depth, by how far down each first occurs; the value is first."""
    found, level = {value: 0}, [value]
    for below in range(1, depth + 1):
        operands = [v for upper in level for v in _operands(upper)]
        level = [v for v in dict.fromkeys(operands) if v not in found]
        found |= dict.fromkeys(level, below)
    return found


def _operands(value: Value) -> tuple[Value, ...]:
    return () if is_memory(value) or _is_of_sizes(value) else values_of(value.op)


def _is_of_sizes(value: Value) -> bool:
    """Whether it is a number by which a mean divides: how it is made of sizes would only be in the way."""
    found, waiting = set[Value](), [value]
    while waiting:
        each = waiting.pop()
        if each not in found and not isinstance(each.op, texpr.SizeOp):
            if not isinstance(each.op, texpr.ApplyOp):
                return False
            waiting += values_of(each.op)
        found.add(each)
    return True


@dataclass(frozen=True, slots=True)
class _Tree:
    """An expression over those that it is computed from, as far as they are in `levels`."""

    levels: Mapping[Value, int]
    types: Mapping[Value, tuple[Shape, Attribute]]
    values: Mapping[Value, NDArray[Any]]
    ctx: Context
    digits: int
    seen: set[Value] = field(default_factory=set[Value])

    def lines(self) -> Iterator[str]:
        """One line for each occurrence of a value, from the root down."""
        # Values with their levels, and what stands before their lines and before those below them.
        waiting = [(next(iter(self.levels)), 0, "", "")]
        while waiting:
            value, level, first, others = waiting.pop()
            operands = _operands(value)
            if operands and (value in self.seen or level > self.levels[value]):
                yield f"{first}{label_of(value)} ({'above' if value in self.seen else 'below'})"
                continue
            self.seen.add(value)
            yield first + self._line(value)
            if any(operand not in self.levels for operand in operands):
                yield f"{others}└─ {GAP}"
                continue
            below = [(operand, level + 1, f"{others}├─ ", f"{others}│  ") for operand in operands[:-1]]
            below += [(operand, level + 1, f"{others}└─ ", f"{others}   ") for operand in operands[-1:]]
            waiting += reversed(below)

    def _line(self, value: Value) -> str:
        tensor, kind = Tensor(value), operation_name(operation_of(value))
        what = "" if kind == tensor.label else f" ({kind})"
        what = " (of sizes)" if values_of(value.op) and _is_of_sizes(value) else what
        shape, element = self.types[value]
        text = f"{tensor.label}{what}: {shape}, {element}"
        if value in self.values:
            text += f" = {self._short(self.values[value])}"
        if texpr.GradOp in value.asked and tensor.grad in self.ctx:
            text += f", grad = {self._short(self.ctx[tensor.grad])}"
        return text

    def _short(self, array: NDArray[Any]) -> str:
        return line_of(np.asarray(array), self.digits, 4)
