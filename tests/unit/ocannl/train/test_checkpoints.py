"""Checkpoints: which are kept, which is the best, and that no end of a process loses any."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.layering import ROOT

import ocannl as oc
from ocannl import train


class Saved:
    """A parameter whose value is the step."""

    def __init__(self, folder: Path, **how: object) -> None:
        self.p, self.ctx = oc.param("p", np.zeros(2)), oc.Context.cpu()
        self.keep = train.Checkpoints(folder, **how)  # pyright: ignore[reportArgumentType]

    def save(self, metrics: dict[int, float | None]) -> list[int]:
        """Saves steps with metrics; gives the steps that are kept."""
        for step, metric in metrics.items():
            self.ctx[self.p] = float(step)
            self.keep.save(self.ctx, self.p, step=step, metric=metric)
        return [checkpoint.step for checkpoint in self.keep.all]


def test_the_last_ones_and_the_best_are_kept(tmp_path: Path):
    saved = Saved(tmp_path / "runs" / "a", keep=2)
    assert saved.save({1: 5.0, 2: 3.0, 3: 4.0, 4: 3.0, 5: 6.0, 6: math.nan}) == [2, 5, 6]
    latest = saved.keep.restore(saved.ctx, saved.p)
    assert latest is not None
    assert latest.step == 6
    assert saved.ctx[saved.p].tolist() == [6, 6]
    found = saved.keep.restore(saved.ctx, saved.p, "best")
    assert found is not None
    assert (found.step, found.metric) == (2, 3.0)
    assert saved.ctx[saved.p].tolist() == [2, 2]
    assert saved.save({7: 2.5}) == [6, 7]


def test_the_greatest_or_no_best(tmp_path: Path):
    assert Saved(tmp_path / "max", keep=1, best="max").save({1: 5.0, 2: 3.0, 3: 4.0}) == [1, 3]
    assert Saved(tmp_path / "none", keep=1, best=None).save({1: 5.0, 2: 3.0, 3: 4.0}) == [3]
    assert Saved(tmp_path / "unrated", keep=1).save({1: None, 2: None}) == [2]


def test_steps_that_begin_again_are_the_latest(tmp_path: Path):
    """After the best one is restored, the later steps of before are no longer what is resumed."""
    saved = Saved(tmp_path, keep=2)
    saved.save({1: 1.0, 2: 2.0, 3: 3.0})
    saved.keep.restore(saved.ctx, saved.p, "best")
    assert saved.save({2: 2.5}) == [1, 3, 2]
    latest = saved.keep.latest
    assert latest is not None
    assert latest.step == 2


def test_a_part_of_what_was_saved(tmp_path: Path):
    saved, other = Saved(tmp_path), oc.param("other", 1.0, output=1)
    saved.ctx.init_params(other)
    saved.ctx[saved.p] = 7.0
    saved.keep.save(saved.ctx, [saved.p, other], step=1)
    saved.ctx[saved.p] = 0.0
    with pytest.raises(oc.StateError, match=r"not in the program \(strict=False leaves them out\): other"):
        saved.keep.restore(saved.ctx, saved.p)
    assert saved.keep.restore(saved.ctx, saved.p, strict=False) == saved.keep.latest
    assert saved.ctx[saved.p].tolist() == [7, 7]


def test_nothing_to_restore(tmp_path: Path):
    saved = Saved(tmp_path / "none")
    assert saved.keep.restore(saved.ctx, saved.p) is None
    assert saved.keep.restore(saved.ctx, saved.p, "best") is None


def test_other_files_stay(tmp_path: Path):
    (tmp_path / "log.csv").write_text("1\n")
    saved = Saved(tmp_path, keep=1)
    killed = tmp_path / ".step-000000001.safetensors.partial"
    killed.mkdir()
    (killed / ".tmp81Ab2c").write_text("half")
    assert saved.save({2: 1.0}) == [2]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.csv", "step-000000002.safetensors"]


def test_other_state_with_the_name_of_a_checkpoint_is_told(tmp_path: Path):
    saved, file = Saved(tmp_path), tmp_path / "step-000000002.safetensors"
    saved.ctx.init_params(saved.p)
    saved.ctx.save(file, saved.p)
    with pytest.raises(oc.StateError, match=f"{file.name} has the name of a checkpoint, but none saved it"):
        saved.save({3: 1.0})
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_arguments(tmp_path: Path):
    for how in ({"keep": 0}, {"keep": True}, {"best": "least"}):
        with pytest.raises(oc.ArgumentError, match=r"keep is a number|best is 'min'"):
            Saved(tmp_path, **how)
    saved = Saved(tmp_path)
    with pytest.raises(oc.ArgumentError, match="'latest' checkpoint is restored or the 'best', found 'last'"):
        saved.keep.restore(saved.ctx, saved.p, "last")  # pyright: ignore[reportArgumentType]


def check_kills(folder: Path, kills: int) -> None:
    command = [sys.executable, str(ROOT / "tests/support/killed_training.py"), str(folder), str(kills)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, env={**os.environ})
    *ends, whole_files, killed_files = done.stdout.splitlines()
    assert ends[:2] == ends[2:]
    assert killed_files == whole_files


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_training_that_is_killed_ends_as_training_that_is_not(tmp_path: Path):
    check_kills(tmp_path, 3)


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_training_that_is_killed_often(tmp_path: Path):
    check_kills(tmp_path, 200)
