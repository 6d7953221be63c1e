"""NVIDIA's assembler, which checks PTX and reports the resources of kernels."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.records import dataclass

KERNEL = re.compile(r"Compiling entry function '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel: registers of a thread, its bytes spilled to memory, and the bytes of shared
    memory of a block.
    """

    registers: int
    spilled: int
    shared: int


def find_ptxas() -> str | None:
    """The assembler on the PATH, or that of the package `nvidia-cuda-nvcc`; None if there is none."""
    found = shutil.which("ptxas")
    if found is not None:
        return found
    spec = find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    programs = [program for folder in folders for program in sorted(Path(folder).glob("*/bin/ptxas"))]
    return str(programs[-1]) if programs else None


def assemble(ptx: str, arch: str) -> dict[str, Resources]:
    """Assembles PTX for an architecture; returns the resources of each kernel by name.

    Raises `DeviceError` if there is no assembler, or if it rejects the text.
    """
    program = find_ptxas()
    if program is None:
        raise DeviceError("there is no ptxas: install CUDA, or the package nvidia-cuda-nvcc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.ptx"
        source.write_text(ptx)
        command = [program, f"-arch={arch}", "-v", str(source), "-o", str(source.with_suffix(".cubin"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceError(f"ptxas rejects the kernels: {done.stderr.strip()}")
    return resources(done.stdout + done.stderr)


def resources(report: str) -> dict[str, Resources]:
    """The resources of each kernel by name, from a verbose report of ptxas."""
    parts = KERNEL.split(report)[1:]
    return {
        kernel: Resources(_sum(USED, text), _sum(SPILLS, text), _sum(SHARED, text))
        for kernel, text in zip(parts[::2], parts[1::2], strict=True)
    }


def _sum(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return sum(map(int, found.groups())) if found else 0
