"""Predicts what kernels take on an H100, by a roofline model: no GPU is needed, and none has checked it.

What a kernel does is counted in its operations: multiplications and other arithmetic of threads, products on
tensor cores, and bytes of shared memory, of the second-level cache and of memory. It takes as long as the
slowest of these, in whole rounds of blocks on all multiprocessors, and the time of a launch
(Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009).
"""

from __future__ import annotations

import argparse
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from attentions_ocannl import Runs as AttentionRuns
from kernels import ATTENTION, kernel
from kernels_ocannl import Runs as KernelRuns
from steps import PROBLEMS
from steps_ocannl import Runs as StepRuns
from xdsl.dialects import arith
from xdsl.dialects.builtin import f64
from xdsl.ir import Operation, SSAValue

import ocannl as oc
from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.bounds import Bound, BoundsAttr
from ocannl.dialects.index.linear import SpaceAttr
from ocannl.dialects.index.memref import element_bytes, is_swizzled, memref_shape
from ocannl.dialects.index.scopes import scope_sizes, scopes
from ocannl.dialects.kernel import AwaitOp, CopyOp, LaunchOp
from ocannl.dialects.kernel.gpu import WARP
from ocannl.dialects.kernel.launch import SharedOp
from ocannl.dialects.kernel.mma import COLUMNS, ROWS, MmaOp
from ocannl.dialects.kernel.point import PointOp
from ocannl.dialects.loops import LoadOp, StoreOp
from ocannl.lowering.kernels.registers import register_variables
from ocannl.lowering.pipelines import parse_text
from ocannl.passes.analysis.nests import functions
from ocannl.runtime.cuda.ptx import ARCHS, DEFAULT_ARCH

# An H100 SXM, by its data sheet: multiprocessors and their clock; what each does a cycle: operations of f32,
# multiplications of tensor cores of f64, TF32 and 16 bits, of which `mma.sync` reaches a part, and bytes of
# shared memory; bytes a second of the second-level cache, roughly, and of memory, as copies had them on one;
# and a launch in a graph.
PROCESSORS, HERTZ = 132, 1.755e9
OPERATIONS, DOUBLES, TF32, HALVES, BY_WARPS, SHARED = 128, 128, 1024, 2048, 0.6, 128
CACHE, MEMORY, LAUNCH = 5.5e12, 2.97e12, 1.5e-6
NAMES = [
    *(f"gemm_{n}x{n}x{n}{kind}" for n in (2048, 4096) for kind in ("", "_tf32", "_bf16")),
    *(f"{block}_8192x4096{part}" for block in ("add", "softmax", "layer_norm") for part in ("", "_backward")),
    *(
        f"attention_1024x12x64{kind}"
        for kind in ("", "_tf32", "_bf16", "_backward", "_tf32_backward", "_bf16_backward")
    ),
    "charlm",
]


