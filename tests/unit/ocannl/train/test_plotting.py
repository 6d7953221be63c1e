"""Plots of what training records, as characters and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.train.charts import braille, chart, paint


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


def test_colour_is_optional():
    assert paint("a", None) == "a"
    assert paint("a", 31) == "\033[31ma\033[0m"


def test_what_is_not_finite_has_no_dot():
    lines = chart("Gap", np.array([1.0, np.nan, np.inf, 2.0]), width=2, height=2).splitlines()
    assert [line.strip() for line in lines[2:4]] == ["2 │⠀⠈│", "1 │⡀⠀│"]
    assert "0 │" in chart("Nothing", np.full(3, np.nan))


@pytest.mark.parametrize("sides", [(1, 1), (1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("values", [[1e308, -1e308], [0.0, 5e-324, 1e-323], [3.0], [-1.0, 1.0, 0.0]])
def test_a_chart_of_any_size_and_extent(values: list[float], sides: tuple[int, int]):
    """The greatest number is in the first line, the least in the last."""
    width, height = sides
    _, _, *lines, _ = chart("Any", np.array(values), width, height).splitlines()
    cells = [line.split("│")[1] for line in lines]
    assert [len(line) for line in cells] == [width] * height
    if len(values) > 1:
        assert set(cells[0]) != {"⠀"} != set(cells[-1])
    assert lines[0].split("│")[0].strip() == f"{max(values):.3g}"


@pytest.mark.parametrize(("side", "value"), [("width", 0), ("height", 0), ("height", -1), ("width", 1.5)])
def test_a_chart_without_characters(side: str, value: Any):
    with pytest.raises(oc.ArgumentError, match=side):
        train.plot([1.0, 2.0], **{side: value})


# train.plot.

RECORDED: list[Any] = [
    {"loss": [1.0, 2.0], "rate": [3.0, 4.0]},
    [{"loss": 1.0, "rate": 3.0}, {"loss": np.float32(2.0), "rate": 4.0}],
]


@pytest.mark.parametrize("recorded", RECORDED, ids=["series", "rows"])
def test_series_by_name(recorded: Any, capsys: pytest.CaptureFixture[str]):
    train.plot(recorded, title="Run", width=4, height=2)
    wanted = [chart(name, np.array(v), 4, 2) for name, v in (("loss", [1, 2]), ("rate", [3, 4]))]
    assert capsys.readouterr().out == "\n".join(["Run", *wanted, ""])


def test_rows_that_lack_a_series(capsys: pytest.CaptureFixture[str]):
    """Its other numbers stay at their rows."""
    train.plot([{"loss": 3.0}, {"loss": 2.0, "valid": 5.0}, {"valid": 4.0}], width=4, height=2)
    wanted = {"loss": [3, 2, np.nan], "valid": [np.nan, 5, 4]}
    charts = [chart(name, np.array(values), 4, 2) for name, values in wanted.items()]
    assert capsys.readouterr().out == "\n".join([*charts, ""])


def test_what_a_routine_records(capsys: pytest.CaptureFixture[str]):
    step_n = oc.index("step_n")
    square = (step_n * 1.0 * step_n).named("square")
    ctx = oc.Context.cpu(threads=1)
    routine = ctx.compile(oc.forward(square), name="square")
    train.plot(routine.run_loop(epochs=3, advance=[step_n], record=[square]), width=4, height=2)
    assert capsys.readouterr().out == chart("square", np.array([0.0, 1.0, 4.0]), 4, 2) + "\n"


def test_a_table_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    log = train.csv(tmp_path / "log.csv")
    log.begin(0, 2)
    log.epoch(1, 10, {"loss": 2.0})
    log.epoch(2, 20, {"loss": 1.0})
    train.plot(tmp_path / "log.csv", width=4, height=2)
    assert capsys.readouterr().out == chart("loss", np.array([2.0, 1.0]), 4, 2) + "\n"


def test_a_plot_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("matplotlib")
    train.plot([1.0, 2.0], title="Loss", path=tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == ""


def test_matplotlib_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(oc.OcannlError, match=r"needs matplotlib: pip install 'ocannl\[plot\]'"):
        train.plot([1.0], path=tmp_path / "a.png")


@pytest.mark.parametrize("recorded", [[], {}, {"a": []}, [[1.0, 2.0]]])
def test_nothing_to_plot(recorded: Any):
    with pytest.raises(oc.ArgumentError, match="one at least"):
        train.plot(recorded)
