"""Scalar terms: operators applied to operands and numbers."""

from __future__ import annotations

from typing import TypeAlias

from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class Arg:
    """The operand at a position."""

    index: int

    def __str__(self) -> str:
        return f"${self.index}"


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A number, in the precision of the operands; an int also stands beside integers. Equal numbers are
    written alike: 0.0 is not -0.0, NaN is NaN.
    """

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class App:
    """A scalar operator applied to terms."""

    op: str
    args: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"


Term: TypeAlias = Arg | Const | App

ZERO, ONE = Const(0.0), Const(1.0)


def app(op: str, *args: Term | float) -> App:
    """The operator applied to terms, and to numbers as constants."""
    return App(op, tuple(Const(float(a)) if isinstance(a, int | float) else a for a in args))
