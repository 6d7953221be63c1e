"""Text of C and the languages that follow it, under construction: lines, loops and index expressions."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager

from ocannl.dialects.index.linear import Space
from ocannl.lowering.c_family.variable_names import VariableNames

INT_VALUES = 2**31


class TextLines:
    """Lines of the body of a function, in which variables have `names`."""

    def __init__(self, names: VariableNames) -> None:
        self.variables = names
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def braces(self, heading: str) -> Generator[None]:
        self.line(f"{heading} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def space(self, space: Space) -> Generator[None]:
        """Loops over the points of a space in turn."""
        with ExitStack() as stack:
            for name, size in space:
                stack.enter_context(self.braces(self.heading(name, size)))
            yield

    def heading(self, name: str, size: int) -> str:
        """The heading of a loop over a variable."""
        variable = self.variables[name]
        return f"for (int {variable} = 0; {variable} < {size}; {variable}++)"

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def linear(
        self,
        terms: Iterable[tuple[str, int]],
        constant: int,
        sizes: Mapping[str, int],
        positions: Mapping[str, str] | None = None,
    ) -> str:
        """An index expression: an `int`, or a `long` with static indices and where an `int` is too narrow."""
        terms = list(terms)
        reach = abs(constant) + sum(abs(c) * (sizes.get(name, 1) - 1) for name, c in terms)
        suffix = "" if reach < INT_VALUES else "L"
        text = ""
        for name, coefficient in terms:
            found = (positions or {}).get(name) or self.variables[name]
            factor = f"{abs(coefficient)}{suffix}*" if abs(coefficient) != 1 or suffix else ""
            sign = " - " if coefficient < 0 else " + "
            text += f"{sign}{factor}{found}"
        if constant or not text:
            text += f"{' - ' if constant < 0 else ' + '}{abs(constant)}{suffix}"
        return text[3:] if text.startswith(" + ") else f"-{text[3:]}"
