"""Arguments that are True or False."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ocannl.program.arguments.checks import flag

# What a flag may be, by its annotation: whether None leaves it to the function.
MAY_BE_NONE = {"bool": False, "bool | None": True}


@dataclass(frozen=True)
class Flags:
    """The parameters of a function that are True or False, by their names: the place of each among positional
    arguments, or None, and whether it may be None.
    """

    found: Mapping[str, tuple[int | None, bool]]

    @staticmethod
    def of(function: Callable[..., Any]) -> Flags:
        """Those of a function whose annotations are not evaluated."""
        parameters = [*inspect.signature(function).parameters.values()]
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return Flags(
            {
                p.name: (place if p.kind in positional else None, MAY_BE_NONE[p.annotation])
                for place, p in enumerate(parameters)
                if p.annotation in MAY_BE_NONE
            }
        )

    def check(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Raises `ArgumentError` for an argument of a call that is neither True nor False."""
        for name, (place, may_be_none) in self.found.items():
            if name in named:
                value = named[name]
            elif place is not None and place < len(args):
                value = args[place]
            else:
                continue
            if not isinstance(value, bool) and (value is not None or not may_be_none):
                flag(value, name)
