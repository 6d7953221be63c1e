"""Classes of points as characters."""

import numpy as np
from terminal_plot import two_classes


def test_points_stand_on_their_regions():
    positive = np.array([[True, False], [True, False]])
    points, labels = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0])
    lines = two_classes("Plane", positive, points, labels, colours=False).splitlines()
    assert [line.strip() for line in lines[2:4]] == ["│o │", "│░x│"]
