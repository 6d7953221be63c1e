"""Checkpoints: files of state in a folder, of which some are kept."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import ocannl as oc
from ocannl.execute.files.replace_file import PARTIAL, remove_partial
from ocannl.execute.files.sharded_files import INDEX, remove_parts, remove_saved, saved_metadata
from ocannl.program.memory.state import Root

NAME = re.compile(rf"(step-\d+\.safetensors)({re.escape(INDEX)})?")
# Files of parts of a checkpoint, by the path of the checkpoint.
PARTS = re.compile(r"(step-\d+)-[0-9a-f]{16}-\d+-of-\d+\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """State in a file, with the step and the metric that it was saved with; of a mesh, in several files with
    an index, and `path` is what `ctx.load` takes.

    `number` counts the checkpoints of a folder in the order in which they were saved: after the best one is
    restored, steps begin again from there.
    """

    path: Path
    step: int
    metric: float | None
    number: int


class Checkpoints:
    """A folder of checkpoints: the `keep` that were saved last, and the best one by their metrics,
    the least or, with `best="max"`, the greatest.

    A checkpoint is one file, or the files of a mesh's ranks with an index that is written last. It is there
    as a whole or not at all, and older ones go only when it is there: whenever a process is ended, the folder
    has what the last `save` that returned left, or what the next one would have. One process at a time saves
    to a folder, or all ranks of one mesh.
    """

    def __init__(self, folder: str | Path, keep: int = 3, best: Literal["min", "max"] | None = "min") -> None:
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise oc.ArgumentError(f"keep is a number of checkpoints, at least 1, found {keep!r}")
        if best not in ("min", "max", None):
            raise oc.ArgumentError(f"best is 'min', 'max' or None, found {best!r}")
        self.folder, self.keep = Path(folder), keep
        self.order: Literal["min", "max"] | None = best

    def save(self, ctx: oc.Context, what: Root, *, step: int, metric: float | None = None) -> Path:
        """Saves state as the checkpoint of a step, and removes those that are not kept. A metric that is no
        number, NaN, is never the best.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path, latest = self.folder / f"step-{step:09}.safetensors", self.latest
        notes = {"number": str(1 if latest is None else latest.number + 1)}
        if metric is not None:
            notes["metric"] = repr(float(metric))
        ctx.save(path, what, step=step, notes=notes)
        ctx.once(self._remove_others)
        return path

    def _remove_others(self) -> None:
        found = self.all
        kept = {checkpoint.path for checkpoint in found[-self.keep :]}
        if best := self.best:
            kept.add(best.path)
        for checkpoint in found:
            if checkpoint.path not in kept:
                remove_saved(checkpoint.path)
        for left_over in self.folder.glob(f".step-*{PARTIAL}"):
            remove_partial(left_over)
        # Parts without an index are those of a save, or of a removal, that was interrupted.
        parts = filter(None, [PARTS.fullmatch(file.name) for file in self.folder.iterdir()])
        for path in {self.folder / f"{part[1]}.safetensors" for part in parts} - kept:
            remove_parts(path)

    @property
    def all(self) -> list[Checkpoint]:
        """The checkpoints that there are, in the order in which they were saved."""
        files = self.folder.iterdir() if self.folder.is_dir() else ()
        paths = {self.folder / name[1] for file in files if (name := NAME.fullmatch(file.name))}
        return sorted(map(_checkpoint, paths), key=lambda found: found.number)

    @property
    def latest(self) -> Checkpoint | None:
        """That which was saved last."""
        found = self.all
        return found[-1] if found else None

    @property
    def best(self) -> Checkpoint | None:
        """That of the best metric, the first one of equals; None where none has a metric."""
        sign = -1 if self.order == "max" else 1
        rated = [(sign * c.metric, c) for c in self.all if c.metric is not None and not math.isnan(c.metric)]
        return min(rated, key=lambda one: one[0])[1] if rated and self.order else None

    def restore(
        self, ctx: oc.Context, what: Root, which: Literal["latest", "best"] = "latest", *, strict: bool = True
    ) -> Checkpoint | None:
        """Loads the latest or the best checkpoint, and returns it; None where there is none. With
        `strict=False`, `what` may be a part of what was saved, such as the model of a whole run.

        Raises `StateError` where it does not fit.
        """
        if which not in ("latest", "best"):
            raise oc.ArgumentError(f"the 'latest' checkpoint is restored or the 'best', found {which!r}")
        chosen = self.latest if which == "latest" else self.best
        if chosen is not None:
            ctx.load(chosen.path, what, strict=strict)
        return chosen

    def __repr__(self) -> str:
        return f"train.Checkpoints({str(self.folder)!r}, keep={self.keep}, best={self.order!r})"


def _checkpoint(file: Path) -> Checkpoint:
    metadata = saved_metadata(file)
    try:
        metric = float(metadata["metric"]) if "metric" in metadata else None
        return Checkpoint(file, int(metadata["step"]), metric, int(metadata["number"]))
    except (KeyError, ValueError):
        raise oc.StateError(
            f"{file} has the name of a checkpoint, but none saved it: give it another name or folder"
        ) from None
