"""The counters of an optimizer's steps, as one of its steps sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import ocannl as oc


class StepCounts:
    """Which step this is, from 1 on: of parameters that are trained together, and of each.

    They are counted together, unless `count_each` says that each has a counter: one whose steps stop for a
    while is then behind the others.
    """

    def __init__(
        self,
        optimizer: str,
        trained: Mapping[str, oc.Tensor],
        counted: set[frozenset[oc.Tensor]],
        counter: Callable[[str], oc.Tensor],
        count_each: bool,
        own_counter: Callable[[oc.Tensor, str], oc.Tensor],
    ) -> None:
        self._optimizer, self._trained, self._counted = optimizer, trained, counted
        self._count_each, self._own_counter, self.counter = count_each, own_counter, counter
        self._steps = counter("steps")
        self._steps += 1
        self._own: dict[oc.Tensor, oc.Tensor] = {}

    def together(self) -> oc.Tensor:
        """Which step of all these parameters this is.

        Raises `ArgumentError` where some, but not all of them were counted together with others.
        """
        return self._checked

    @cached_property
    def _checked(self) -> oc.Tensor:
        if not self._count_each:
            own = frozenset(self._trained.values())
            for other in self._counted - {own}:
                if other & own:
                    self._refuse(other)
            self._counted.add(own)
        return self._steps

    def of(self, p: oc.Tensor) -> oc.Tensor:
        """Which step of a parameter this is."""
        if not self._count_each:
            return self.together()
        if p not in self._own:
            self._own[p] = self._own_counter(p, "step")
            self._own[p] += 1
        return self._own[p]

    def _refuse(self, other: frozenset[oc.Tensor]) -> None:
        apart = [name for name, p in self._trained.items() if p not in other]
        left_out = sorted(p.label for p in other - {*self._trained.values()})
        raise oc.ArgumentError(
            f"{self._optimizer} counts the steps of parameters that it trains together: here "
            f"{_beside('without', left_out)}{' and ' if apart and left_out else ''}{_beside('with', apart)}, "
            f"unlike before; train.{self._optimizer}(..., count_each=True) counts them for each, so that "
            "some may be frozen for a while, and two optimizers train two sets"
        )


def _beside(word: str, names: list[str]) -> str:
    if not names:
        return ""
    return f"{word} {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
