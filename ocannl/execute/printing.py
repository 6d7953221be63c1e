"""Tensors as text for people: their values as tables, and the expressions that they are."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import ShapeError, UninitializedError
from ocannl.execute.context import Context, default_context
from ocannl.program import graph
from ocannl.program.checks import integer
from ocannl.program.eager import is_eager
from ocannl.program.errors import ArgumentError
from ocannl.program.final_types import determined_shape, element_now, shape_now
from ocannl.program.number_tables import GAP, NumberTable, line_of
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.values import Value, is_memory, label_of, operation_name, operation_of, values_of

STYLES = ("grid", "inline", "label", "tree")


def print(
    t: TensorLike,
    *,
    style: str = "grid",
    ctx: Context | None = None,
    digits: int = 4,
    most: int = 8,
    depth: int = 20,
) -> None:
    """Prints a tensor: its name, shape and element type, and by `style`

    - "grid": its value as tables; across is the last axis in the order of memory (batch, output, input), down
      the one before, and the axes before that are nested,
    - "inline": its value on the same line,
    - "label": no value,
    - "tree": under it what it is computed from, down to a `depth`, with the values that there are, and the
      gradients that have been computed. Where an expression occurs again, it is named only.

    Values are those in `ctx`, by default `oc.default_context()`, with so many significant `digits`; of an
    axis with more than `most` positions, both ends are shown. Nothing is changed or decided by it.

    Raises `UninitializedError` where "grid" and "inline" have no value to show.
    """
    if style not in STYLES:
        raise ArgumentError(f"a tensor is printed as {', '.join(STYLES)}, found {style!r}")
    tensor = as_tensor(t)
    digits, most = integer(digits, "digits", 1), integer(most, "most", 2)
    if style == "tree":
        levels = _levels(tensor.ir_value, integer(depth, "depth"))
        builtins.print(_Tree(levels, _values([*levels], ctx), ctx or default_context(), digits).text)
        return
    heading = f"{tensor.label}: {_type(tensor.ir_value)}"
    if style == "label":
        builtins.print(heading)
        return
    array = np.asarray(_value(tensor, ctx))
    if style == "inline" or not array.ndim:
        builtins.print(f"{heading} = {line_of(array, digits, most)}")
    else:
        builtins.print(
            heading, NumberTable.of(array, shape_now(tensor.ir_value), digits, most).text, sep="\n"
        )


def _type(value: Value) -> str:
    """The shape and the element type that a value would get now, or of an open shape what is known."""
    try:
        shape = determined_shape(value)
    except ShapeError:
        shape = graph.known_shape(value)
    return f"{shape}, {element_now(value)}"


def _value(tensor: Tensor, ctx: Context | None) -> NDArray[Any]:
    return tensor.numpy() if ctx is None else ctx[tensor]


def _levels(value: Value, depth: int) -> dict[Value, int]:
    """The operands of a value down to a depth, by how far down each first occurs; the value is first."""
    found, level = {value: 0}, [value]
    for below in range(1, depth + 1):
        operands = [v for upper in level if not is_memory(upper) for v in values_of(upper.op)]
        level = [v for v in dict.fromkeys(operands) if v not in found]
        found |= dict.fromkeys(level, below)
    return found


def _values(values: Sequence[Value], ctx: Context | None) -> Mapping[Value, NDArray[Any]]:
    """Those of memory and expressions, as far as they have any."""
    expressions = [value for value in values if not is_memory(value)]
    if not is_eager() and expressions:
        # By one program; where a part of it has no value, each by itself.
        with suppress(UninitializedError):
            arrays = (ctx or default_context()).values_together([*map(Tensor, expressions)])
            memory = [value for value in values if is_memory(value)]
            return dict(zip(expressions, arrays, strict=True)) | _each(memory, ctx)
    return _each(values, ctx)


def _each(values: Sequence[Value], ctx: Context | None) -> dict[Value, NDArray[Any]]:
    found: dict[Value, NDArray[Any]] = {}
    for value in values:
        with suppress(UninitializedError):
            found[value] = _value(Tensor(value), ctx)
    return found


@dataclass
class _Tree:
    """An expression over those that it is computed from, as far as they are in `levels`."""

    levels: Mapping[Value, int]
    values: Mapping[Value, NDArray[Any]]
    ctx: Context
    digits: int
    seen: set[Value] = field(default_factory=set[Value])

    @property
    def text(self) -> str:
        return "\n".join(self._lines(next(iter(self.levels)), 0))

    def _lines(self, value: Value, level: int) -> list[str]:
        operands = () if is_memory(value) else values_of(value.op)
        if operands and (value in self.seen or level > self.levels[value]):
            return [f"{label_of(value)} ({'above' if value in self.seen else 'below'})"]
        self.seen.add(value)
        lines = [self._line(value)]
        if any(operand not in self.levels for operand in operands):
            return [*lines, f"└─ {GAP}"]
        for number, operand in enumerate(operands):
            last = number == len(operands) - 1
            first, *others = self._lines(operand, level + 1)
            lines.append(f"{'└' if last else '├'}─ {first}")
            lines += [f"{' ' if last else '│'}  {line}" for line in others]
        return lines

    def _line(self, value: Value) -> str:
        tensor, kind = Tensor(value), operation_name(operation_of(value))
        what = "" if kind == tensor.label else f" ({kind})"
        text = f"{tensor.label}{what}: {_type(value)}"
        if value in self.values:
            text += f" = {self._short(self.values[value])}"
        if texpr.GradOp in value.asked and tensor.grad in self.ctx:
            text += f", grad = {self._short(self.ctx[tensor.grad])}"
        return text

    def _short(self, array: NDArray[Any]) -> str:
        return line_of(np.asarray(array), self.digits, 4)
