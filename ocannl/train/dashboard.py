"""A page that shows a training run while it goes on."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.execute.context import default_context
from ocannl.execute.files.replace_file import check_folder, replacing
from ocannl.program.arguments.checks import integer
from ocannl.train.logs import Log, Metrics
from ocannl.train.optimizer import Optimizer
from ocannl.train.probe import Observation, Probe, histogram
from ocannl.train.svg import bar_chart, line_chart

Sample = str | NDArray[Any]
Samples = Callable[[], Mapping[str, Sample] | Sample]
Series = dict[str, tuple[list[float], list[float]]]
# The seconds after which a browser reads the page again while training goes on.
REFRESH = 5


class _Dashboard:
    """Writes the page anew after each epoch, and after every so many steps."""

    def __init__(self, path: Path, every: int, probe: Probe | None, samples: Samples | None) -> None:
        self._path, self._every, self._probe, self._samples = path, every, probe, samples
        self._series: dict[str, Series] = {"steps": {}, "epochs": {}, "gradients": {}}
        self._epochs, self._at, self._epoch = 0, 0, 0
        self._seen: Observation | None = None
        self._is_new = self._has_stepped = False
        """Whether there was a step since the last look, and at all; before, parameters may have no values."""

    def begin(self, step: int, epochs: int) -> None:
        self._epochs, self._at = epochs, step
        self._write(is_over=False)

    def step(self, step: int, metrics: Metrics) -> None:
        self._at = step
        self._is_new = self._has_stepped = True
        self._note("steps", step, metrics)
        if step % self._every == 0:
            self._write(is_over=False)

    def epoch(self, epoch: int, step: int, metrics: Metrics) -> None:
        self._epoch = epoch
        self._note("epochs", epoch, metrics)
        self._write(is_over=False)

    def end(self) -> None:
        self._write(is_over=True)

    def _note(self, group: str, at: float, numbers: Metrics) -> None:
        for name, value in numbers.items():
            places, values = self._series[group].setdefault(name, ([], []))
            if places and places[-1] == at:
                places.pop()
                values.pop()
            places.append(at)
            values.append(value)

    def _look(self) -> None:
        if self._probe is None or not self._is_new:
            return
        seen = self._seen = self._probe(self._at)
        self._is_new = False
        self._note("gradients", self._at, seen.gradients)
        if seen.rate is not None:
            self._note("steps", self._at, {"learning rate": seen.rate})

    def _write(self, *, is_over: bool) -> None:
        self._look()
        text = (files("ocannl.train") / "assets" / "dashboard.html").read_text("utf-8")
        state = "is over" if is_over else "goes on"
        parts = {
            "REFRESH": "" if is_over else f'<meta http-equiv="refresh" content="{REFRESH}">',
            "TITLE": escape(self._path.stem),
            "STATE": f"epoch {self._epoch} of {self._epochs}, step {self._at}; training {state}",
            "BODY": "".join(self._sections(self._seen)),
        }
        for name, part in parts.items():
            text = text.replace(f"<!--{name}-->", part)
        with replacing(self._path) as file:
            file.write_text(text, "utf-8")

    def _sections(self, seen: Observation | None) -> list[str]:
        titles = {"steps": "By step", "epochs": "By epoch", "gradients": "Norms of gradients"}
        found = [
            _section(titles[group], [line_chart(name, *lines) for name, lines in series.items()])
            for group, series in self._series.items()
        ]
        if seen is not None:
            found.append(_section("Weights", [_bars(*one) for one in seen.weights.items()]))
            bars = [_bars(name, array, seen.dead[name]) for name, array in seen.activations.items()]
            found.append(_section("Activations", bars))
        if self._samples is not None:
            found.append(_section("Samples", [_sample(*one) for one in self._made(self._samples).items()]))
        return found

    def _made(self, samples: Samples) -> Mapping[str, Sample]:
        """The samples that the model makes now: none, as long as it has no values before the first step."""
        try:
            given = samples()
        except oc.UninitializedError:
            if self._has_stepped:
                raise
            return {}
        return given if isinstance(given, Mapping) else {"sample": given}


def _section(title: str, figures: list[str]) -> str:
    if not figures:
        return ""
    return f'<section><h2>{escape(title)}</h2><div class="figures">{"".join(figures)}</div></section>'


def _bars(name: str, array: NDArray[Any], dead: float | None = None) -> str:
    note = f"mean {np.mean(array, dtype=np.float64):.3g}, deviation {np.std(array, dtype=np.float64):.3g}"
    if dead:
        note += f", {dead:.0%} of units dead"
    if not np.isfinite(array).all():
        note = f"{np.count_nonzero(~np.isfinite(array)):,} of {array.size:,} not finite"
    return bar_chart(name, note, *histogram(array))


def _sample(name: str, sample: Sample) -> str:
    body = f"<pre>{escape(sample)}</pre>" if isinstance(sample, str) else _image(np.asarray(sample))
    return f"<figure><figcaption>{escape(name)}</figcaption>{body}</figure>"


def _image(pixels: NDArray[Any]) -> str:
    """A picture of [height, width] or [height, width, 3] numbers, the least black and the greatest white."""
    if pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (3,)) or not pixels.size:
        raise oc.ArgumentError(
            f"a sample is a text or a picture [height, width] or [height, width, 3], "
            f"found the shape {pixels.shape}"
        )
    low, high = float(pixels.min()), float(pixels.max())
    scaled = (pixels - low) / ((high - low) or 1.0) * 255
    data = base64.b64encode(_png(np.nan_to_num(scaled).astype(np.uint8))).decode()
    return (
        f'<img alt="a picture of {pixels.shape[0]} by {pixels.shape[1]}" src="data:image/png;base64,{data}">'
    )


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """The picture in the format PNG (ISO/IEC 15948), of 8 bits for each of one or three colours."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    packed = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def dashboard(
    path: str | Path,
    *,
    watch: oc.Tensor | None = None,
    optimizer: Optimizer | None = None,
    samples: Samples | None = None,
    every: int = 100,
    ctx: oc.Context | None = None,
) -> Log:
    """A log of `train.fit` that is a page, one HTML file: the metrics by step and by epoch. It is written
    anew after each epoch and every so many steps, and a browser that shows it reads it again while training
    goes on; it needs neither network nor server.

    `watch` is the loss of a few examples that `oc.data` holds: the page then has the norms of gradients,
    histograms of weights and activations, and how many units are 0 for all of these examples; with an
    `optimizer`, its learning rate. `samples()` gives what the model makes now, one or several by name: texts,
    and pictures [height, width] or [height, width, 3].

    Raises `ArgumentError` where there is no folder for the page, and for a loss without parameters.
    """
    probe = None if watch is None else Probe(watch, ctx or default_context(), optimizer)
    check_folder(Path(path))
    return _Dashboard(Path(path), integer(every, "the number of steps", 1), probe, samples)
