"""Keys for calls of random numbers that were given none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.program.module.needed import needed_for
from ocannl.program.tracing.traced_calls import Call, CallAttr
from ocannl.program.values import Value

Numbers: TypeAlias = dict[str, dict[int, int]]


@dataclass
class Numbering:
    """Keys by label and number: `dropout#2` is the second call of the label that was compiled, and
    `dropout@step#2` the second one in functions called `step`, whatever was compiled before.
    """

    calls: Numbers = field(default_factory=Numbers)
    """The numbers of calls outside of functions, by their labels."""

    def key(self, label: str, call: Call) -> str:
        """The key of a call with a label, the same each time."""
        if call.function is not None:
            return f"{label}@{call.function}#{call.number}"
        of_label = self.calls.setdefault(label, {})
        return f"{label}#{of_label.setdefault(call.number, len(of_label) + 1)}"

    def note(self, value: Value) -> None:
        """Gives keys to the calls in an expression, which keep them in what is compiled later."""
        for op in needed_for([value]):
            if isinstance(op, UniformOp) and isinstance(call := op.attributes.get("call"), CallAttr):
                self.key(op.stream.data.key, call.data)

    def copy(self) -> Numbering:
        """The same keys for the same calls; later ones are numbered apart."""
        return Numbering({label: dict(numbers) for label, numbers in self.calls.items()})
