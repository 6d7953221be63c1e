"""The processor of this process, which object code is for, and its cores."""

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
        converted: small floats that it converts from and to f32 by an instruction.
    """

    triple: str
    cpu: str
    features: str
    converted: frozenset[str]


@cache
def host_target() -> HostCpu:
    """The description of the processor that runs this process."""
    features: dict[str, bool] = llvm.get_host_cpu_features()
    triple: str = llvm.get_process_triple()
    return HostCpu(
        triple=triple,
        cpu=llvm.get_host_cpu_name(),
        features=feature_list(features),
        converted=converted_floats(triple, features),
    )


def feature_list(features: dict[str, bool]) -> str:
    """The features in LLVM's form, sorted so that equal processors have equal descriptions."""
    return ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))


def converted_floats(triple: str, features: dict[str, bool]) -> frozenset[str]:
    """The small floats that have instructions of conversion. Those of bf16 flush denormal numbers to zero, so
    that they are not used.
    """
    has_f16 = triple.startswith(("aarch64", "arm64")) or features.get("f16c", False)
    return frozenset({"f16"} if has_f16 else ())


def usable_cores() -> int:
    """The number of cores this process may run on; hyper-threads of a core count once where that is known."""
    if hasattr(os, "sched_getaffinity"):
        return count_cores(os.sched_getaffinity(0), SYSFS_CPUS)
    return os.cpu_count() or 1


def count_cores(processors: Iterable[int], folder: Path) -> int:
    """The number of cores that processors belong to, by the siblings of each in a Linux sysfs folder."""
    cores: set[str] = set()
    for processor in processors:
        siblings = folder / f"cpu{processor}/topology/thread_siblings_list"
        cores.add(siblings.read_text() if siblings.exists() else f"{processor}\n")
    return len(cores)
