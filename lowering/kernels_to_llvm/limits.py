"""Limits of a kernel on an NVIDIA GPU: arguments, shared memory, registers."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import Float32Type

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.kernel.gpu import (
    PORTABLE_SHARED_BYTES,
    REGISTERS,
    SHARED_BYTES,
    TENSOR_MAP_BYTES,
    WARPGROUP_ARCH,
)
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.dialects.kernel.own import OwnOp

# Parameters of a kernel take 4352 bytes, each of them 8.
ARGUMENT_BYTES = 8
MOST_ARGUMENTS = 4352 // ARGUMENT_BYTES
# How many registers a thread needs with at most so many sums on tensor cores.
ENOUGH_REGISTERS, FEW_SUMS = 168, 32
# So many are enough where it keeps at most so many bytes in arrays of its own.
FEWER_REGISTERS, FEW_KEPT_BYTES = 128, 64
# And all of them where these have more elements, or more of f32 that are multiplied as they are.
ALL_REGISTERS, MANY_KEPT, MANY_KEPT_WIDE = 255, 176, 88


def limits(launch: LaunchOp) -> str:
    """Attributes that limit the registers ptxas uses: the threads of a block; and for small tiles on tensor
    cores, and sums that live through a loop, the blocks that a multiprocessor must hold (occupancy), since
    ptxas would else spill to hold more.
    """
    told = f'"nvvm.maxntid"="{launch.all_threads}"'
    if launch.has_roles:
        return f'{told} "nvvm.minctasm"="1"'
    has_few = any(sums_of(launch, op) <= FEW_SUMS for op in launch.body.walk() if isinstance(op, MmaOp))
    own = [op for op in launch.body.block.ops if isinstance(op, OwnOp)]
    kept, elements = sum(op.bytes for op in own), sum(math.prod(op.result.type.get_shape()) for op in own)
    if kept or has_few:
        enough = FEWER_REGISTERS if 0 < kept <= FEW_KEPT_BYTES else ENOUGH_REGISTERS
        products = (op for op in launch.body.walk() if isinstance(op, MmaOp))
        is_wide = any(isinstance(op.left.type, Float32Type) for op in products)
        enough = ALL_REGISTERS if elements > (MANY_KEPT_WIDE if is_wide else MANY_KEPT) else enough
        told += f' "nvvm.minctasm"="{max(1, REGISTERS // (enough * launch.threads))}"'
    return told


def sums_of(launch: LaunchOp, product: MmaOp) -> int:
    """The accumulators of a product on tensor cores that a thread has."""
    return math.prod(size for name, size in launch.registers.data if name not in product.depth_names)


def check_arguments(launch: LaunchOp, nodes: int, indices: int, maps: int) -> None:
    if nodes + indices + maps * TENSOR_MAP_BYTES // ARGUMENT_BYTES > MOST_ARGUMENTS:
        raise OcannlError(
            at_line(
                launch,
                f"kernel {launch.label.data!r}: it uses {nodes} nodes and {indices} static indices; "
                f"NVIDIA's GPUs take {MOST_ARGUMENTS}",
            )
        )


def check_shared(launch: LaunchOp, arch: str) -> None:
    most = SHARED_BYTES.get(arch, PORTABLE_SHARED_BYTES)
    if launch.shared_bytes > most:
        raise OcannlError(
            at_line(
                launch,
                f"kernel {launch.label.data!r}: it has {launch.shared_bytes} bytes of shared memory; "
                f"{arch} has {most}",
            )
        )


def check_roles(launch: LaunchOp, arch: str) -> None:
    if launch.has_roles and arch != WARPGROUP_ARCH:
        raise OcannlError(
            at_line(
                launch,
                f"kernel {launch.label.data!r}: its threads have roles, and {arch} has none: "
                "run lower-loops-to-kernels{roles=false}",
            )
        )
