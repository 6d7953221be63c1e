"""Machines that programs are planned for: what a device computes and holds, and the links between devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from ocannl.dialects.scalar.precisions import dtype_name
from ocannl.passes.analysis.communication.simulation import Links
from ocannl.program.arguments.checks import integer, number
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.types.dtypes import float_element

SIZES = re.compile(r"(?:(\d+)x)?(\d+)x(\w+)")


@dataclass(frozen=True)
class Machine:
    """Devices of one kind, in nodes: `oc.Machine(...)` describes one that `oc.plan` has no name for.

    Raises `ArgumentError` for numbers that no machine has.

    Attributes:
        flops: the floating-point operations a second of matrix products, by the dtype of what is multiplied,
            `{"bfloat16": 989e12}`; products of other dtypes are as fast as other arithmetic.
        vector_flops: those of all other arithmetic.
        memory: the bytes of a device.
        memory_bandwidth: the bytes a second between a device and its memory.
        devices_a_node: how many devices a node has.
        inside_bandwidth: the bytes a second that a device sends to others of its node, while as many come.
        between_bandwidth: the bytes a second that it sends to other nodes, while as many come.
        inside_latency: the seconds before the first byte of a message within a node.
        between_latency: the seconds before the first byte of a message between nodes.
        devices: how many devices there are; None is as many as it takes.
    """

    flops: Mapping[str, float]
    vector_flops: float
    memory: int
    memory_bandwidth: float
    devices_a_node: int
    inside_bandwidth: float
    between_bandwidth: float
    inside_latency: float
    between_latency: float
    devices: int | None = None

    def __post_init__(self) -> None:
        for dtype, rate in self.flops.items():
            if dtype != (known := dtype_name(float_element(dtype, "the products of a machine are"))):
                raise ArgumentError(f"the products of a machine are of {known}, called so; found {dtype!r}")
            _positive(rate, f"the FLOP/s of {dtype}")
        integer(self.devices_a_node, "devices_a_node of a machine", least=1)
        for name in (field.name for field in fields(self)):
            if name not in ("flops", "devices", "devices_a_node"):
                _positive(getattr(self, name), f"{name} of a machine", zero="latency" in name)

    @property
    def links(self) -> Links:
        """The links between its devices."""
        return Links(
            self.devices_a_node,
            self.inside_latency,
            self.between_latency,
            self.inside_bandwidth,
            self.between_bandwidth,
        )

    def product_flops(self, dtype: str) -> float:
        """The floating-point operations a second of products of a dtype."""
        return self.flops.get(dtype, self.vector_flops)


def _positive(value: float, what: str, *, zero: bool = False) -> None:
    number(value, what)
    if not (value > 0 or zero):
        raise ArgumentError(f"{what} is more than 0, found {value!r}")


# Latencies are those of NCCL's own model of its rings with the protocol LL128: 1.9 us by NVLink, 4.0 us by
# the network (`hwLat` in src/graph/tuning.cc).
NCCL_INSIDE, NCCL_BETWEEN = 1.9e-6, 4.0e-6

MACHINES: Mapping[str, Machine] = {
    "H100": Machine(
        # NVIDIA H100 Tensor Core GPU datasheet, SXM5, without sparsity; float32 without tensor cores.
        flops={"float16": 989.4e12, "bfloat16": 989.4e12, "float32": 67e12, "float64": 67e12},
        vector_flops=67e12,  # the same datasheet, FP32
        memory=80 * 10**9,  # the same
        memory_bandwidth=3.35e12,  # the same
        devices_a_node=8,  # NVIDIA DGX H100 datasheet
        inside_bandwidth=450e9,  # H100 datasheet: NVLink of 900 GB/s, half of it in each direction
        between_bandwidth=50e9,  # DGX H100 datasheet: one ConnectX-7 of 400 Gb/s for each GPU
        inside_latency=NCCL_INSIDE,
        between_latency=NCCL_BETWEEN,
    ),
    "A100": Machine(
        # NVIDIA A100 Tensor Core GPU datasheet, 80 GB SXM, without sparsity; float32 without tensor cores.
        flops={"float16": 312e12, "bfloat16": 312e12, "float32": 19.5e12, "float64": 19.5e12},
        vector_flops=19.5e12,  # the same datasheet, FP32
        memory=80 * 10**9,  # the same
        memory_bandwidth=2.039e12,  # the same
        devices_a_node=8,  # NVIDIA DGX A100 datasheet
        inside_bandwidth=300e9,  # A100 datasheet: NVLink of 600 GB/s, half of it in each direction
        between_bandwidth=25e9,  # DGX A100 datasheet: one ConnectX-6 of 200 Gb/s for each GPU
        inside_latency=NCCL_INSIDE,
        between_latency=NCCL_BETWEEN,
    ),
}
"""The kinds of devices that have a name."""


def machine_of(machine: str | Machine) -> Machine:
    """A machine, or one by its name: `"8xH100"` is 8 devices in nodes as they are sold, `"16x8xH100"` 16
    nodes of 8. Raises `ArgumentError`.
    """
    if isinstance(machine, Machine):
        return machine
    found = SIZES.fullmatch(machine) if isinstance(machine, str) else None
    kind = None if found is None else MACHINES.get(found[3])
    if found is None or kind is None:
        known = ", ".join(MACHINES)
        raise ArgumentError(
            f'a machine is an oc.Machine, or called as "8xH100" or "16x8xH100", of {known}; found {machine!r}'
        )
    nodes, devices = found[1], integer(int(found[2]), "the number of devices", least=1)
    if nodes is None:
        return replace(kind, devices=devices)
    count = integer(int(nodes), "the number of nodes", least=1)
    return replace(kind, devices=count * devices, devices_a_node=devices)
