"""The half-moons step in C, compiled by gcc when it is measured."""

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from peers import Missing
from steps import Floats, Layers, Problem

SOURCE = Path(__file__).with_name("moons.c")


def pointer(array: Floats) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Runs:
    def __init__(self, problem: Problem, options: tuple[str, ...]):
        if not isinstance(problem, Layers) or problem.name != "moons":
            raise Missing
        subprocess.run(["gcc", "--version"], check=True, capture_output=True)
        self.problem = problem
        self.options = options
        self.loss = np.zeros(1, np.float32)
        (w1, w2, w3), (b1, b2, _) = problem.weights, problem.biases
        assert b1 is not None
        assert b2 is not None
        self.initial = [w1, b1, w2, b2, w3]
        self.parameters = [array.copy() for array in self.initial]
        data = problem.inputs, problem.targets
        self.arguments = [pointer(array) for array in (*data, *self.parameters, self.loss)]

    def compile(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "moons.so"
            options = [*self.options, "-shared", "-fPIC", "-o", str(target), str(SOURCE)]
            subprocess.run(["gcc", *options], check=True)
            self.library = ctypes.CDLL(str(target))

    def first(self) -> float:
        self.compile()
        return self.step(0)

    def step(self, step_n: int) -> float:
        self.library.moons_step(step_n % self.problem.batches, step_n, *self.arguments)
        return float(self.loss[0])

    def values(self) -> dict[str, Any]:
        for parameter, initial in zip(self.parameters, self.initial, strict=True):
            parameter[...] = initial
        return {"losses": [self.step(step_n) for step_n in range(self.problem.verified_steps)]}

    def call(self, count: int) -> None:
        step, arguments, batches = self.library.moons_step, self.arguments, self.problem.batches
        for step_n in range(count):
            step(step_n % batches, step_n, *arguments)

    def loop(self, count: int) -> None:
        self.library.moons_steps(count, *self.arguments)


def version() -> str:
    done = subprocess.run(["gcc", "-dumpfullversion"], check=True, capture_output=True, text=True)
    return done.stdout.strip()
