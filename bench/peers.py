"""The peers measured beside OCANNL, and the interface of a benchmark in a framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Peer:
    """A framework, which names the modules `steps_...` and `kernels_...`, with its options there."""

    framework: str
    options: dict[str, object] = field(default_factory=dict[str, object])
    has_kernels: bool = True


PEERS = {
    "ocannl": Peer("ocannl"),
    "jax": Peer("jax"),
    "torch": Peer("torch"),
    "torch.compile": Peer("torch", {"compiled": True}),
    "numpy": Peer("numpy"),
    "c -O3": Peer("c", {"options": ("-O3",)}, has_kernels=False),
    "c native": Peer("c", {"options": ("-O3", "-march=native", "-ffast-math")}, has_kernels=False),
}
# What all of them must compute.
REFERENCE = "torch f64"
ALL = PEERS | {REFERENCE: Peer("torch", {"double": True})}


class Missing(Exception):
    """The peer has no such benchmark."""


class Runs(Protocol):
    """A benchmark in a framework, built but not compiled. A `run` is a step, or one call of a kernel."""

    def first(self) -> None:
        """Compiles, runs once, and waits for the result."""
        ...

    def call(self, count: int) -> None:
        """Runs one by one from Python, and waits for the last."""
        ...

    def values(self) -> dict[str, Any]:
        """The verified values by name: the losses of the first steps, or the arrays of a kernel."""
        ...
