"""Charts of characters."""

import numpy as np
import pytest
from terminal_plot import braille, chart, paint, two_classes


def test_a_braille_cell_is_two_by_four_dots():
    dots = np.zeros((4, 4), dtype=bool)
    dots[0, 0] = dots[3, 3] = True
    assert braille(dots) == ["⠁⢀"]


def test_a_chart_rises_from_the_lower_left():
    title, _, top, bottom, _ = chart("Rise", np.array([1.0, 2.0]), width=2, height=2).splitlines()
    assert title == "Rise"
    assert top.endswith("│⠀⠈│")
    assert bottom.endswith("│⡀⠀│")


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [1.0]])
def test_a_chart_without_extent_is_drawn(values: list[float]):
    assert "Flat" in chart("Flat", np.array(values))


def test_points_stand_on_their_regions():
    positive = np.array([[True, False], [True, False]])
    points, labels = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0])
    lines = two_classes("Plane", positive, points, labels, colours=False).splitlines()
    assert [line.strip() for line in lines[2:4]] == ["│o │", "│░x│"]


def test_colour_is_optional():
    assert paint("a", None) == "a"
    assert paint("a", 31) == "\033[31ma\033[0m"
