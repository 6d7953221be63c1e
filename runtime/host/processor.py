"""What the processor we compile for is: the part of the target description that the machine decides."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding

llvm: Any = llvmlite.binding  # llvmlite has no type stubs

SYSFS_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class HostCpu:
    """The processor of this process.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's name of the processor.
        features: LLVM's feature list, `+avx2,-sse4a,...`.
        vector_bytes: bytes in the widest vector register.
        vector_registers: how many such registers there are.
        cores: processor cores that this process may use.
        converted: small floats that it converts from and to f32 by an instruction.
        cache_bytes: data cache sizes from level 1 up; empty where the system does not tell cheaply.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    cores: int
    converted: frozenset[str]
    cache_bytes: tuple[int, ...]


@cache
def host_target() -> HostCpu:
    """The description of the processor that runs this process."""
    features: dict[str, bool] = llvm.get_host_cpu_features()
    triple: str = llvm.get_process_triple()
    vector_bytes, vector_registers = vector_shape(triple, features)
    return HostCpu(
        triple=triple,
        cpu=llvm.get_host_cpu_name(),
        features=feature_list(features),
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
        cores=usable_cores(),
        converted=converted_floats(triple, features),
        cache_bytes=data_cache_bytes(SYSFS_CPUS / "cpu0/cache"),
    )


def feature_list(features: dict[str, bool]) -> str:
    """The features in LLVM's form, sorted so that equal processors have equal descriptions."""
    return ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))


def vector_shape(triple: str, features: dict[str, bool]) -> tuple[int, int]:
    """Bytes in a vector register, and the number of vector registers."""
    if triple.startswith(("aarch64", "arm64")):
        return 16, 32
    if features.get("avx512f") and features.get("avx512vl"):
        return 64, 32
    return (32 if features.get("avx") else 16), 16


def converted_floats(triple: str, features: dict[str, bool]) -> frozenset[str]:
    """Instructions that convert bf16 take denormal numbers for zero, so they are none."""
    has_f16 = triple.startswith(("aarch64", "arm64")) or features.get("f16c", False)
    return frozenset({"f16"} if has_f16 else ())


def usable_cores() -> int:
    """The number of cores this process may run on; hyper-threads of a core count once where that is known."""
    if hasattr(os, "sched_getaffinity"):
        return count_cores(os.sched_getaffinity(0), SYSFS_CPUS)
    return os.cpu_count() or 1


def count_cores(processors: Iterable[int], folder: Path) -> int:
    """The number of cores that processors belong to, by what a Linux sysfs folder tells of their siblings."""
    cores: set[str] = set()
    for processor in processors:
        siblings = folder / f"cpu{processor}/topology/thread_siblings_list"
        cores.add(siblings.read_text() if siblings.exists() else f"{processor}\n")
    return len(cores)


def data_cache_bytes(folder: Path) -> tuple[int, ...]:
    """Sizes of the data caches that a Linux sysfs folder describes, by level; empty if there is none."""
    sizes: dict[int, int] = {}
    for entry in folder.glob("index*"):
        if (entry / "type").read_text().strip() != "Instruction":
            sizes[int((entry / "level").read_text())] = parse_size((entry / "size").read_text().strip())
    return tuple(sizes[level] for level in sorted(sizes))


def parse_size(text: str) -> int:
    """`48K` or `2M` in bytes."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)
