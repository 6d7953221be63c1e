"""The processor of this process, and the processor that code is for."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding

from ocannl.dialects.ir.errors import DeviceError
from ocannl.passes.analysis.processors import PROCESSORS, VISIBLE, described, nearest, processor
from ocannl.passes.analysis.target import WASM, TargetDescription
from ocannl.runtime.host.tile_permission import may_use_tiles
from ocannl.runtime.settings import config

llvm: Any = llvmlite.binding  # llvmlite has no type stubs

SYSFS_CPUS = Path("/sys/devices/system/cpu")
UNITS = {"K": 2**10, "M": 2**20}
# What LLVM's triples call the architectures.
ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


@cache
def host() -> TargetDescription:
    """The description of the processor that runs this process, for which code is compiled by default.

    Features and caches decide, not the name. Of caches, only those of one core count.
    """
    name, arch = llvm.get_host_cpu_name(), ARCHITECTURES.get(host_triple().partition("-")[0], "x86_64")
    found: dict[str, bool] = dict(llvm.get_host_cpu_features())
    if found.get("amx-tile") and not may_use_tiles():
        found |= {feature: False for feature in found if feature.startswith("amx")}
    return host_description(name, arch, found, core_caches(SYSFS_CPUS / "cpu0"))


def host_description(
    name: str, arch: str, found: Mapping[str, bool], caches: Mapping[int, int]
) -> TargetDescription:
    """A processor by LLVM's name of it and its features, with the bytes of its caches by level; what is not
    known is as in its row of the table, or in that of its level.
    """
    known = processor(name) if name in PROCESSORS and PROCESSORS[name][0] == arch else None
    features = frozenset(feature for feature, on in found.items() if on)
    if not features and known is not None:  # LLVM does not look everywhere
        return known
    alike = known or nearest(arch, features)
    return described(
        name,
        arch,
        features & VISIBLE,
        caches.get(1, alike.l1_bytes),
        caches.get(2, alike.l2_bytes),
        # A server may be taken for a desktop processor, whose second port for 512 bits is missing.
        2 if "amx-tile" in features else alike.fma_ports,
        feature_list(found),
    )


def feature_list(features: Mapping[str, bool]) -> str:
    """The features in LLVM's form, sorted so that equal processors have equal descriptions."""
    return ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))


def core_caches(folder: Path) -> dict[int, int]:
    """The bytes of the data caches by level that belong to one core alone, from its Linux sysfs folder."""

    def read(file: Path) -> str:
        return file.read_text().strip() if file.exists() else ""

    core, found = read(folder / "topology/thread_siblings_list"), dict[int, int]()
    for index in sorted(folder.glob("cache/index*")):
        size, sharing = read(index / "size"), read(index / "shared_cpu_list")
        is_own = sharing.isdecimal() or sharing == core
        if is_own and read(index / "type") in ("Data", "Unified") and size[-1:] in UNITS:
            found[int(read(index / "level"))] = int(size[:-1]) * UNITS[size[-1]]
    return found


def host_triple() -> str:
    triple: str = llvm.get_process_triple()
    return triple


def triple_of(target: TargetDescription) -> str:
    """LLVM's triple of code for a processor: with the host's system, if it is of the host's architecture."""
    if target.arch == host().arch:
        return host_triple()
    return f"{target.arch}-unknown-{'unknown' if target.arch == WASM else 'linux-gnu'}"


def chosen_target(name: str | None = None, default: TargetDescription | None = None) -> TargetDescription:
    """The processor of a name, else the one that `OCANNL_TARGET` names, else a default: this process's.

    Raises `DeviceError` for an unknown name.
    """
    if name is not None and not isinstance(name, str):
        raise DeviceError(f"a target is called by a name of LLVM's, as 'x86-64-v3', found {name!r}")
    if name := name or config["target"]:
        return host() if name == "host" else processor(name)
    return host() if default is None else default


def missing_features(target: TargetDescription) -> list[str]:
    """The features that the host lacks to run code for a processor."""
    if target.arch != host().arch:
        return [target.arch]
    return sorted(target.features - host().features)


def check_runs(target: TargetDescription) -> None:
    """Raises `DeviceError` for a processor whose code this one cannot run."""
    if missing := missing_features(target):
        raise DeviceError(
            f"code for {target.cpu} cannot run here: this processor ({host().cpu}) has no "
            f"{', '.join(missing)}; its text is `ir(stage)`, another `target` of the context runs it"
        )
