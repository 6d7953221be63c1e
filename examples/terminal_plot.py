"""Two classes of points in a plane, and what a model takes for each, as characters."""

import numpy as np

from ocannl.train.charts import Bools, Floats, frame, paint, positions

RED, BLUE, CYAN = 31, 34, 36


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
