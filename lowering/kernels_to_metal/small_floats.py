"""Functions that convert the floats that Metal lacks, those of 8 bits, from and to f32."""

from __future__ import annotations

from dataclasses import dataclass, field

from ocannl.dialects.scalar.small_floats import F8E4M3FN, F8E5M2, Format, WordOp, narrow, widen

OPERATORS = {"and": "&", "or": "|", "add": "+", "sub": "-", "shl": "<<", "lshr": ">>"}
FLOAT_OPERATORS = {"fadd": "+", "fsub": "-"}

STORED_AS_BITS = {format.name: "uchar" for format in (F8E5M2, F8E4M3FN)}
"""The types in which small floats are stored that are no types of Metal, by name."""


def widening(format: Format) -> str:
    """The name of the function from the bits of a format to a `float`."""
    return f"from_{format.name}"


def narrowing(format: Format) -> str:
    """The name of the function from a `float` to the bits of a format."""
    return f"to_{format.name}"


def widening_function(format: Format) -> str:
    words = MetalWords(["const uint x = bits;"])
    value = widen("x", format, words)
    heading = f"inline float {widening(format)}({STORED_AS_BITS[format.name]} bits)"
    return words.function(heading, f"as_type<float>({value})")


def narrowing_function(format: Format) -> str:
    words, type = MetalWords(["const uint x = as_type<uint>(number);"]), STORED_AS_BITS[format.name]
    value = narrow("x", format, words)
    return words.function(f"inline {type} {narrowing(format)}(float number)", f"{type}({value})")


@dataclass(frozen=True, slots=True)
class MetalWords:
    """The arithmetic of `small_floats` as lines of a function."""

    lines: list[str] = field(default_factory=list[str])

    def word(self, value: int) -> str:
        return f"{value}u" if value < 2**16 else f"0x{value:08X}u"

    def op(self, name: WordOp, a: str, b: str) -> str:
        if name == "umin":
            return self.define(f"min({a}, {b})")
        if name in FLOAT_OPERATORS:
            return self.define(
                f"as_type<uint>(as_type<float>({a}) {FLOAT_OPERATORS[name]} as_type<float>({b}))"
            )
        return self.define(f"{a} {OPERATORS[name]} {b}")

    def below(self, a: str, bound: int, yes: str, no: str) -> str:
        return self.define(f"{a} < {self.word(bound)} ? {yes} : {no}")

    def define(self, text: str) -> str:
        name = f"x{len(self.lines)}"
        self.lines.append(f"const uint {name} = {text};")
        return name

    def function(self, heading: str, result: str) -> str:
        lines = [*self.lines, f"return {result};"]
        return "\n".join([f"{heading} {{", *(f"  {line}" for line in lines), "}"])