@dataclass
class Counts:
    """The work of all blocks of a kernel together: by resource, in operations or bytes."""

    of: Mapping[str, float]

    def seconds(self, launch: LaunchOp) -> dict[str, float]:
        """The time of each resource alone."""
        tiles = tiles_of(launch)
        cycle = tiles / -(-tiles // PROCESSORS) * HERTZ
        rates = {
            "arithmetic": cycle * OPERATIONS,
            "f64 products": cycle * DOUBLES * BY_WARPS,
            "tf32 products": cycle * TF32 * BY_WARPS,
            "products": cycle * HALVES * BY_WARPS,
            "products of warpgroups": cycle * HALVES,
            "shared memory": cycle * SHARED,
            "cache": CACHE,
            "memory": MEMORY,
        }
        return {name: self.of[name] / rate for name, rate in rates.items()}


def tiles_of(launch: LaunchOp) -> int:
    """The blocks of a kernel, or the tiles that these walk through."""
    walks = [op for op in launch.body.walk() if isinstance(op, PointOp)]
    counts = [op.at.count for op in walks if any(isinstance(inner, AwaitOp) for inner in op.walk())]
    return max(counts, default=launch.blocks)


def counts(launch: LaunchOp) -> Counts:
    """Counts what a kernel does. Each node is moved from or to memory once; a block reads from the cache
    what its threads need together.
    """
    found, over = defaultdict[str, float](float), register_variables(launch)
    extents, threads = dict(launch.registers.data), launch.threads * launch.blocks
    for op, times in executed(launch):
        points = math.prod(extents[n] for value in op.results for n in over.get(value, ()))
        match op:
            case MmaOp():
                own = (op.rows.data, op.columns.data)
                fragments = points // math.prod(extents[name] for name in own)
                kind = kind_of(op)
                size = ROWS * COLUMNS * op.fragments.depth
                found[kind] += times * threads // WARP * fragments * size
            case LoadOp() if is_swizzled(op.node):
                pass  # Warpgroups multiply what lies in shared memory.
            case LoadOp() | StoreOp() if isinstance(op.node.owner, SharedOp):
                names = {n for index in op.indices.data for n in index.names} & extents.keys()
                each = math.prod(extents[name] for name in names)
                each *= of_warp(launch, {n for index in op.indices.data for n in index.names})
                found["shared memory"] += times * threads * each * element_bytes(op.node)
            case CopyOp():
                bytes = times * launch.blocks * element_bytes(op.source) * copied(op)
                found["cache"] += bytes
                found["shared memory"] += bytes
            case arith.ConstantOp():
                pass
            case _ if op.dialect_name() in ("arith", "math"):
                found["arithmetic"] += times * threads * max(1, points)
            case _:
                pass
    found["cache"] += sum(cached(launch))
    found["memory"] = sum(node_bytes(node) * count for node, count in touched(launch).items())
    return Counts(found)


def copied(op: CopyOp) -> float:
    """How many elements a copy reads on average; zeros are written in place of others."""
    sizes = scope_sizes(op) | dict(op.space.data)
    bounds = [*op.bounds, *([Bound(op.at.number, op.at.count)] if op.at else [])]
    return math.prod(size for _, size in op.space.data) * math.prod(share(b, sizes) for b in bounds)


def kind_of(op: MmaOp) -> str:
    """Which tensor cores multiply."""
    if isinstance(op.left.owner, LoadOp) and is_swizzled(op.left.owner.node):
        return "products of warpgroups"
    if op.result.type == f64:
        return "f64 products"
    return "products" if op.fragments.pack > 1 else "tf32 products"


def executed(launch: LaunchOp) -> Iterator[tuple[Operation, float]]:
    """The operations of a thread, and how often it executes each on average."""
    for op in launch.body.walk():
        times, around = 1.0, [scope for scope in scopes(op) if scope is not launch]
        for scope in around:
            if isinstance(scope, PointOp):
                times *= share(Bound(scope.at.number, scope.at.count), scope_sizes(op))
                continue
            for p in scope.properties.values():
                if isinstance(p, SpaceAttr):
                    times *= math.prod(size for _, size in p.data)
                elif isinstance(p, BoundsAttr):
                    times *= math.prod(share(bound, scope_sizes(op)) for bound in p.data)
        yield op, times


def share(bound: Bound, sizes: Mapping[str, int]) -> float:
    """The part of all points at which a bound holds."""
    values = np.array([bound.index.constant])
    for name, step in bound.index.terms:
        values = (values[:, None] + step * np.arange(sizes[name])).reshape(-1)
    return float(np.mean(values < bound.below))


def of_warp(launch: LaunchOp, names: Collection[str]) -> float:
    """The part of a warp's threads that differ in some variables: others read the same at once."""
    room, differing = WARP, 1
    for name, size in reversed(launch.block.data):
        differing *= min(room, size) if name in names else 1
        room = max(1, room // size)
    return differing / min(WARP, launch.threads)


def cached(launch: LaunchOp) -> Iterator[int]:
    """The bytes that the loads and stores of all blocks move between the cache and the multiprocessors: what
    a block loads again is in its own.
    """
    grid, loaded, stored = set(launch.grid.names), Counter[SSAValue](), 0
    for op in launch.body.walk():
        if isinstance(op, LoadOp | StoreOp) and isinstance(op.node.owner, NodeOp):
            sizes = scope_sizes(op)
            moving = moving_names(op) - grid
            elements = math.prod(sizes.get(name, 1) for name in moving)
            bytes = min(elements, math.prod(memref_shape(op.node))) * element_bytes(op.node)
            if isinstance(op, LoadOp):
                loaded[op.node] = max(loaded[op.node], bytes)
            else:
                stored += bytes
    yield launch.blocks * (stored + sum(loaded.values()))


def moving_names(op: LoadOp | StoreOp) -> set[str]:
    """The variables that the place of an access depends on; those of a point depend on its number."""
    names = {name for name, _ in flatten(op.node, op.indices.data).terms}
    for scope in scopes(op):
        if isinstance(scope, PointOp) and names & set(scope.space.names):
            names = names - set(scope.space.names) | set(scope.at.number.names)
    return names


def touched(launch: LaunchOp) -> Counter[SSAValue]:
    """How often each node passes through memory: read, written, or both."""
    read, written = set[SSAValue](), set[SSAValue]()
    for op in launch.body.walk():
        if isinstance(op, LoadOp):
            read.add(op.node)
        elif isinstance(op, CopyOp):
            read.add(op.source)
        elif isinstance(op, StoreOp):
            written.add(op.node)
    return Counter(node for node in [*read, *written] if isinstance(node.owner, NodeOp))


def node_bytes(node: SSAValue) -> int:
    return math.prod(memref_shape(node)) * element_bytes(node)


@dataclass(frozen=True)
class Prediction:
    """The seconds of a kernel, or of several, and what takes them."""

    seconds: float
    limits: Counter[str]

    @staticmethod
    def of(text: str) -> Prediction:
        """That of a routine, by the text of its kernels."""
        total, limits = 0.0, Counter[str]()
        for func in functions(parse_text(text)):
            for launch in func.walk():
                if isinstance(launch, LaunchOp):
                    limit, seconds = slowest(launch)
                    total += seconds + LAUNCH
                    limits[limit] += 1
        return Prediction(total, limits)


def slowest(launch: LaunchOp) -> tuple[str, float]:
    """The resource that takes a kernel longest, and how many seconds."""
    found = counts(launch).seconds(launch)
    return max(found.items(), key=lambda item: item[1])


def kernels_of(name: str, arch: str) -> str:
    """The text of the kernels of a benchmark."""
    context = oc.Context.emulated_gpu(tf32="_tf32" in name, arch=arch)
    return context.compile(code_of(name), name="step").ir("kernels")


def code_of(name: str) -> oc.Code:
    if name in PROBLEMS:
        return StepRuns(PROBLEMS[name]()).code
    runs = AttentionRuns if ATTENTION.fullmatch(name) else KernelRuns
    return runs(kernel(name)).code


def rate(name: str, seconds: float) -> str:
    """The rate at which a benchmark computes or moves; nothing for steps."""
    return "" if name in PROBLEMS else kernel(name).rate(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, help="steps, and kernels by their sizes")
    parser.add_argument("--arch", default=DEFAULT_ARCH, choices=ARCHS)
    arguments = parser.parse_args()
    print("kernel                                  us  rate             slowest")
    for name in arguments.names:
        found = Prediction.of(kernels_of(name, arguments.arch))
        limits = ", ".join(f"{limit} {count}" for limit, count in found.limits.most_common())
        print(f"{name:34}{1e6 * found.seconds:8.1f}  {rate(name, found.seconds):15}  {limits}")


if __name__ == "__main__":
    main()
