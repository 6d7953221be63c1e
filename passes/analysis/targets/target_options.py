"""The options of passes that weigh costs: the processor, and numbers in place of its own."""

from __future__ import annotations

from dataclasses import replace

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.analysis.targets.target import RANGES, TargetDescription


@dataclass(frozen=True)
class TargetOptions:
    """A processor, as the options of a pass describe it.

    Attributes:
        cpu: the processor, by LLVM's name.
        vector_bytes, vector_registers, fma_ports, l1_bytes, l2_bytes, cores, last_level_bytes: in place of
            the numbers that it has.
        described: the description in place of that of `cpu`. Given in Python only: it is no option of a
            textual pipeline.
    """

    cpu: str = TargetDescription.cpu
    vector_bytes: int | None = None
    vector_registers: int | None = None
    fma_ports: int | None = None
    l1_bytes: int | None = None
    l2_bytes: int | None = None
    cores: int | None = None
    last_level_bytes: int | None = None
    described: TargetDescription | None = None

    @property
    def target(self) -> TargetDescription:
        """Raises `DeviceError`, `OcannlError` for a name or numbers that no processor has."""
        numbers = {name: value for name in RANGES if (value := getattr(self, name)) is not None}
        return replace(self.described or processor(self.cpu), **numbers)
