"""Keys for calls of random numbers that were given none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.program.module.needed import needed_for
from ocannl.program.tracing.traced_calls import Call, CallAttr
from ocannl.program.values import Value

Makers: TypeAlias = dict[str, dict[int, int]]


@dataclass
class Numbering:
    """Keys by label and number: `dropout#2` is the second call of the label that was compiled, and
    `dropout@step#2` the second one in the function `step`, whatever was compiled before; in the third
    function of this name that was compiled, it is `dropout@step#3.2`.
    """

    calls: Makers = field(default_factory=Makers)
    """The numbers of calls outside of functions, by their labels."""
    functions: Makers = field(default_factory=Makers)
    """The numbers of functions, by their names."""

    def key(self, label: str, call: Call) -> str:
        """The key of a call with a label, the same each time."""
        if call.function is None:
            return f"{label}#{_number(self.calls, label, call.maker)}"
        function = _number(self.functions, call.function, call.maker)
        which = f"{call.number}" if function == 1 else f"{function}.{call.number}"
        return f"{label}@{call.function}#{which}"

    def note(self, value: Value) -> None:
        """Gives keys to the calls in an expression, which keep them in what is compiled later."""
        for op in needed_for([value]):
            if isinstance(op, UniformOp) and isinstance(call := op.attributes.get("call"), CallAttr):
                self.key(op.stream.data.key, call.data)

    def copy(self) -> Numbering:
        """The same keys for the same calls; later ones are numbered apart."""
        return Numbering(_copied(self.calls), _copied(self.functions))


def _number(known: Makers, name: str, maker: int) -> int:
    """The number of a maker among those of a name, in the order in which they are asked for."""
    of_name = known.setdefault(name, {})
    return of_name.setdefault(maker, len(of_name) + 1)


def _copied(makers: Makers) -> Makers:
    return {name: dict(of_name) for name, of_name in makers.items()}
