"""Arrays as text: on one line, or as tables of their rows of axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.shapes.shape import Shape

GAP = "…"


def number_text(value: Any, digits: int) -> str:
    """A number with so many significant digits."""
    return str(value) if np.asarray(value).dtype.kind in "biu" else f"{float(value):.{digits}g}"


def line_of(array: NDArray[Any], digits: int, most: int) -> str:
    """An array on one line; of an axis longer than `most`, both ends."""
    if not array.ndim:
        return number_text(array[()], digits)
    parts = [GAP if k is None else line_of(array[k], digits, most) for k in _shown(len(array), most)]
    return f"[{' '.join(parts)}]"


@dataclass(frozen=True)
class NumberTable:
    """Tables of two axes each, under the positions of all axes before them.

    Attributes:
        axes: the names of the axes of the array.
        most: an axis longer than this shows both ends.
    """

    array: NDArray[Any]
    axes: Sequence[str]
    digits: int
    most: int

    @staticmethod
    def of(array: NDArray[Any], shape: Shape, digits: int, most: int) -> NumberTable:
        """The table of an array whose axes are those of a shape, in the order of memory."""
        rows = (("batch", shape.batch), ("output", shape.output), ("input", shape.input))
        names = [f"{name} {k}" for name, row in rows for k in range(len(row.axes))]
        return NumberTable(array, names, digits, most)

    @property
    def text(self) -> str:
        """The tables as lines of text."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        if self.array.ndim <= 2:
            return self._cells()
        found: list[str] = []
        for k in _shown(len(self.array), self.most):
            found += [GAP] if k is None else [f"{self.axes[0]} = {k}", *(f"  {ln}" for ln in self._inner(k))]
        return found

    def _inner(self, at: int) -> list[str]:
        return NumberTable(self.array[at], self.axes[1:], self.digits, self.most)._lines()

    def _cells(self) -> list[str]:
        """One table: positions of the last axis above, of the one before it on the left."""
        array = self.array.reshape((1,) * (2 - self.array.ndim) + self.array.shape)
        names = ["", "", *self.axes][-2:]
        down, across = (_shown(size, self.most) for size in array.shape)
        titles = [GAP if k is None else str(k) for k in down] if names[0] else [""] * len(down)
        rows = [["" if k is None or not names[1] else str(k) for k in across]]
        for r in down:
            cells = [GAP if r is None or c is None else number_text(array[r, c], self.digits) for c in across]
            rows.append(cells)
        widths = [max(len(row[c]) for row in rows) for c in range(len(across))]
        left = max(map(len, [names[0], *titles]))
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        if not names[1]:
            return lines[1:]
        head = f"{'':{left}} │ {names[1]}"
        rule = f"{'─' * (left + 1)}┼{'─' * max(len(lines[0]) + 1, len(names[1]) + 1)}"
        body = [f"{title:>{left}} │ {line}" for title, line in zip([names[0], *titles], lines, strict=True)]
        return [head, body[0], rule, *body[1:]] if left else [f"{names[1]}:", *lines]


def _shown(size: int, most: int) -> list[int | None]:
    """The positions that are shown, with None for a gap."""
    if size <= most:
        return [*range(size)]
    end = most // 2
    return [*range(most - end), None, *range(size - end, size)]
