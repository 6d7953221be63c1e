"""Checks and times training steps and kernels on an NVIDIA GPU beside PyTorch, where it has CUDA.

Products are compared with cuBLAS, kernels that move memory with the bandwidth of a copy, steps with
`torch.compile`. Every result must be what PyTorch computes in float64.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from importlib import import_module

import numpy as np
from kernels import BACKWARD, kernel
from measure import Measured, Options
from models import ON_GPUS
from peers import PEERS
from problems import STEPS as ALL_STEPS
from problems import module_of
from run import benchmarks, printed
from steps import PROBLEMS

import ocannl as oc
from ocannl.runtime.cuda import CudaDevice

OWN = ("ocannl", "torch", "torch.compile")
# Arrays that no cache holds.
ROWS = "8192x4096"
BLOCKS = ("add", "gelu", "softmax", "layer_norm", "cross_entropy", "transpose")
NAMES = [
    *PROBLEMS,
    *(f"gemm_{n}x{n}x{n}{suffix}" for n in (1024, 2048, 4096, 8192) for suffix in ("", "_tf32", "_bf16")),
    *("gemm_nt_4096x4096x4096_bf16", "gemm_128x4096x128", "gemm_tn_512x16384x512"),
    *("gemm_nt_4096x4096x4096", "gemm_tn_4096x4096x4096", "gemm_1000x8192x1000"),
    *(f"{block}_{ROWS}{suffix}" for block in BLOCKS for suffix in ("", BACKWARD)),
    *(f"attention_1024x12x64{kind}{suffix}" for kind in ("", "_tf32", "_bf16") for suffix in ("", BACKWARD)),
    *ON_GPUS,
]
QUICK = [
    "moons",
    "charlm",
    *(f"gemm_2048x2048x2048{suffix}" for suffix in ("", "_tf32", "_bf16")),
    f"add_{ROWS}",
    f"softmax_{ROWS}",
    f"layer_norm_{ROWS}",
    "attention_1024x12x64_bf16",
]
# A timing takes about so many seconds at these rates of a GPU; steps so many runs.
SECONDS, FLOPS, BYTES, MOST = 0.02, 2e13, 2e12, 200
STEPS = {"moons": 320, "mlp": 64, "lenet": 64, "charlm": 32} | dict.fromkeys(ON_GPUS, 8)
# How often arrays of so many bytes are copied to see how fast that is.
COPIES, COPIED_BYTES, TIMINGS = 20, 2**28, 5
PROFILED_RUNS = 5


def calls_of(name: str) -> int:
    """How many runs a timing has."""
    if name in STEPS:
        return STEPS[name]
    found = kernel(name)
    return min(MOST, max(1, round(SECONDS / (found.flops / FLOPS + 4 * found.moved / BYTES))))


def copy_rate(device: CudaDevice, size: int) -> float:
    """The bytes that a copy on the GPU reads and writes in a second.

    Many wait in line, so that launches take no part, after as many that get its clocks up.
    """
    source, target = (device.memory((size,), np.uint8) for _ in range(2))

    def seconds() -> float:
        device.synchronize()
        start = time.perf_counter()
        for _ in range(COPIES):
            device.call("no copy", "cuMemcpyDtoDAsync", target.address, source.address, size, device.stream)
        device.synchronize()
        return time.perf_counter() - start

    seconds()
    return 2 * size * COPIES / statistics.median(seconds() for _ in range(TIMINGS))


def of_copies(results: Sequence[Measured], rate: float) -> list[str]:
    """The part of the bandwidth of a copy that kernels reach which move memory."""
    return [
        f"{result.name:<34}{4 * moved / min(result.call) / rate:6.2f}"
        for result in results
        if result.peer == "ocannl" and result.name not in ALL_STEPS and (moved := kernel(result.name).moved)
    ]


def profile(name: str) -> str:
    """The time of each kernel of a step or a kernel of OCANNL."""
    module = import_module(module_of(name, "ocannl"))
    runs = module.Runs(ALL_STEPS[name]() if name in ALL_STEPS else kernel(name), device="cuda")
    runs.first()
    return str(runs.routine.profile(runs=PROFILED_RUNS))


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", type=benchmarks, help="as of run.py")
    parser.add_argument("--quick", action="store_true", help="a few of them, in a minute or two")
    parser.add_argument("--peer", choices=PEERS, action="append", help=f"by default {', '.join(OWN)}")
    parser.add_argument("--rounds", type=int, default=7, help="timings of each peer")
    parser.add_argument("--first-rounds", type=int, default=0, help="timings of the first result of a step")
    parser.add_argument("--copy", type=int, default=COPIED_BYTES, metavar="BYTES", help="the size of a copy")
    parser.add_argument("--profile", metavar="NAME", help="instead, how long each kernel of one takes")
    given = parser.parse_args(args)
    if given.profile:
        print(profile(given.profile))
        return
    device = oc.Context.cuda().device
    assert isinstance(device, CudaDevice)
    rate = copy_rate(device, given.copy)
    print(f"{device.name}, {device.arch}, CUDA {device.driver.version()}; copies: {rate / 1e9:.0f} GB/s")
    names = [name for group in given.names for name in group] or (QUICK if given.quick else NAMES)
    rounds = 3 if given.quick else given.rounds
    how = Options(tuple(given.peer or OWN), os.cpu_count() or 1, rounds, given.first_rounds, calls_of, "cuda")
    failures: list[str] = []
    results = [measured for found in printed(names, how, failures) for measured in found]
    print("\npart of the bandwidth of a copy", *of_copies(results, rate), sep="\n")
    if failures:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
