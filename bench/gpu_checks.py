"""Checks an NVIDIA GPU that nobody has checked yet, the simplest first, in less than ten minutes.

First the driver, then one kernel in all ways to launch it, then all kinds of kernels beside those of the CPU.
Each check prints a line. Checks run in a process of their own: where a kernel spoils the GPU for that, never
ends, or ends it, a new one goes on with the next check. Then come the tools of NVIDIA's toolkit, where they
are installed, and timings. With names, only these checks run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from signal import SIGKILL
from threading import Timer
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
from ocannl import nn
from ocannl.runtime.cuda import CudaDevice

HERE, OWN = Path(__file__).parent, (sys.executable, str(Path(__file__)))
PRECISIONS, FORMS = ("", "_tf32", "_bf16"), ("", "_nt", "_tn", "_tt")
# How close results are to those of the CPU, relative to the largest one; some operands are rounded.
CLOSE = {"f32": 1e-5, "tf32": 2e-2, "bf16": 2e-2, "f8": 1e-3}
ROWS = ("softmax", "layer_norm", "rms_norm", "log_softmax", "cross_entropy", "gelu", "transpose")
KERNELS = [
    *(f"gemm{form}_256x192x320{kind}" for kind in PRECISIONS for form in FORMS),
    *(f"gemm_128x{64 * steps}x256{kind}" for kind in PRECISIONS for steps in range(1, 6)),
    *(f"gemm{form}_72x200x104{kind}" for kind in PRECISIONS for form in FORMS),
    *(f"gemm{form}_37x53x71{kind}" for kind in PRECISIONS for form in FORMS),
    # Products of warpgroups on Hopper, whose rings of bulk copies go around; then copies by threads.
    *(f"gemm{form}_1024x448x1024_bf16" for form in FORMS),
    *("gemm_nt_2048x448x2056_bf16", "gemm_nt_2047x449x2051_bf16"),
    *(f"{block}_200x300{suffix}" for block in ROWS for suffix in ("", BACKWARD)),
    *(f"conv_14x64x64_3x3{of}" for of in ("", "_image", "_kernel")),
    *("conv_16x32x64_3x3_by2", "convolution", "convolution_backward"),
]
# Products of warpgroups for which warps copy, in all layouts; one has more tiles than an H100 has processors.
BY_ROLES = (
    *(f"gemm{form}_2048x448x2048_bf16" for form in FORMS),
    *("gemm_nt_2048x448x2048_tf32", "gemm_nt_2048x448x2056_bf16", "gemm_nt_4096x1024x4096_bf16"),
)
# What all others need.
SIMPLE = ("driver", "kernel by kernel", "a graph", "an index", "run_loop", "profile")
# What tools that slow kernels down look at.
FEW = [
    "a graph",
    *(f"gemm_nt_256x192x320{kind}" for kind in PRECISIONS),
    *("gemm_1024x448x1024_bf16", "f8E4M3FN", "attention in bf16"),
    *(
        "gemm_nt_2048x448x2056_bf16 by roles",
        "gemm_37x53x71_bf16",
        "f64",
        "softmax_200x300",
        f"layer_norm_200x300{BACKWARD}",
        "conv_14x64x64_3x3",
    ),
]
LARGE, LARGE_ROWS, LARGE_CALLS = "gemm_4096x4096x4096_bf16", 8, 20
# The seconds that each check may take, and each tool.
CHECK_SECONDS = 100
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


def on_both(code: Callable[[oc.Context], oc.Tensor]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The results of a GPU and of the CPU; each has to compile the code anew."""
    gpu, cpu = (
        np.asarray(context[code(context)], np.float64) for context in (oc.Context.cuda(), oc.Context.cpu())
    )
    return gpu, cpu


