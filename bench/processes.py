"""Workers: processes of one peer each, on the same cores and with the same number of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers import Missing

# What holds every peer to instructions that the processor has besides newer ones.
ISAS = {
    "native": {},
    "avx2": {
        "OCANNL_TARGET": "x86-64-v3",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
}
# A worker is ended where an answer takes longer, as of a kernel that never ends.
MOST_SECONDS = 600
WORKER = Path(__file__).with_name("worker.py")


def environment(threads: int, cache: str) -> dict[str, str]:
    """Holds a peer to a number of threads, and to one folder for what it compiles."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OCANNL_THREADS")
    settings = dict.fromkeys(names, str(threads)) | {
        "JAX_PLATFORMS": "cpu",
        "OCANNL_BACKEND": "cpu",
        "OCANNL_CACHE": cache,
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TORCHINDUCTOR_CACHE_DIR": cache,
    }
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        settings["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return os.environ | settings


def pin(threads: int) -> None:
    """Keeps this process and its workers on the first cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


class Failed(Exception):
    """A peer raised something, or ended."""


class Worker:
    """A peer in a process that waits between commands. One that ends is started again."""

    def __init__(self, peer: str, threads: int, cache: str, device: str = "cpu"):
        self.peer = peer
        self.device = device
        self.environment = environment(threads, cache)
        self.process = self.started()

    def started(self) -> subprocess.Popen[str]:
        command = [sys.executable, str(WORKER), self.peer, self.device]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=self.environment)

    def ask(self, command: str, *arguments: int | str) -> Any:
        """The answer to a command. Raises Missing if the peer has none, and why if it is not installed;
        Failed where it raises, ends, or takes too long. What it raised may have spoiled a GPU for its
        process, so it goes on in a new one.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # One that has ended is asked, too, and has no answer.
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps([command, *arguments]) + "\n")
            self.process.stdin.flush()
        watch = Timer(MOST_SECONDS, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if not line:
            status = self.process.wait()
            with suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process = self.started()
            raise Failed(f"it ended with exit status {status}")
        answer = json.loads(line)
        if "missing" in answer:
            raise Missing(answer["missing"])
        if "failed" in answer:
            self.process.communicate()
            self.process = self.started()
            raise Failed(answer["failed"])
        return answer["value"]

    def values(self) -> dict[str, NDArray[np.float32]]:
        """The peer's results, by way of a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "values.npz"
            self.ask("save", str(path))
            with np.load(path) as arrays:
                return {name: arrays[name] for name in arrays}

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()
