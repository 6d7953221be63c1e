"""Training that is killed at random moments and resumed: a program for a process of its own.

It forks, so that compiling happens once. Prints the bits of the end and the best metric, of an uninterrupted
run and of one that was killed many times.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

import ocannl as oc
from ocannl import nn, train

STEPS = 30


class Program:
    """A model with batch norm, momentum, a schedule and a place in data."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.x = oc.data(np.zeros((8, 3), np.float32), label="x")
        step_n = oc.index("step_n")
        norm, layer = nn.batch_norm1d(), nn.linear(out_dim=2)
        self.loss = (layer(norm(self.x, train_step=step_n)) ** 2).einsum("...|... => 0")
        self.context = oc.Context.cpu(threads=1)
        optimizer = train.adamw(train.cosine(0.05, STEPS), clip_norm=0.5, ema=0.9)
        self.step = self.context.compile(optimizer.step(self.loss))
        self.batches = train.batches(rng.normal(size=(40, 3)).astype(np.float32), size=8, shuffle=1)
        self.context.init_params(self.loss)

    @property
    def what(self) -> list[object]:
        return [self.step, self.batches]

    def run(self, folder: Path) -> None:
        keep = train.Checkpoints(folder, keep=2, best="min")
        found = keep.restore(self.context, self.what)
        step = 0 if found is None else found.step
        while step < STEPS:
            for x in self.batches:
                self.context[self.x] = x
                self.step()
                step += 1
                # Up and down, so that the best one is not the last.
                metric = float(self.context[self.loss]) + (step % 7)
                keep.save(self.context, self.what, step=step, metric=metric)
                if step == STEPS:
                    break

    def end(self, folder: Path) -> str:
        keep = train.Checkpoints(folder, keep=2, best="min")
        told: list[str] = []
        for which in ("latest", "best"):
            found = keep.restore(self.context, self.what, which)
            assert found is not None
            bits = hashlib.sha256()
            for entry in oc.state(self.what).values():
                bits.update(self.context[entry].tobytes())
            told.append(f"{which} {found.step} {found.metric!r} {bits.hexdigest()}")
        return "\n".join(told)


def in_fork(program: Program, folder: Path, seconds: float | None) -> bool:
    """Runs training in a fork, which is killed after a time; whether it came to its end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            program.run(folder)
            status = 0
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, "training failed"
    return os.WIFEXITED(status)


def main() -> None:
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    program, chance = Program(), random.Random(1)
    began = time.monotonic()
    in_fork(program, folder / "whole", None)
    whole = time.monotonic() - began
    left = kills
    while left:
        if in_fork(program, folder / "killed", chance.random() * whole / 4):
            for file in (folder / "killed").iterdir():
                file.unlink()
        else:
            left -= 1
    while not in_fork(program, folder / "killed", None):
        pass
    for part in ("whole", "killed"):
        print(program.end(folder / part))
    for part in ("whole", "killed"):
        print(sorted(file.name for file in (folder / part).iterdir()))


if __name__ == "__main__":
    main()