def halves() -> str:
    """A product in f16."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((1024, 448), (448, 1024)))

    def product(context: oc.Context) -> oc.Tensor:
        y = oc.einsum("b | k; k | o => b | o", oc.data(x, label="x"), oc.data(w, label="w"))
        context.compile(oc.forward(y), name="halves")()
        return y

    return close(*on_both(product), CLOSE["bf16"])


def quarters(dtype: Any, spec: str) -> str:
    """A product of numbers of 8 bits, in f32: of warpgroups on Hopper, by copies along the sum."""
    rng = np.random.default_rng(0)
    sizes = {"b": 1024, "k": 576, "o": 1032}
    shapes = [[sizes[axis] for axis in part.split(" | ")] for part in spec.split(" => ")[0].split("; ")]
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in shapes)

    def product(context: oc.Context) -> oc.Tensor:
        y = oc.einsum(spec, *(oc.cast(oc.data(a, label=n), np.float32) for a, n in ((x, "x"), (w, "w"))))
        context.compile(oc.forward(y), name="quarters")()
        return y

    return close(*on_both(product), CLOSE["f8"])


def attention(dtype: Any, is_backward: bool, length: int = 256) -> str:
    """Causal attention, as one kernel; or the gradient of the queries."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, length, 4, 64)).astype(np.float32) for _ in range(3)]

    def attended(context: oc.Context) -> oc.Tensor:
        q, k, v = (
            oc.node(label, batch=a.shape[:2], output=a.shape[2:], dtype=dtype)
            for label, a in zip("qkv", arrays, strict=True)
        )
        for node, array in zip((q, k, v), arrays, strict=True):
            context[node] = array.astype(dtype)
        y = nn.dot_product_attention(q, k, v, nn.causal_mask()).named("y")
        result = oc.grad((y * y).sum(), q) if is_backward else y
        context.compile(oc.forward(result), name="attention")()
        return result

    return close(*on_both(attended), CLOSE["f32" if dtype == np.float32 else "bf16"])


def all_halves(dtype: Any) -> str:
    """Functions of all numbers of 16 bits, whose instructions are approximate: at most one number away."""
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    functions = {
        "exp": oc.exp,
        "erf": oc.erf,
        "tanh": oc.tanh,
        "sigmoid": oc.sigmoid,
        "1 / x": lambda x: 1 / x,
    }
    said: list[str] = []
    for name, function in functions.items():
        found, wanted = on_both(partial(applied, function, x))
        assert np.array_equal(np.isnan(found), np.isnan(wanted)), f"{name}: NaN elsewhere"
        places = [np.where(v < 0x8000, v, 0x8000 - v) for v in map(bits, (found, wanted), (dtype, dtype))]
        away = np.abs(places[0] - places[1])[~np.isnan(wanted)]
        assert away.max() <= 1, f"{name}: results are {away.max()} numbers away"
        said.append(f"{name} {np.mean(away > 0):.1%}")
    return f"one number away: {', '.join(said)}"


