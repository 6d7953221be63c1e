"""A peer in a process of its own: it answers commands, one JSON value a line.

Importing and building are not timed.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from kernels import kernel
from peers import ALL, Missing
from problems import STEPS, module_of


class Answers:
    """The answers of a peer to commands; all but `build` are about the benchmark that was built last."""

    def __init__(self, peer: str, device: str = "cpu") -> None:
        self.peer = ALL[peer]
        self.options = self.peer.options | ({} if device == "cpu" else {"device": device})
        self.runs: Any = None

    def build(self, name: str) -> None:
        """Raises Missing, or ImportError and OSError where the peer is not installed."""
        self.runs = None
        of_peer = module_of(name, self.peer.framework)
        if find_spec(of_peer) is None:
            raise Missing
        module = import_module(of_peer)
        self.before = peak_bytes()
        self.runs = module.Runs(STEPS[name]() if name in STEPS else kernel(name), **self.options)

    def version(self) -> str:
        framework = self.peer.framework
        if framework == "c":
            return import_module("steps_c").version()
        try:
            return metadata.version(framework)
        except metadata.PackageNotFoundError:
            return "unknown"

    def first(self) -> float:
        """Seconds from what is built to the first result."""
        return timed(self.runs.first)

    def memory(self) -> int:
        """Bytes at most that the benchmark took since it was built, its data among them."""
        return peak_bytes() - self.before

    def save(self, path: str) -> None:
        arrays: dict[str, Any] = {
            name: np.asarray(value, np.float32) for name, value in self.runs.values().items()
        }
        np.savez(path, **arrays)

    def call(self, count: int) -> float:
        return timed(lambda: self.runs.call(count))

    def loop(self, count: int) -> float | None:
        """None where a peer always returns to Python."""
        return timed(lambda: self.runs.loop(count)) if hasattr(self.runs, "loop") else None


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def peak_bytes() -> int:
    """The most memory that this process had. The system's `ru_maxrss` would count its parent's, too."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def answer(answers: Answers, command: str, *arguments: Any) -> dict[str, Any]:
    try:
        return {"value": getattr(answers, command)(*arguments)}
    except (Missing, ImportError, OSError) as error:
        return {"missing": str(error)}
    # Whatever it is: the other benchmarks of this process go on.
    except Exception as error:
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"}


def main(*options: str) -> None:
    answers = Answers(*options)
    for line in sys.stdin:
        print(json.dumps(answer(answers, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
