"""The processor of this process, and the processor that code is for."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import llvmlite.binding

from ocannl.dialects.ir.errors import DeviceError
from ocannl.passes.analysis.targets.processors import PROCESSORS, VISIBLE, described, nearest, processor
from ocannl.passes.analysis.targets.target import WASM, TargetDescription
from ocannl.runtime.settings import config, is_on
from ocannl.runtime.systems.system import System
from ocannl.runtime.systems.table import LINUX, MACOS, system

llvm: Any = llvmlite.binding  # llvmlite has no type stubs

# What LLVM's triples call the architectures.
ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


@cache
def host() -> TargetDescription:
    """The description of the processor that runs this process, for which code is compiled by default.

    Features and caches decide, not the name. Of caches, only those of one core count.
    """
    name, arch = llvm.get_host_cpu_name(), ARCHITECTURES.get(host_triple().partition("-")[0], "x86_64")
    found: dict[str, bool] = dict(llvm.get_host_cpu_features())
    if found.get("amx-tile") and not system().permits_tiles():
        found |= {feature: False for feature in found if feature.startswith("amx")}
    return host_description(name, arch, found, system().caches())


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


def host_triple() -> str:
    triple: str = llvm.get_process_triple()
    return triple


def triple_of(target: TargetDescription, of: System | None = None) -> str:
    """LLVM's triple of code for a processor under a system: by default this one, for the architecture of the
    host; else macOS for Apple's processors, and Linux.
    """
    if target.arch == WASM:
        return f"{WASM}-unknown-unknown"
    if of is None and target.arch == host().arch:
        return host_triple()
    chosen = of or (MACOS if target.cpu.startswith("apple") else LINUX)
    return f"{target.arch}-{chosen.triple}"


def chosen_target(name: str | None = None, default: TargetDescription | None = None) -> TargetDescription:
    """The processor of a name, else the one that `OCANNL_TARGET` names, else a default: this process's.
    Where `OCANNL_WINOGRAD` is off, without convolutions by transformed tiles.

    Raises `DeviceError` for an unknown name.
    """
    found = _target(name, default)
    return found if is_on("winograd", unset=True) else replace(found, winograd=False)


def _target(name: str | None, default: TargetDescription | None) -> TargetDescription:
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