def bits(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return values.astype(dtype).view(np.uint16).astype(int)


def applied(function: Callable[[oc.Tensor], oc.Tensor], x: NDArray[Any], context: oc.Context) -> oc.Tensor:
    y = function(oc.data(x, axes="o", label="x"))
    context.compile(oc.forward(y), name="functions")()
    return y


def scores(is_backward: bool) -> str:
    """A loss in f32 of scores in bf16, whose rows have an odd number of columns; or a gradient by it."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((512, 64), (2051, 64)))

    def loss(context: oc.Context) -> oc.Tensor:
        with oc.precision(oc.float32, compute=oc.bfloat16):
            weights = oc.param("w", w, input=[64], output=[2051])
            found = weights @ oc.data(x.astype(oc.bfloat16), axes="bo", label="x")
        loss = nn.cross_entropy(oc.cast(found, oc.float32), oc.data(np.arange(512) % 2051, axes="b"))
        result = oc.grad(loss, weights) if is_backward else loss
        step = context.compile(oc.forward(result), name="scores")
        context.init_params(loss)
        step()
        return result

    return close(*on_both(loss), CLOSE["bf16"])


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


def by_roles(name: str) -> str:
    """The same where warps copy for warpgroups: only Hopper has that, and no hardware had run it before."""
    with patch.dict(os.environ, OCANNL_CUDA_ROLES="1"):
        return beside_cpu(name)


def large() -> str:
    """A large product, of which the host computes some rows, and its rate."""
    found = kernel(LARGE)
    runs = KernelRuns(found, "cuda")
    runs.first()
    x, w = (a.astype(oc.bfloat16).astype(np.float32) for a in (runs.data.x[:LARGE_ROWS], runs.data.other))
    said = close(runs.values()["y"][:LARGE_ROWS], x @ w, CLOSE["bf16"])
    start = time.perf_counter()
    runs.call(LARGE_CALLS)
    return f"{said}, {found.rate((time.perf_counter() - start) / LARGE_CALLS)}"


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
    "f16": halves,
    "f8E4M3FN": partial(quarters, oc.float8_e4m3fn, "b | k; o | k => b | o"),
    "f8E5M2": partial(quarters, oc.float8_e5m2, "k | b; k | o => b | o"),
    "attention": partial(attention, np.float32, False),
    "gradients of attention": partial(attention, np.float32, True),
    "attention in bf16": partial(attention, oc.bfloat16, False),
    "gradients of it": partial(attention, oc.bfloat16, True),
    "attention of many positions": partial(attention, oc.bfloat16, True, 1024),
    "all numbers of bf16": partial(all_halves, oc.bfloat16),
    "all numbers of f16": partial(all_halves, np.float16),
    "scores in bf16": partial(scores, False),
    "gradients of scores": partial(scores, True),
    **{name: partial(beside_cpu, name) for name in KERNELS},
    **{f"{name} by roles": partial(by_roles, name) for name in BY_ROLES},
    "a large product": large,
    **{name: partial(step, name) for name in ("moons", "mlp", "lenet", "charlm")},
}


def known(name: str) -> str:
    if name not in CHECKS:
        raise argparse.ArgumentTypeError(f"there is no check {name!r}")
    return name


def checked(names: Sequence[str]) -> list[str]:
    """Runs checks in order in this process; returns those that failed. After an error of a kernel no other
    can run.
    """
    failed: list[str] = []
    for name in names:
        start, said = time.perf_counter(), "ok"
        try:
            said = f"ok, {CHECKS[name]()}"
        except (AssertionError, oc.OcannlError) as error:
            said = f"FAILED: {error}"
            failed.append(name)
        print(f"{name:34} {time.perf_counter() - start:6.1f} s  {' '.join(said.split())}", flush=True)
        if "cannot use the GPU any more" in said:
            break
    return failed


def watched(names: Sequence[str], command: Sequence[str], seconds: float = CHECK_SECONDS) -> list[str]:
    """Runs checks in processes of a command, which ends early where the GPU is spoiled for it; returns those
    that failed. One that takes longer than some seconds has failed, and so has one that ends its process.
    """
    failed: list[str] = []
    left = list(names)
    while left:
        before = len(left)
        process = subprocess.Popen([*command, *left], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        watch = Timer(seconds, process.kill)
        watch.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            if left and line.startswith(f"{left[0]:34} "):
                failed += [left[0]] if "FAILED" in line else []
                del left[0]
            watch.cancel()
            watch = Timer(seconds, process.kill)
            watch.start()
        watch.cancel()
        status = process.wait()
        if left and (status or len(left) == before):
            how = f"it takes longer than {seconds} s" if status == -SIGKILL else f"exit status {status}"
            print(f"{left[0]:34} FAILED: {how}", flush=True)
            failed.append(left.pop(0))
    return failed


def side_by_side(names: Sequence[str], command: Sequence[str], jobs: int) -> list[str]:
    """Runs checks in some processes at a time, each with some of them, after the simple ones, which go first
    and alone; returns those that failed. Where a simple one has, the others do not run.
    """
    simple = [name for name in names if name in SIMPLE]
    others = [name for name in names if name not in SIMPLE]
    if (failed := watched(simple, command)) or not others:
        return failed
    shares = [others[first::jobs] for first in range(min(jobs, len(others)))]
    with ThreadPoolExecutor(len(shares)) as pool:
        return [name for found in pool.map(partial(watched, command=command), shares) for name in found]


def tools() -> dict[str, tuple[list[str], int]]:
    """Commands after the checks, by what they are, and the seconds that each may take."""
    own = [*OWN, "--here", *FEW]
    sanitizers = {
        f"compute-sanitizer {tool}": (
            ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *own],
            SANITIZER_SECONDS,
        )
        for tool in ("memcheck", "racecheck", "synccheck")
    }
    timing = [sys.executable, str(HERE / "gpu.py"), "--quick"]
    profile = ["ncu", "--set", "basic", "--launch-count", "4", *OWN, "--here", "a large product"]
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
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(seconds) != 0
    except subprocess.TimeoutExpired:
        # Its own processes go with it, as one may be in a kernel that never ends.
        os.killpg(process.pid, SIGKILL)
        process.wait()
        print(f"it takes longer than {seconds} seconds")
        return False


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="check", type=known, help=", ".join(CHECKS))
    parser.add_argument("--here", action="store_true", help="in this process, and without a limit of time")
    parser.add_argument("--jobs", type=int, default=1, help="processes that check at a time")
    parser.add_argument("--without-tools", action="store_true", help="the checks alone")
    given = parser.parse_args(args)
    names: list[str] = given.names
    if given.here:
        checked(names or list(CHECKS))
        return
    failed = side_by_side(names or list(CHECKS), [*OWN, "--here"], given.jobs)
    if not names and not given.without_tools:
        failed += [name for name, (command, seconds) in tools().items() if run_tool(name, command, seconds)]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
