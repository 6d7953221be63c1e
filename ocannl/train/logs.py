"""Logs of `train.fit`: on the terminal, in a table, for TensorBoard."""

from __future__ import annotations

import csv as tables
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import ocannl as oc
from ocannl.execute.context import default_context
from ocannl.execute.files.replace_file import replacing
from ocannl.program.arguments.checks import integer
from ocannl.train.optimizer import Optimizer
from ocannl.train.probe import Observation, Probe

Metrics = Mapping[str, float]


class Log(Protocol):
    """Is told of each step and each epoch. `begin` has the step that training goes on from."""

    def begin(self, step: int, epochs: int) -> None: ...

    def step(self, step: int, metrics: Metrics) -> None: ...

    def epoch(self, epoch: int, step: int, metrics: Metrics) -> None: ...

    def end(self) -> None: ...


def _library(name: str, what: str) -> Any:
    """An optional library. Raises `OcannlError`, which says how to get it."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        package = name.partition(".")[0]
        raise oc.OcannlError(f"{what} needs the package {package}: pip install 'ocannl[log]'") from None


class _Progress:
    """A line on the terminal, and one more for each epoch that is over."""

    def __init__(self) -> None:
        console = _library("rich.console", "train.progress()").Console()
        columns = _library("rich.progress", "train.progress()")
        self._bar: Any = columns.Progress(
            columns.TextColumn("{task.description}"),
            columns.BarColumn(),
            columns.MofNCompleteColumn(),
            columns.TimeRemainingColumn(),
            columns.TextColumn("{task.fields[metrics]}"),
            console=console,
            transient=True,
        )
        self._task: Any = None
        self._epochs = 0

    def begin(self, step: int, epochs: int) -> None:
        self._epochs = epochs
        self._task = self._bar.add_task("epochs", total=epochs, metrics="")
        self._bar.start()

    def step(self, step: int, metrics: Metrics) -> None:
        self._bar.update(self._task, metrics=f"step {step}  {_text(metrics)}")

    def epoch(self, epoch: int, step: int, metrics: Metrics) -> None:
        self._bar.update(self._task, completed=epoch)
        self._bar.console.print(
            f"epoch {epoch}/{self._epochs}  step {step}  {_text(metrics)}", highlight=False
        )

    def end(self) -> None:
        self._bar.stop()


def _text(metrics: Metrics) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())


class _Csv:
    """A row for each epoch. What a run that is resumed had written beyond its checkpoint is written anew."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def begin(self, step: int, epochs: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = self._rows() if step and self.path.exists() else []
        self._write([row for row in rows if int(row["step"]) <= step])

    def _rows(self) -> list[dict[str, str]]:
        with self.path.open(newline="") as file:
            return list(tables.DictReader(file))

    def _write(self, rows: list[dict[str, str]]) -> None:
        names = dict.fromkeys(name for row in rows for name in row)
        with replacing(self.path) as aside, aside.open("w", newline="") as file:
            writer = tables.DictWriter(file, [*names], lineterminator="\n")
            if rows:
                writer.writeheader()
            writer.writerows(rows)

    def step(self, step: int, metrics: Metrics) -> None:
        """Nothing: rows are of epochs."""

    def epoch(self, epoch: int, step: int, metrics: Metrics) -> None:
        row = {"epoch": str(epoch), "step": str(step)}
        values = {f"metric_{name}" if name in row else name: repr(v) for name, v in metrics.items()}
        self._write([*self._rows(), row | values])

    def end(self) -> None:
        """Nothing: each row is on the disk."""


class _TensorBoard:
    """Scalars of each step and epoch, and what a probe sees, in TensorBoard's files."""

    def __init__(self, folder: str | Path, every: int, probe: Probe | None) -> None:
        self.folder, self._every, self._probe = folder, every, probe
        self._make: Any = _library("tensorboardX", "train.tensorboard()").SummaryWriter
        self._writer: Any = None

    def begin(self, step: int, epochs: int) -> None:
        self._writer = self._make(str(self.folder), purge_step=step + 1 if step else None)

    def step(self, step: int, metrics: Metrics) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(f"step/{name}", value, step)
        if step % self._every == 0 and self._probe is not None:
            self._observe(self._probe(step), step)

    def _observe(self, seen: Observation, step: int) -> None:
        numbers = {"gradient_norm": seen.gradients, "dead_units": seen.dead}
        for group, values in numbers.items():
            for name, value in values.items():
                self._writer.add_scalar(f"{group}/{name}", value, step)
        if seen.rate is not None:
            self._writer.add_scalar("learning_rate", seen.rate, step)
        for group, arrays in {"weights": seen.weights, "activations": seen.activations}.items():
            for name, array in arrays.items():
                self._writer.add_histogram(f"{group}/{name}", array.astype(np.float32), step)

    def epoch(self, epoch: int, step: int, metrics: Metrics) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(f"epoch/{name}", value, step)

    def end(self) -> None:
        self._writer.close()


def progress() -> Log:
    """A bar on the terminal with the metrics of the present step, and a line for each epoch. Needs rich."""
    return _Progress()


def csv(path: str | Path) -> Log:
    """A table with a row for each epoch: its number, the step at its end, and the means of the metrics; one
    that is called `epoch` or `step` is `metric_epoch` or `metric_step`.
    """
    return _Csv(path)


def tensorboard(
    folder: str | Path,
    *,
    watch: oc.Tensor | None = None,
    optimizer: Optimizer | None = None,
    every: int = 100,
    ctx: oc.Context | None = None,
) -> Log:
    """Scalars for TensorBoard, `step/...` and `epoch/...`; with the loss of a few examples to `watch`, what
    `train.dashboard` shows of it, every so many steps. Needs tensorboardX.
    """
    probe = None if watch is None else Probe(watch, ctx or default_context(), optimizer)
    return _TensorBoard(folder, integer(every, "the number of steps", 1), probe)
