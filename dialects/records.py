"""Dataclasses that are made in a third of the time that those of the standard library take, which were a
fourth of all that `import ocannl` did: the layers have hundreds of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """The decorator of this name of the standard library, with its options `frozen`, `eq`, `slots` and
        `kw_only`. That one compiles a text for each method; here only `__init__` has one, and classes share
        the others.
        """
        made = partial(_made, **options)
        return made if cls is None else made(cls)


def _made(
    cls: type[Any], *, frozen: bool = False, eq: bool = True, slots: bool = False, kw_only: bool = False
) -> type[Any]:
    if any(map(is_dataclass, cls.__bases__)):  # Both or none must be frozen, as the standard library checks.
        return dataclasses.dataclass(frozen=frozen, eq=eq, slots=slots, kw_only=kw_only)(cls)
    own = dict(vars(cls))
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    methods: dict[str, object] = {"__init__": _initializer(cls, frozen, slots), "__repr__": _text}
    if eq:
        methods |= _comparisons([field.name for field in fields(cls) if field.compare], frozen)
        if "__eq__" in own and own["__hash__"] is None:  # Python sets it so beside an `__eq__`.
            del own["__hash__"]
    if frozen:
        methods |= {"__setattr__": _assign, "__delattr__": _delete}
        vars(cls)["__dataclass_params__"].frozen = True
    if frozen and slots:
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _initializer(cls: type[Any], frozen: bool, slots: bool) -> Callable[..., None]:
    """The method `__init__`, inside of a function that has the defaults as parameters."""
    own: Sequence[Field[Any]] = fields(cls)
    known: dict[str, object] = {"MISSING": MISSING, "assign": object.__setattr__}
    known |= {f"default_{field.name}": field.default for field in own if field.default is not MISSING}
    known |= {
        f"make_{field.name}": field.default_factory for field in own if field.default_factory is not MISSING
    }
    by_place = [_parameter(field) for field in own if field.init and not field.kw_only]
    by_name = [_parameter(field) for field in own if field.init and field.kw_only]
    parameters = ["self", *by_place, *(["*", *by_name] if by_name else [])]
    values = [(field.name, value) for field in own if (value := _value(field, slots))]
    body = [
        f"assign(self, {name!r}, {value})" if frozen else f"self.{name} = {value}" for name, value in values
    ]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    lines = "\n        ".join(body or ["pass"])
    init = _function(
        f"""
def around({", ".join(known)}):
    def __init__({", ".join(parameters)}):
        {lines}
    return __init__
""",
        cls.__module__,
        known,
    )
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in own if field.init} | {"return": None}
    return init


def _function(text: str, module: str, known: Mapping[str, object]) -> Callable[..., None]:
    """The function that the function `around` of a text returns."""
    defined: dict[str, Any] = {"__name__": module}
    exec(text, defined)
    return defined["around"](**known)


def _parameter(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"{field.name}=default_{field.name}"
    return field.name if field.default_factory is MISSING else f"{field.name}=MISSING"


def _value(field: Field[Any], slots: bool) -> str:
    """The expression of the value that a new object has; empty where the class has it, or nothing yet."""
    name = field.name
    if field.default_factory is not MISSING:
        return f"make_{name}() if {name} is MISSING else {name}" if field.init else f"make_{name}()"
    if field.init:
        return name
    return f"default_{name}" if slots and field.default is not MISSING else ""


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


def _assign(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: Sequence[object]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
