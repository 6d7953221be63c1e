"""The instructions and registers of a processor that the text of a function depends on."""

from __future__ import annotations

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.targets.target import TargetDescription


@dataclass(frozen=True, slots=True)
class Machine:
    """The default is a processor of which nothing is known but that it fuses products with sums.

    Attributes:
        converted: the small floats that it converts from and to f32 by an instruction.
        compared: LLVM's names of the numbers of which it has maxima and minima that are NaN if an operand is.
        fuses: it multiplies and adds with one rounding by an instruction.
        masks: it stores some lanes of a vector as fast as all.
        vector_bytes: the bytes of a vector register.
        vector_registers: how many vector registers there are.
        word_products: its instructions for products of words: four bytes, or two of bf16.
    """

    converted: frozenset[str] = frozenset()
    compared: frozenset[str] = frozenset()
    fuses: bool = True
    masks: bool = True
    vector_bytes: int = 64
    vector_registers: int = 32
    word_products: frozenset[str] = frozenset()

    @staticmethod
    def of(target: TargetDescription) -> Machine:
        """The machine of a CPU."""
        return Machine(
            target.converted,
            target.compared,
            target.fuses,
            target.masks,
            target.vector_bytes,
            target.vector_registers,
            target.word_products,
        )
