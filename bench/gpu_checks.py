"""Checks an NVIDIA GPU that nobody has checked yet, the simplest first, in less than ten minutes.

First the driver, then one kernel in all ways to launch it, then all kinds of kernels beside those of the CPU.
Each check prints a line; where one fails, the next one goes on if the GPU can still be used. Then come the
tools of NVIDIA's toolkit, where they are installed, and timings. With names, only these checks run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import llvmlite
import numpy as np
from kernels import BACKWARD, kernel
from kernels_ocannl import Runs as KernelRuns
from numpy.typing import NDArray
from steps import PROBLEMS
from steps_ocannl import Runs as StepRuns

import ocannl as oc
from ocannl.runtime.cuda import CudaDevice

HERE = Path(__file__).parent
PRECISIONS, FORMS = ("", "_tf32", "_bf16"), ("", "_nt", "_tn", "_tt")
# How close results are to those of the CPU, relative to the largest one; some operands are rounded.
CLOSE = {"f32": 1e-5, "tf32": 2e-2, "bf16": 2e-2}
ROWS = ("softmax", "layer_norm", "rms_norm", "log_softmax", "cross_entropy", "gelu", "transpose")
KERNELS = [
    *(f"gemm{form}_256x192x320{kind}" for kind in PRECISIONS for form in FORMS),
    *(f"gemm_128x{64 * steps}x256{kind}" for kind in PRECISIONS for steps in range(1, 6)),
    *(f"gemm{form}_72x200x104{kind}" for kind in PRECISIONS for form in FORMS),
    *(f"gemm{form}_37x53x71{kind}" for kind in PRECISIONS for form in FORMS),
    *(f"{block}_200x300{suffix}" for block in ROWS for suffix in ("", BACKWARD)),
    *(f"conv_14x64x64_3x3{of}" for of in ("", "_image", "_kernel")),
    *("conv_16x32x64_3x3_by2", "convolution", "convolution_backward"),
]
# What tools that slow kernels down look at.
FEW = [
    "a graph",
    *(f"gemm_nt_256x192x320{kind}" for kind in PRECISIONS),
    *("gemm_37x53x71_bf16", "f64", "softmax_200x300", f"layer_norm_200x300{BACKWARD}", "conv_14x64x64_3x3"),
]
LARGE = "gemm_4096x4096x4096_bf16"
# The seconds that each tool may take.
SANITIZER_SECONDS, TIMING_SECONDS, PROFILE_SECONDS = 80, 150, 60
STEP_CLOSE = 1e-3


def close(found: NDArray[Any], wanted: NDArray[Any], tolerance: float) -> str:
    """How far results are away, relative to the largest one. Raises `AssertionError` for too far."""
    scale = float(np.max(np.abs(wanted), initial=1))
    away = float(np.max(np.abs(np.subtract(found, wanted, dtype=np.float64)), initial=0)) / scale
    assert away <= tolerance, f"results are {away:.1e} away, allowed are {tolerance:.0e}"
    return f"within {away:.1e}"


def driver() -> str:
    device = oc.Context.cuda().device
    assert isinstance(device, CudaDevice)
    pools = "memory pools" if device.has_pools else "no memory pools"
    version = device.driver.version()
    return f"{device.name}, {device.arch}, CUDA {version}, {pools}, llvmlite {llvmlite.__version__}"


def addition(alone: bool) -> str:
    """One kernel, launched by itself or as a graph."""
    x = np.arange(1000, dtype=np.float32)
    with patch.dict(os.environ, OCANNL_CUDA_SYNC=str(int(alone))):
        context = oc.Context.cuda()
    y = oc.data(x, axes="o", label="x") + 1
    context.compile(oc.forward(y), name="addition")()
    return close(np.asarray(context[y]), x + 1, 0)


def indexed(how: str) -> str:
    """A kernel with an index: changed between launches of a graph, or by `run_loop`; or its profile."""
    x = np.arange(60, dtype=np.float32).reshape(3, 20)
    i, context, total = oc.index("i", 3), oc.Context.cuda(), oc.node("total", output=20)
    code = oc.accumulate(total, "add", oc.data(x, label="rows")[i], spec="o => o")
    routine = context.compile(code, name="rows")
    if how == "profile":
        return str(routine.profile(runs=3)).splitlines()[-1].strip()
    if how == "loop":
        routine.run_loop(epochs=2)
        return close(np.asarray(context[total]), 2 * x.sum(0), 0)
    for row in (2, 0, 2):
        routine(i=row)
    return close(np.asarray(context[total]), x[0] + 2 * x[2], 0)


def doubles() -> str:
    """A product in f64, which tensor cores do not round."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((96, 200)), rng.standard_normal((200, 130))
    y = oc.einsum("b | k; k | o => b | o", oc.data(x, label="x"), oc.data(w, label="w"))
    context = oc.Context.cuda()
    context.compile(oc.forward(y), name="doubles")()
    return close(np.asarray(context[y]), x @ w, 1e-13)


