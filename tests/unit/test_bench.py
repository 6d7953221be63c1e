"""The benchmark compares like with like."""

import subprocess
import sys

import numpy as np
import peer_numpy
import peer_ocannl
import pytest
from layering import ROOT
from problems import PROBLEMS


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_losses_are_those_of_numpy(name: str):
    problem = PROBLEMS[name]()
    steps = peer_ocannl.Steps(problem)
    first = steps.first()
    losses = steps.losses(problem.verified_steps)
    assert first == losses[0]
    np.testing.assert_allclose(
        losses, peer_numpy.Steps(problem).losses(problem.verified_steps), rtol=2e-3, atol=1e-4
    )


def test_the_time_of_each_nest():
    command = [sys.executable, str(ROOT / "bench" / "nests.py"), "--problem", "moons"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "w1.grad" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("us all")


def test_the_command_prints_a_table():
    options = ["--peer", "numpy", "--problem", "moons", "--rounds", "1", "--first-rounds", "1"]
    command = [sys.executable, str(ROOT / "bench" / "run.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "step by step" in done.stdout
    assert "numpy" in done.stdout


def test_the_table_of_kernels():
    """Which are compared with PyTorch first."""
    pytest.importorskip("torch")
    options = ["--peer", "ocannl", "--kernel", "layer_norm", "--rounds", "1"]
    command = [sys.executable, str(ROOT / "bench" / "kernels.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "layer_norm      forward + backward" in done.stdout
