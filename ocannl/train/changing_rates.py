"""Learning rates that are set anew between steps of eager mode: from then on memory, so that a step stays the
code that it is.
"""

from __future__ import annotations

from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

import ocannl as oc
from ocannl.program.arguments.numbers import is_number, is_truth
from ocannl.program.scopes import Scope

Rates: TypeAlias = dict[str | None, Any]
"""Learning rates by the pattern of their group, and by None that of all other parameters."""
Key: TypeAlias = tuple[str | None, type[np.floating[Any]]]


class ChangingRates:
    """The memory of each learning rate that has been another number: f64 for losses of f64, else f32."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._first: dict[str | None, float] = {}
        """The number that each rate was at first: memory is made for one that is another."""
        self._memory: dict[Key, oc.Tensor] = {}
        self._held = WeakKeyDictionary[oc.Context, dict[Key, float]]()
        """The numbers that contexts have in that memory."""

    def as_memory(self, rates: Rates, loss: oc.Tensor) -> Rates:
        """The rates, with memory that has their value in place of numbers that have been others."""
        return {of: self._as_memory(of, rate, loss) for of, rate in rates.items()}

    def _as_memory(self, of: str | None, rate: Any, loss: oc.Tensor) -> Any:
        if not is_number(rate) or is_truth(rate):
            return rate
        number = float(rate)
        first = self._first.setdefault(of, number)
        is_made = any(made == of for made, _ in self._memory)
        if first == number and not is_made:
            return rate
        key = of, np.float64 if loss.dtype == np.float64 else np.float32
        if key not in self._memory:
            with self._scope:
                self._memory[key] = oc.node("rate", output=[], init=number, dtype=key[1])
        context = oc.default_context()
        held = self._held.setdefault(context, {})
        if held.get(key) != number:
            context[self._memory[key]] = number
        held[key] = number
        return self._memory[key]
