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
        self._count_each, self._own_counter, self._counter = count_each, own_counter, counter
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
            check_together(
                self._trained,
                self._counted,
                f"{self._optimizer} counts the steps of parameters that it trains together",
                f"train.{self._optimizer}(..., count_each=True) counts them for each, so that some may be "
                "frozen for a while, two optimizers train two sets, and one that is made anew begins anew",
            )
        return self._steps

    def of(self, p: oc.Tensor) -> oc.Tensor:
        """Which step of a parameter this is."""
        if not self._count_each:
            return self.together()
        if p not in self._own:
            self._own[p] = self._own_counter(p, "step")
            self._own[p] += 1
        return self._own[p]

    def counter_of(self, p: oc.Tensor, name: str) -> oc.Tensor:
        """A counter of a parameter, or of all that are trained together."""
        return self._own_counter(p, name) if self._count_each else self._counter(name)


def check_together(
    trained: Mapping[str, oc.Tensor], known: set[frozenset[oc.Tensor]], rule: str, way_out: str
) -> None:
    """Adds these parameters to the known sets. Raises `ArgumentError` where some, but not all of them were
    trained together with others.
    """
    own = frozenset(trained.values())
    for other in known - {own}:
        if other & own:
            apart = [name for name, p in trained.items() if p not in other]
            left_out = sorted(p.label for p in other - own)
            raise oc.ArgumentError(
                f"{rule}: here {_beside('without', left_out)}{' and ' if apart and left_out else ''}"
                f"{_beside('with', apart)}, unlike before; {way_out}"
            )
    known.add(own)


def _beside(word: str, names: list[str]) -> str:
    if not names:
        return ""
    return f"{word} {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
