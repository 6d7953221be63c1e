"""The counters of an optimizer's steps, as one of its steps sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
        others: Iterable[frozenset[oc.Tensor]],
        counter: Callable[[str], oc.Tensor],
        count_each: bool,
        own_counter: Callable[[oc.Tensor, str], oc.Tensor],
    ) -> None:
        self._optimizer, self._trained, self._others = optimizer, trained, others
        self._count_each, self._own_counter, self._counter = count_each, own_counter, counter
        self._steps = counter("steps")
        self._steps += 1
        self._own: dict[oc.Tensor, oc.Tensor] = {}

    def together(self) -> oc.Tensor:
        """Which step of all these parameters this is, an integer.

        Raises `ArgumentError` where some, but not all of them were counted together with others.
        """
        return self._checked

    @cached_property
    def _checked(self) -> oc.Tensor:
        if not self._count_each:
            check_together(
                self._trained,
                self._others,
                f"{self._optimizer} counts the steps of parameters that it trains together",
                f"train.{self._optimizer}(..., count_each=True) counts them for each, so that some may be "
                "frozen for a while, two optimizers train two sets, and one that is made anew begins anew",
            )
        return self._steps

    def of(self, p: oc.Tensor) -> oc.Tensor:
        """Which step of a parameter this is, as `as_number` has it."""
        if not self._count_each:
            return self._number
        if p not in self._own:
            count = self._own_counter(p, "step")
            count += 1
            self._own[p] = as_number(count)
        return self._own[p]

    def memory_of(self, p: oc.Tensor) -> oc.Tensor:
        """The memory that counts the steps of a parameter."""
        return self._own_counter(p, "step") if self._count_each else self._steps

    @cached_property
    def _number(self) -> oc.Tensor:
        return as_number(self.together())

    def counter_of(self, p: oc.Tensor, name: str) -> oc.Tensor:
        """A counter of a parameter, or of all that are trained together."""
        return self._own_counter(p, name) if self._count_each else self._counter(name)


def as_number(count: oc.Tensor) -> oc.Tensor:
    """A count in the precision of what it is used with: a quotient of 64-bit integers would be f64."""
    return 1.0 * count


def check_together(
    trained: Mapping[str, oc.Tensor], others: Iterable[frozenset[oc.Tensor]], rule: str, way_out: str
) -> None:
    """Raises `ArgumentError` where some, but not all of these parameters were trained with others."""
    own = frozenset(trained.values())
    for other in others:
        if other & own and other != own:
            apart = [name for name, p in trained.items() if p not in other]
            left_out = sorted(p.label for p in other - own)
            raise oc.ArgumentError(
                f"{rule}: here {_beside('without', left_out)}{' and ' if apart and left_out else ''}"
                f"{_beside('with', apart)}, unlike before; {way_out}"
            )


def _beside(word: str, names: list[str]) -> str:
    if not names:
        return ""
    return f"{word} {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
