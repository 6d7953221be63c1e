"""Training with checkpoints on MPI, of which a rank is killed: all end, and what was saved last goes on."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from support.killed_rank import EPOCHS, train_on
from support.sharded_training import Training

from ocannl import train

MPIRUN = Path(sys.executable).parent / "mpirun"
TESTS = Path(__file__).parents[3]
MESHES: list[Mapping[str, int]] = [{"data": 2}, {"data": 4}, {"data": 2, "model": 2}, {"stage": 2}]
RESUMED: list[Mapping[str, int]] = [{}, {"data": 2}, {"data": 4}]
# The calls of functions in the training, of ranks that call fewest; the victim is killed in one of these.
CALLS = 21000

pytestmark = pytest.mark.skipif(
    find_spec("mpi4py") is None or not MPIRUN.exists(), reason="mpi4py or MPICH is missing"
)


def run(axes: Mapping[str, int], folder: Path, *killed: int) -> int:
    """The exit code, when all processes have ended."""
    program = [sys.executable, "-m", "support.killed_rank", str(folder), json.dumps(axes)]
    command = [str(MPIRUN), "-n", str(ranks_of(axes)), *program, *map(str, killed)]
    ended = subprocess.run(command, timeout=120, cwd=TESTS, check=False)
    for file in folder.glob("process.*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)
    return ended.returncode


def ranks_of(axes: Mapping[str, int]) -> int:
    return math.prod(axes.values())


def undisturbed(axes: Mapping[str, int], folder: Path) -> Mapping[str, NDArray[Any]]:
    """The end of training on threads."""
    training = Training(axes)
    train_on(training, folder)
    return training.arrays()


def check_end(found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], rtol: float) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=rtol, atol=rtol, err_msg=name)


def check_kill(axes: Mapping[str, int], victim: int, number: int, folder: Path) -> None:
    folder.mkdir()
    assert run(axes, folder, victim, number) != 0
    noted = folder / "saved"
    saved = noted.stat().st_size if noted.exists() else 0
    latest = train.Checkpoints(folder / "checkpoints").latest
    assert (latest.step if latest else 0) in (saved, saved + 1)
    copies = [shutil.copytree(folder, folder.with_name(f"{folder.name}-{k}")) for k in range(len(RESUMED))]
    expected = undisturbed(axes, folder.with_name(f"{folder.name}-whole"))
    for others, copy in zip(RESUMED, copies, strict=True):
        training = Training(others, seed=2 if latest else 1)
        train_on(training, copy)
        check_end(training.arrays(), expected, 1e-12)

    assert run(axes, folder) == 0
    check_end(load_file(folder / "end.safetensors"), expected, 0)
    latest = train.Checkpoints(folder / "checkpoints").latest
    assert latest is not None
    assert latest.step == EPOCHS


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("victim", "number"), [(0, 11000), (1, 17000)])
def test_training_goes_on_after_a_rank_was_killed(victim: int, number: int, tmp_path: Path) -> None:
    check_kill(MESHES[0], victim, number, tmp_path / "run")


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(50))
def test_any_rank_may_be_killed_at_any_time(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    axes = MESHES[seed % len(MESHES)]
    victim = int(rng.integers(ranks_of(axes)))
    check_kill(axes, victim, int(rng.integers(CALLS)), tmp_path / "run")
