"""Learning rates that are set anew between steps of eager mode: from then on memory, so that a step stays the
code that it is.
"""

from __future__ import annotations

from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import ocannl as oc
from ocannl.program.scopes import Scope

Rates: TypeAlias = dict[str | None, Any]
"""Learning rates by the pattern of their group, and by None that of all other parameters."""


class ChangingRates:
    """The memory of each learning rate that has been another number."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._first: dict[str | None, float] = {}
        self._memory: dict[str | None, oc.Tensor] = {}
        self._held = WeakKeyDictionary[oc.Context, dict[str | None, float]]()
        """The numbers that contexts have in that memory."""

    def as_memory(self, rates: Rates) -> Rates:
        """The rates, with memory that has their value in place of numbers that have been others."""
        return {of: self._as_memory(of, rate) for of, rate in rates.items()}

    def _as_memory(self, of: str | None, rate: Any) -> Any:
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            return rate
        context = oc.default_context()
        held = self._held.setdefault(context, {})
        if of not in self._memory:
            if self._first.setdefault(of, rate) == rate:
                return rate
            with self._scope:
                self._memory[of] = oc.node("rate", output=[], init=float(rate))
        elif held.get(of) != rate:
            context[self._memory[of]] = rate
        held[of] = rate
        return self._memory[of]