def beside_cpu(name: str) -> str:
    """A kernel of the benchmarks, which the CPU computes, too."""
    found = kernel(name)
    values: list[Mapping[str, Any]] = []
    for device in ("cuda", "cpu"):
        runs = KernelRuns(found, device)
        runs.first()
        values.append(runs.values())
    gpu, cpu = values
    return ", ".join(close(gpu[key], cpu[key], CLOSE[found.precision]) for key in cpu)


def step(name: str) -> str:
    """The first losses of a training step."""
    gpu, cpu = (StepRuns(PROBLEMS[name](), device) for device in ("cuda", "cpu"))
    found, wanted = (np.array([runs.first(), runs.step(1)]) for runs in (gpu, cpu))
    return close(found, wanted, STEP_CLOSE)


CHECKS: dict[str, Callable[[], str]] = {
    "driver": driver,
    "kernel by kernel": partial(addition, True),
    "a graph": partial(addition, False),
    "an index": partial(indexed, "calls"),
    "run_loop": partial(indexed, "loop"),
    "profile": partial(indexed, "profile"),
    "f64": doubles,
    **{name: partial(beside_cpu, name) for name in KERNELS},
    **{name: partial(step, name) for name in ("moons", "mlp", "lenet", "charlm")},
}


def known(name: str) -> str:
    if name not in CHECKS:
        raise argparse.ArgumentTypeError(f"there is no check {name!r}")
    return name


def checked(names: Sequence[str]) -> list[str]:
    """Runs checks in order; returns those that failed. After an error of a kernel no other can run."""
    failed: list[str] = []
    for name in names:
        start, said = time.perf_counter(), "ok"
        try:
            said = f"ok, {CHECKS[name]()}"
        except (AssertionError, oc.OcannlError) as error:
            said = f"FAILED: {error}"
            failed.append(name)
        print(f"{name:34} {time.perf_counter() - start:6.1f} s  {said}", flush=True)
        if "cannot use the GPU any more" in said:
            break
    return failed


def tools() -> dict[str, tuple[list[str], int]]:
    """Commands after the checks, by what they are, and the seconds that each may take."""
    own = [sys.executable, str(Path(__file__)), *FEW]
    sanitizers = {
        f"compute-sanitizer {tool}": (
            ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *own],
            SANITIZER_SECONDS,
        )
        for tool in ("memcheck", "racecheck", "synccheck")
    }
    timing = [sys.executable, str(HERE / "gpu.py"), "--quick"]
    profile = ["ncu", "--set", "basic", sys.executable, str(HERE / "gpu.py"), LARGE, "--rounds", "1"]
    return {
        **sanitizers,
        "timings": (timing, TIMING_SECONDS),
        "profile of a product": (profile, PROFILE_SECONDS),
    }


def run_tool(name: str, command: Sequence[str], seconds: int) -> bool:
    """Runs a command, and prints what it says; returns whether it failed. One that is missing has not."""
    print(f"\n{name}", flush=True)
    if shutil.which(command[0]) is None:
        print(f"there is no {command[0]}: it comes with NVIDIA's CUDA toolkit")
        return False
    try:
        return subprocess.run(command, check=False, timeout=seconds).returncode != 0
    except subprocess.TimeoutExpired:
        print(f"it takes longer than {seconds} seconds")
        return False


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="check", type=known, help=", ".join(CHECKS))
    names: list[str] = parser.parse_args(args).names
    failed = checked(names or list(CHECKS))
    if not names:
        failed += [name for name, (command, seconds) in tools().items() if run_tool(name, command, seconds)]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
