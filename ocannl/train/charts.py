"""Charts made of characters: a braille character is a cell of 2 by 4 dots."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ocannl.program.arguments.checks import integer

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]

BRAILLE = 0x2800
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def paint(text: str, colour: int | None) -> str:
    """Text in a colour of the terminal, by its number; None for no colour."""
    return text if colour is None else f"\033[{colour}m{text}\033[0m"


def braille(dots: Bools) -> list[str]:
    """Lines of text for a grid of dots whose sides are multiples of 4 and 2."""
    height, width = dots.shape
    cells = dots.reshape(height // 4, 4, width // 2, 2).transpose(0, 2, 1, 3)
    codes = BRAILLE + (cells * DOTS).sum(axis=(2, 3))
    return ["".join(map(chr, line)) for line in codes]


def positions(values: Floats, low: float, high: float, cells: int) -> NDArray[np.intp]:
    """The cell of each value on an axis from `low` to `high`."""
    # Of halves, since the difference of large numbers may be infinite.
    extent = high / 2 - low / 2
    parts = (values / 2 - low / 2) / extent if extent else np.zeros_like(values)
    return np.rint(parts * (cells - 1)).astype(np.intp)


def frame(title: str, lines: Sequence[str], width: int, left: Sequence[str]) -> str:
    """Lines in a box under a title, each with its label on the left."""
    margin = max(map(len, left))
    body = [f"{label:>{margin}} │{line}│" for label, line in zip(left, lines, strict=True)]
    top, bottom = (f"{'':{margin}} {a}{'─' * width}{b}" for a, b in ("┌┐", "└┘"))
    return "\n".join([title, top, *body, bottom])


def chart(title: str, values: Floats, width: int = 72, height: int = 12, colour: int | None = None) -> str:
    """One dot for each value, against its number, `width` by `height` characters. What is not finite has no
    dot. Raises `ArgumentError` for sides less than 1.
    """
    width, height = integer(width, "width", 1), integer(height, "height", 1)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    dots = np.zeros((4 * height, 2 * width), dtype=bool)
    columns = positions(np.arange(len(values), dtype=np.float64), 0, len(values) - 1, 2 * width)
    rows = 4 * height - 1 - positions(finite, low, high, 4 * height)
    dots[rows, columns[np.isfinite(values)]] = True
    left = [f"{high:.3g}", *[""] * (height - 2), f"{low:.3g}"][:height]
    return frame(title, [paint(line, colour) for line in braille(dots)], width, left)
