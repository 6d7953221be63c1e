"""Functions that convert small floats, which are stored as their bits, from and to f32."""

from __future__ import annotations

from dataclasses import field

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.small_floats import Format, WordOp, narrow, widen

OPERATORS = {"and": "&", "or": "|", "add": "+", "sub": "-", "shl": "<<", "lshr": ">>"}
FLOAT_OPERATORS = {"fadd": "+", "fsub": "-"}


@dataclass(frozen=True)
class Dialect:
    """How a language writes such functions: what stands before them, the type of words of 32 bits, how the
    bits of a float are got, and a float of its bits.
    """

    heading: str
    word: str
    bits_of: str
    float_of: str


def widening(format: Format) -> str:
    """The name of the function from the bits of a format to a `float`."""
    return f"from_{format.name}"


def narrowing(format: Format) -> str:
    """The name of the function from a `float` to the bits of a format."""
    return f"to_{format.name}"


def widening_function(format: Format, stored: str, dialect: Dialect) -> str:
    """The function from bits, of the type `stored`."""
    words = WordLines(dialect, [f"const {dialect.word} x = bits;"])
    value = widen("x", format, words)
    return words.function(f"float {widening(format)}({stored} bits)", f"{dialect.float_of}({value})")


def narrowing_function(format: Format, stored: str, dialect: Dialect) -> str:
    """The function to bits, of the type `stored`."""
    words = WordLines(dialect, [f"const {dialect.word} x = {dialect.bits_of}(number);"])
    value = narrow("x", format, words)
    return words.function(f"{stored} {narrowing(format)}(float number)", f"({stored})({value})")


@dataclass(frozen=True, slots=True)
class WordLines:
    """The arithmetic of `small_floats` as lines of a function."""

    dialect: Dialect
    lines: list[str] = field(default_factory=list[str])

    def word(self, value: int) -> str:
        return f"{value}u" if value < 2**16 else f"0x{value:08X}u"

    def op(self, name: WordOp, a: str, b: str) -> str:
        if name == "umin":
            return self.define(f"{a} < {b} ? {a} : {b}")
        if name in FLOAT_OPERATORS:
            float_of, bits_of = self.dialect.float_of, self.dialect.bits_of
            return self.define(f"{bits_of}({float_of}({a}) {FLOAT_OPERATORS[name]} {float_of}({b}))")
        return self.define(f"{a} {OPERATORS[name]} {b}")

    def below(self, a: str, bound: int, yes: str, no: str) -> str:
        return self.define(f"{a} < {self.word(bound)} ? {yes} : {no}")

    def define(self, text: str) -> str:
        name = f"x{len(self.lines)}"
        self.lines.append(f"const {self.dialect.word} {name} = {text};")
        return name

    def function(self, heading: str, result: str) -> str:
        lines = [*self.lines, f"return {result};"]
        return "\n".join([f"{self.dialect.heading} {heading} {{", *(f"  {line}" for line in lines), "}"])
