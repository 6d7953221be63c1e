"""Charts made of characters: a braille character is a cell of 2 by 4 dots."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]

BRAILLE = 0x2800
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])

RED, BLUE, CYAN = 31, 34, 36


def paint(text: str, colour: int | None) -> str:
    return text if colour is None else f"\033[{colour}m{text}\033[0m"


def braille(dots: Bools) -> list[str]:
    """Lines of text for a grid of dots whose sides are multiples of 4 and 2."""
    height, width = dots.shape
    cells = dots.reshape(height // 4, 4, width // 2, 2).transpose(0, 2, 1, 3)
    codes = BRAILLE + (cells * DOTS).sum(axis=(2, 3))
    return ["".join(map(chr, line)) for line in codes]


def positions(values: Floats, low: float, high: float, cells: int) -> NDArray[np.intp]:
    """The cell of each value on an axis from `low` to `high`."""
    scale = (cells - 1) / (high - low) if high > low else 0.0
    return np.rint((values - low) * scale).astype(np.intp)


def frame(title: str, lines: Sequence[str], width: int, left: Sequence[str]) -> str:
    """Lines in a box under a title, each with its label on the left."""
    margin = max(map(len, left))
    body = [f"{label:>{margin}} │{line}│" for label, line in zip(left, lines, strict=True)]
    top, bottom = (f"{'':{margin}} {a}{'─' * width}{b}" for a, b in ("┌┐", "└┘"))
    return "\n".join([title, top, *body, bottom])


def chart(title: str, values: Floats, width: int = 72, height: int = 12, colour: int | None = None) -> str:
    """One dot for each value, against its number."""
    low, high = float(values.min()), float(values.max())
    dots = np.zeros((4 * height, 2 * width), dtype=bool)
    columns = positions(np.arange(len(values), dtype=np.float64), 0, len(values) - 1, 2 * width)
    dots[4 * height - 1 - positions(values, low, high, 4 * height), columns] = True
    left = [f"{high:.3g}", *[""] * (height - 2), f"{low:.3g}"]
    return frame(title, [paint(line, colour) for line in braille(dots)], width, left)


def two_classes(title: str, positive: Bools, points: Floats, labels: Floats, colours: bool) -> str:
    """Two regions of a plane and the points of two classes: rows from the top, points in unit coordinates."""
    height, width = positive.shape
    rows = height - 1 - positions(points[:, 1], 0, 1, height)
    columns = positions(points[:, 0], 0, 1, width)
    cells = np.where(positive, "░", " ").astype(object)
    for row, column, label in zip(rows, columns, labels, strict=True):
        mark, colour = ("o", RED) if label > 0 else ("x", BLUE)
        cells[row, column] = paint(mark, colour if colours else None)
    return frame(title, ["".join(line) for line in cells], width, [""] * height)
