"""Programs of processes and threads that share a cache, while others kill them and change its files.

    python -m support.cache_faults SEED      # in tests/: one of the processes, until it is killed

Whatever happens to the files, no program has a wrong result, and no process ends by itself.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import numpy as np

import ocannl as oc

from .layering import TESTS

THREADS = 8
PROGRAMS = 24
"""So many programs there are: most of them are in the cache soon."""
KILLS = 0.003
"""The chance that a process is killed, each 20 ms."""
SMALL_DISK = 3000
"""The bytes of a file of a process whose disk is full."""


def program(number: int) -> None:
    """Compiles and runs one of the programs. Raises `AssertionError` for a wrong result."""
    size = 3 + number
    array = np.arange(size * size, dtype=np.float32).reshape(size, size)
    x = oc.data(array / array.max() + number, axes="oo")
    ctx = oc.Context.cpu(threads=1)
    step = ctx.compile(oc.forward((oc.sin(x) * (number + 1)).sum(0)), name=f"program{number}")
    for _ in range(2):
        step()
    value = oc.sqrt(x) - number
    wanted = np.sqrt(array / array.max() + number, dtype=np.float64) - number
    np.testing.assert_allclose(ctx[value], wanted, rtol=1e-4, atol=1e-4)


def work(seed: int) -> None:
    """Runs programs until this thread's process is killed; a line for each."""
    chance = random.Random(seed)
    while True:
        number = chance.randrange(PROGRAMS)
        try:
            program(number)
        except BaseException as error:
            print(f"WRONG {number} {type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os.write(1, b".")


def serve(seed: int) -> None:
    if seed % 4 == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK, SMALL_DISK))
    threads = [Thread(target=work, args=(seed * THREADS + k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def swapped(files: Sequence[Path], chance: random.Random) -> None:
    one, other = chance.sample([*files], 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def cut(files: Sequence[Path], chance: random.Random) -> None:
    file = chance.choice(files)
    file.write_bytes(file.read_bytes()[: chance.randrange(2000)])


def changed(files: Sequence[Path], chance: random.Random) -> None:
    file = chance.choice(files)
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def no_file(files: Sequence[Path], chance: random.Random) -> None:
    file = chance.choice(files)
    file.unlink()
    chance.choice((os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path)))(file)


def for_all(files: Sequence[Path], chance: random.Random) -> None:
    """Another user's, or one that others may write: with right contents, so that only its state is wrong."""
    file = chance.choice(files)
    if os.getuid() == 0 and chance.random() < 0.5:
        os.chown(file, 12345, -1)
    else:
        file.chmod(0o666)


def gone(files: Sequence[Path], chance: random.Random) -> None:
    file = chance.choice(files)
    file.rmdir() if file.is_dir() else file.unlink()


FAULTS: tuple[Callable[[Sequence[Path], random.Random], None], ...] = (
    *(swapped, swapped, cut, changed, no_file, for_all, gone),
)


@dataclass
class Faults:
    """Processes on one cache, and what happened to them."""

    folder: Path
    processes: int
    counts: dict[str, int] = field(default_factory=dict[str, int])
    output: str = ""

    def start(self, seed: int) -> subprocess.Popen[str]:
        environment = os.environ | {"OCANNL_CACHE": str(self.folder / "cache"), "OCANNL_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "support.cache_faults", str(seed)],
            stdout=(self.folder / f"{seed}.out").open("w"),
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=TESTS,
            text=True,
        )

    def run(self, seconds: float, programs: int, seed: int = 0) -> None:
        """Changes files and kills processes for so long, and until so many programs were right; ends with all
        killed. Raises `AssertionError` for a process that has ended by itself.
        """
        chance, count = random.Random(seed), self.processes
        running = [self.start(k) for k in range(count)]
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until or self.right < programs:
                time.sleep(0.02)
                self.change(chance)
                if chance.random() < KILLS:
                    at = chance.randrange(self.processes)
                    self.counts["killed"] = self.counts.get("killed", 0) + 1
                    running[at].kill()
                    running[at].wait()
                    running[at], count = self.start(count), count + 1
                for process in running:
                    assert process.poll() is None, f"a process ended: {process.returncode}"
        finally:
            for process in running:
                process.kill()
                process.wait()
            self.output = "".join(file.read_text() for file in self.folder.glob("*.out"))

    @property
    def right(self) -> int:
        """The number of programs that were right, of each of which a process writes one character."""
        return sum(file.stat().st_size for file in self.folder.glob("*.out"))

    def change(self, chance: random.Random) -> None:
        entries = [*(self.folder / "cache").glob("**/*.o")]
        fault = chance.choice(FAULTS)
        files = [e for e in entries if fault is gone or (e.is_file() and not e.is_symlink())]
        if len(files) > 2:
            # Others change the folder, too, and some entries are not files any more.
            with suppress(OSError):
                fault(files, chance)
                self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1


if __name__ == "__main__":
    serve(int(sys.argv[1]))
