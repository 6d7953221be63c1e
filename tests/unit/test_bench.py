"""The benchmark compares like with like."""

import subprocess
import sys

import numpy as np
import peer_numpy
import peer_ocannl
import products
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


@pytest.mark.parametrize("spec", [*products.TRANSPOSITIONS, *products.ATTENTION])
def test_peers_compute_the_same_product(spec: str):
    sizes = {"b": 2, "h": 3, "i": 4, "j": 5, "k": 6, "d": 7}
    operands, result = spec.split("->")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal([sizes[n] for n in own]).astype(np.float32) for own in operands.split(","))
    product = np.matmul(*products.as_matrices(spec, a, b))
    expected = np.einsum(f"{operands}->{''.join(n for n in 'bhijd' if n in result)}", a, b)
    np.testing.assert_allclose(product, expected, rtol=1e-5, atol=1e-5)


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
