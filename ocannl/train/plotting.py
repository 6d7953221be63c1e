"""Plots of what training has recorded."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

import ocannl as oc
from ocannl.train.charts import Floats, chart

Recorded: TypeAlias = ArrayLike | Mapping[Any, ArrayLike] | Sequence[Mapping[str, float]] | str | Path

# Columns of a log that say where a row is.
PLACES = ("epoch", "step")


def plot(
    recorded: Recorded, *, title: str = "", path: str | Path | None = None, width: int = 72, height: int = 12
) -> None:
    """Plots recorded numbers, each series against its numbers from 0 on: as charts of characters on the
    terminal, `width` by `height` of them; with a `path`, such as "loss.png", by matplotlib into a file.

    What is recorded is one series, a dictionary of series by name, such as `step.run_loop` gives, a list of
    dictionaries of numbers, such as the results of a function, or the path of a table that `train.csv` wrote.
    Where one of these dictionaries, or a row, has no number of a series, there is a gap.

    Raises `ArgumentError` where there is nothing to plot, and for a chart without characters; `OcannlError`
    where matplotlib is needed and missing: `pip install 'ocannl[plot]'`.
    """
    try:
        series = _series(recorded, title)
    except (TypeError, ValueError) as error:
        raise oc.ArgumentError(f"what is plotted is numbers: {error}") from error
    if not series or not all(values.size and values.ndim == 1 for values in series.values()):
        raise oc.ArgumentError("a series to plot is a list of numbers, one at least")
    if path is not None:
        _figure(series, title, Path(path))
        return
    heads = [title] if title and list(series) != [title] else []
    print("\n".join([*heads, *(chart(name, values, width, height) for name, values in series.items())]))


def _series(recorded: Recorded, title: str) -> dict[str, Floats]:
    if isinstance(recorded, str | Path):
        with Path(recorded).open(newline="") as file:
            rows = list(csv.DictReader(file))
        return _columns([{k: float(v) for k, v in row.items() if v and k not in PLACES} for row in rows])
    if isinstance(recorded, Mapping):
        return {_name(key): np.asarray(values, np.float64) for key, values in recorded.items()}
    if isinstance(recorded, list | tuple) and recorded and isinstance(recorded[0], Mapping):
        return _columns(cast(Sequence[Mapping[str, float]], recorded))
    return {title or "values": np.asarray(cast(ArrayLike, recorded), np.float64)}


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    """Series by name, of a number for each row: NaN where it has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([float(row.get(name, np.nan)) for row in rows]) for name in names}


def _name(key: object) -> str:
    return key.label if isinstance(key, oc.Tensor) else str(key)


def _figure(series: Mapping[str, Floats], title: str, path: Path) -> None:
    try:
        library: Any = import_module("matplotlib.figure")
    except ModuleNotFoundError:
        raise oc.OcannlError("a plot in a file needs matplotlib: pip install 'ocannl[plot]'") from None
    figure = library.Figure()
    axes = figure.subplots()
    for name, values in series.items():
        # Numbers between missing ones are no line.
        axes.plot(values, label=name, marker=".")
    axes.set_title(title)
    axes.legend()
    figure.savefig(path)
