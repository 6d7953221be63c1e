"""The description of the processor for which schedules are chosen."""

from __future__ import annotations

from dataclasses import dataclass, fields

from xdsl.passes import ModulePass

from ocannl.dialects.ir.errors import OcannlError

# The largest node of a group that lives on the stack, in bytes.
LARGEST_INSIDE = 2**17
# The part of the last-level cache that one routine fills before it evicts its own data.
FILLED = 3 / 4
# The most rows that shuffles interleave, in a number that grows with its square.
INTERLEAVED = 8


# The least and the greatest value of each number of a target.
RANGES = {
    "vector_bytes": (8, 256),
    "vector_registers": (4, 256),
    "l1_bytes": (0, 2**40),
    "l2_bytes": (0, 2**40),
    "cores": (1, 2**16),
    "last_level_bytes": (0, 2**50),
}


@dataclass(frozen=True)
class TargetDescription:
    """The default does not depend on the host: cores with 512-bit vectors.

    Attributes:
        vector_bytes: bytes in a vector register.
        vector_registers: how many vector registers there are.
        l1_bytes: the first-level data cache of a core.
        l2_bytes: the second-level cache of a core.
        cores: how many cores may share the work of a routine, for which there are tasks enough then.
        last_level_bytes: the last cache before memory, which cores share.
    """

    vector_bytes: int = 64
    vector_registers: int = 32
    l1_bytes: int = 48 * 2**10
    l2_bytes: int = 2**20
    cores: int = 16
    last_level_bytes: int = 2**25

    def __post_init__(self) -> None:
        """Raises `OcannlError` for what no processor has."""
        for name, (least, most) in RANGES.items():
            if not least <= getattr(self, name) <= most:
                found = getattr(self, name)
                raise OcannlError(f"a target has {name} from {least} to {most}, found {found}")
        if self.vector_bytes & (self.vector_bytes - 1):
            raise OcannlError(f"vector_bytes is a power of two, found {self.vector_bytes}")

    @staticmethod
    def of(options: ModulePass) -> TargetDescription:
        """The description by the options of a pass that have the names of its attributes."""
        names = (field.name for field in fields(TargetDescription))
        return TargetDescription(**{name: getattr(options, name) for name in names if hasattr(options, name)})

    @property
    def lasting_bytes(self) -> float:
        """The working set beyond which a routine evicts from the last-level cache the data that it touched
        first.
        """
        return FILLED * self.last_level_bytes
