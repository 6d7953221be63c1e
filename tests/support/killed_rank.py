"""A program that trains with checkpoints, of which one rank may be killed on the way, or else at its end.

mpirun -n 2 python -m support.killed_rank FOLDER '{"data": 2}' [RANK CALL]
"""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType

from safetensors.numpy import save_file
from support.sharded_training import Training

from ocannl import train
from ocannl.runtime.collectives import mpi_wait
from ocannl.runtime.collectives.device import MeshDevice

EPOCHS = 4


def train_on(training: Training, folder: Path) -> None:
    """Goes on from the last checkpoint, saves after each epoch, and leaves the state at the end."""
    keep = train.Checkpoints(folder / "checkpoints", keep=2)
    latest = keep.restore(training.ctx, training.what)
    for epoch in range(latest.step if latest else 0, EPOCHS):
        training.run(1)
        keep.save(training.ctx, training.what, step=epoch + 1)
        training.ctx.once(partial(note, folder / "saved"))
    found = training.arrays()
    training.ctx.once(lambda: save_file(found, folder / "end.safetensors"))


def note(path: Path) -> None:
    """Makes a file longer by one byte."""
    with path.open("a") as file:
        file.write(".")


def kill_at(number: int) -> None:
    """Ends this process at a call of a function, by its number; those of polling do not count."""
    calls = count()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename != mpi_wait.__file__ and next(calls) == number:
            kill()

    sys.setprofile(profile)


def kill() -> None:
    """Ends this process as nothing can prevent."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, axes: str, victim: str = "-1", number: str = "0") -> None:
    training = Training(json.loads(axes), engine="mpi")
    device = training.ctx.device
    assert isinstance(device, MeshDevice)
    (rank,) = device.engine.ranks
    (Path(folder) / f"process.{rank}").write_text(str(os.getpid()))
    training.ctx.once(lambda: None)
    if rank == int(victim):
        kill_at(int(number))
    train_on(training, Path(folder))
    if rank == int(victim):  # it has called fewer functions than that
        kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
