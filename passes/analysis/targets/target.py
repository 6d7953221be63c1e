"""The description of the processor for which schedules are chosen and code is generated."""

from __future__ import annotations

from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.loops.dot_instructions import DOT_INSTRUCTIONS
from ocannl.dialects.records import dataclass

# The largest node of a group that lives on the stack, in bytes.
LARGEST_INSIDE = 2**17
# The part of the last-level cache that one routine fills before it evicts its own data.
FILLED = 3 / 4
# The cores that share a last-level cache.
SHARING = 8
# The most rows that shuffles interleave, in a number that grows with its square.
INTERLEAVED = 8
# The most elements from one to the next of a vector that is found among its neighbours.
SPACED = 4

# The features of x86-64 by level (System V ABI, AMD64 supplement), as LLVM calls them.
BASELINE = frozenset({"sse", "sse2"})
SSE4 = BASELINE | {"cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2"}
AVX2 = SSE4 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

# The bytes of the smallest vector registers.
SSE_BYTES = 16

# WebAssembly, whose addresses have 32 bits.
WASM = "wasm32"

# The least and the greatest value of each number of a target.
RANGES = {
    "vector_bytes": (8, 256),
    "vector_registers": (4, 256),
    "fma_ports": (1, 8),
    "l1_bytes": (0, 2**40),
    "l2_bytes": (0, 2**40),
    "cores": (1, 2**16),
    "last_level_bytes": (0, 2**50),
}


@dataclass(frozen=True)
class TargetDescription:
    """The default is `x86-64-v4`, whatever the host is: cores with 512-bit vectors.

    Attributes:
        cpu: LLVM's name of the processor.
        arch: `x86_64`, `aarch64` or `wasm32`.
        features: what instructions it has, by LLVM's names; those of which something may depend.
        llvm_features: LLVM's whole feature list, `+avx2,-sse4a,...`, where the name alone does not tell.
        vector_bytes: bytes in a vector register.
        vector_registers: how many vector registers there are.
        fma_ports: how many vectors it multiplies and adds in a cycle.
        l1_bytes: the first-level data cache of a core.
        l2_bytes: the second-level cache of a core.
        cores: how many cores may share the work of a routine, for which there are tasks enough then: equal
            for all processors, so that the code and the bits of results do not depend on it.
        last_level_bytes: the last cache before memory, which cores share; equal for all processors, too.
        winograd: whether convolutions may be sums of transformed tiles, whose errors are larger.
    """

    cpu: str = "x86-64-v4"
    arch: str = "x86_64"
    features: frozenset[str] = AVX512
    llvm_features: str = ""
    vector_bytes: int = 64
    vector_registers: int = 32
    fma_ports: int = 2
    l1_bytes: int = 48 * 2**10
    l2_bytes: int = 2**20
    cores: int = 16
    last_level_bytes: int = 2**25
    winograd: bool = True

    def __post_init__(self) -> None:
        """Raises `OcannlError` for what no processor has."""
        for name, (least, most) in RANGES.items():
            if not least <= getattr(self, name) <= most:
                found = getattr(self, name)
                raise OcannlError(f"a target has {name} from {least} to {most}, found {found}")
        if self.vector_bytes & (self.vector_bytes - 1):
            raise OcannlError(f"vector_bytes is a power of two, found {self.vector_bytes}")

    def __str__(self) -> str:
        """All of it, as one line: equal for equal descriptions."""
        numbers = [f"{name}={getattr(self, name)}" for name in RANGES]
        direct = [] if self.winograd else ["winograd=False"]
        return " ".join([self.cpu, self.arch, *sorted(self.features), self.llvm_features, *numbers, *direct])

    @property
    def lasting_bytes(self) -> float:
        """The working set beyond which a routine evicts from the last-level cache the data that it touched
        first.
        """
        return FILLED * self.last_level_bytes

    @property
    def shared_bytes(self) -> int:
        """The part of the last-level cache that each of the cores which share it can count on."""
        return self.last_level_bytes // SHARING

    @property
    def accumulators(self) -> int:
        """The registers that may accumulate, beside those for operands, and for products that are not fused
        with a sum.
        """
        return max(1, self.vector_registers - (4 if self.fuses else 6))

    @property
    def converted(self) -> frozenset[str]:
        """The small floats that it converts from and to f32 by an instruction. Those of bf16 flush denormal
        numbers to zero, so that they are not used.
        """
        return frozenset({"f16"} if self.arch == "aarch64" or "f16c" in self.features else ())

    @property
    def fuses(self) -> bool:
        """Whether it multiplies and adds with one rounding by an instruction."""
        return self.arch == "aarch64" or "fma" in self.features

    @property
    def halves_vectors(self) -> bool:
        """Whether it multiplies two halves of a vector in the time of a whole one, one in a cycle."""
        return self.fma_ports == 1 and self.vector_bytes > SSE_BYTES

    @property
    def compared(self) -> frozenset[str]:
        """The floats, by LLVM's names, of which an instruction gives the maximum, NaN if an operand is."""
        return frozenset() if self.arch == "x86_64" else frozenset({"float", "double"})

    @property
    def masks(self) -> bool:
        """Whether it stores some lanes of a vector as fast as all, by an instruction."""
        return "avx512vl" in self.features

    @property
    def word_products(self) -> frozenset[str]:
        """The instructions for products of words of four bytes, or of two of bf16: those that sum them, and
        those that sum products of pairs, `pmaddubsw` of bytes with a sign and without one, and `pmaddwd` of
        16 bits.
        """
        found = {dot.name for dot in DOT_INSTRUCTIONS if not dot.on_tiles and dot.features & self.features}
        if self.arch == "x86_64":
            found |= {"pmaddwd", "pmaddubsw"} if "ssse3" in self.features else {"pmaddwd"}
        return frozenset(found)

    @property
    def sums_words(self) -> bool:
        """Whether an instruction sums the products of words of four bytes."""
        return not self.word_products.isdisjoint({"vpdpbusd", "sdot"})


DEFAULT_TARGET = TargetDescription()


def vector_registers(arch: str, features: frozenset[str]) -> tuple[int, int]:
    """The bytes of a vector register that features give, and how many of these there are."""
    if arch == "aarch64":
        return 16, 32
    if features >= AVX512:
        return 64, 32
    return (32, 16) if features >= AVX2 else (16, 16)
