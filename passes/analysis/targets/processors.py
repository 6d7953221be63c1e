"""Processors by LLVM's names, with what LLVM does not tell of them: caches, and how many vectors they
multiply and add in a cycle (Agner Fog, "The microarchitecture of Intel, AMD and VIA CPUs"; vendors' manuals).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ocannl.dialects.ir.errors import DeviceError
from ocannl.passes.analysis.targets.target import (
    AVX2,
    AVX512,
    BASELINE,
    SSE4,
    WASM,
    TargetDescription,
    vector_registers,
)

ZEN = AVX2 | {"adx", "aes", "pclmul", "rdseed", "sha", "sse4a"}
ZEN3 = ZEN | {"vaes", "vpclmulqdq"}
VNNI = AVX512 | {"adx", "aes", "avx512vnni", "pclmul", "rdseed"}
ICELAKE = VNNI | {
    *("avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vpopcntdq"),
    *("gfni", "sha", "vaes", "vpclmulqdq"),
}
SAPPHIRE_RAPIDS = ICELAKE | {"amx-bf16", "amx-int8", "amx-tile", "avx512bf16", "avx512fp16", "avxvnni"}
NEON = frozenset({"neon"})
DOT = NEON | {"dotprod", "fullfp16", "lse"}
MATRIX = DOT | {"bf16", "i8mm"}

SIMD128 = frozenset({"bulk-memory", "simd128"})

# The architecture, features, KiB of the first- and second-level cache of a core, and fma_ports.
PROCESSORS: dict[str, tuple[str, frozenset[str], int, int, int]] = {
    "x86-64": ("x86_64", BASELINE, 32, 256, 1),
    "x86-64-v2": ("x86_64", SSE4, 32, 256, 1),
    "x86-64-v3": ("x86_64", AVX2, 32, 512, 2),
    "x86-64-v4": ("x86_64", AVX512, 48, 1024, 2),
    "nehalem": ("x86_64", SSE4, 32, 256, 1),
    "haswell": ("x86_64", AVX2, 32, 256, 2),
    "broadwell": ("x86_64", AVX2 | {"adx", "rdseed"}, 32, 256, 2),
    "skylake": ("x86_64", AVX2 | {"adx", "aes", "pclmul", "rdseed"}, 32, 256, 2),
    "alderlake": ("x86_64", AVX2 | {"adx", "aes", "avxvnni", "gfni", "sha", "vaes"}, 48, 1280, 2),
    "skylake-avx512": ("x86_64", AVX512 | {"adx", "aes", "pclmul", "rdseed"}, 32, 1024, 2),
    "cascadelake": ("x86_64", VNNI, 32, 1024, 2),
    "rocketlake": ("x86_64", ICELAKE, 48, 512, 1),
    "icelake-server": ("x86_64", ICELAKE, 48, 1280, 2),
    "sapphirerapids": ("x86_64", SAPPHIRE_RAPIDS, 48, 2048, 2),
    "graniterapids": ("x86_64", SAPPHIRE_RAPIDS | {"amx-fp16"}, 48, 2048, 2),
    "znver1": ("x86_64", ZEN, 32, 512, 1),
    "znver2": ("x86_64", ZEN, 32, 512, 2),
    "znver3": ("x86_64", ZEN3, 32, 512, 2),
    "znver4": ("x86_64", ZEN3 | ICELAKE | {"avx512bf16"}, 32, 1024, 1),
    "znver5": ("x86_64", ZEN3 | ICELAKE | {"avx512bf16", "avxvnni"}, 48, 1024, 2),
    "cortex-a72": ("aarch64", NEON, 32, 512, 1),
    "neoverse-n1": ("aarch64", DOT, 64, 1024, 2),
    "neoverse-n2": ("aarch64", MATRIX, 64, 1024, 2),
    "neoverse-v1": ("aarch64", MATRIX, 64, 1024, 4),
    "neoverse-v2": ("aarch64", MATRIX, 64, 2048, 4),
    "apple-m1": ("aarch64", DOT, 128, 3072, 4),
    "apple-m2": ("aarch64", MATRIX, 128, 4096, 4),
    "apple-m3": ("aarch64", MATRIX, 128, 4096, 4),
    "apple-m4": ("aarch64", MATRIX, 128, 4096, 4),
    WASM: (WASM, SIMD128, 32, 512, 1),
}
VISIBLE = frozenset[str]().union(*(row[1] for row in PROCESSORS.values()))
"""The features of which a description keeps what a host has."""


def processor(name: str) -> TargetDescription:
    """The processor of LLVM's name. Raises `DeviceError` for one that is not in the table."""
    if name not in PROCESSORS:
        near = difflib.get_close_matches(name, PROCESSORS, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(PROCESSORS)}"
        raise DeviceError(f"there is no target {name!r}; {hint}")
    arch, features, l1_kib, l2_kib, ports = PROCESSORS[name]
    # LLVM knows no processor by that name.
    told = ",".join(f"+{feature}" for feature in sorted(features)) if arch == WASM else ""
    return described(name, arch, features, l1_kib * 2**10, l2_kib * 2**10, ports, told)


def described(
    name: str,
    arch: str,
    features: frozenset[str],
    l1_bytes: int,
    l2_bytes: int,
    fma_ports: int,
    llvm_features: str = "",
) -> TargetDescription:
    """A description with the vector registers that features give."""
    vector_bytes, registers = vector_registers(arch, features)
    return TargetDescription(
        name, arch, features, llvm_features, vector_bytes, registers, fma_ports, l1_bytes, l2_bytes
    )


def nearest(arch: str, features: Iterable[str]) -> TargetDescription:
    """The processor without a vendor that has no more than some features: the highest level of x86-64, or
    the oldest AArch64.
    """
    if arch == "aarch64":
        return processor("cortex-a72")
    has = frozenset(features)
    levels = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
    return processor(max((name for name in levels if PROCESSORS[name][1] <= has), default=levels[0]))
