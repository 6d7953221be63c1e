"""Dataclasses that are made in two thirds of the time of the standard library's, which compiles a text for
each method of each class: `import ocannl` makes hundreds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """The decorator of this name of the standard library, with its options `frozen`, `eq`, `slots` and
        `kw_only`; equality, hash and text are functions that classes share.
        """
        made = partial(_made, **options)
        return made if cls is None else made(cls)


def _made(
    cls: type[Any], *, frozen: bool = False, eq: bool = True, slots: bool = False, kw_only: bool = False
) -> type[Any]:
    own = dict(vars(cls))
    cls = dataclasses.dataclass(frozen=frozen, eq=False, repr=False, slots=slots, kw_only=kw_only)(cls)
    methods: dict[str, object] = {"__repr__": _text}
    if eq:
        methods |= _comparisons([field.name for field in fields(cls) if field.compare], frozen)
        if "__eq__" in own and own["__hash__"] is None:  # Python sets it so beside an `__eq__`.
            del own["__hash__"]
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _comparisons(names: Sequence[str], frozen: bool) -> dict[str, object]:
    """Equality of the values of fields, and their hash, or none of what may change."""
    values = _values(names)

    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed if frozen else None}


def _values(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """The tuple of some attributes of an object."""
    if not names:
        return lambda self: ()
    values = attrgetter(*names)
    return values if len(names) > 1 else lambda self: (values(self),)


@recursive_repr()
def _text(self: Any) -> str:
    shown = [f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"
