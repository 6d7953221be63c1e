"""The options of passes and targets on a command line: their names and values are those that there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import fields
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible
from xdsl.utils.hints import isa

WORDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def wrong_option(made: type[ArgSpecConvertible], spec: ArgSpec) -> str | None:
    """The first thing that is wrong with the options of a pass or target, in words."""
    known = options_of(made)
    for name, values in spec.parameters.items():
        field = name.replace("-", "_")
        if field not in known:
            return f"`{spec.name}` has no option `{name}`{_hint(field, known)}"
        wanted = known[field]
        is_one = len(values) == 1 and isa(values[0], wanted)
        if not (is_one or isa(values, wanted) or (not values and isa(None, wanted))):
            words = " or ".join(dict.fromkeys(_words(wanted)))
            return f"the option `{name}` of `{spec.name}` is {words}, found {_text(values)}"
    return None


def options_of(made: type[ArgSpecConvertible]) -> dict[str, Any]:
    """The options that text can give, with their types."""
    types = get_type_hints(made)
    found = {field.name: types[field.name] for field in fields(made) if field.init}
    return {name: kind for name, kind in found.items() if any(_words(kind))}


def _words(kind: Any) -> Iterator[str]:
    """The words for the values of a type that text can give."""
    if isinstance(kind, type) and kind in WORDS:
        yield WORDS[kind]
    elif get_origin(kind) in (tuple, Union, UnionType):
        for part in get_args(kind):
            yield from _words(part)


def _text(values: tuple[object, ...]) -> str:
    texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    return f"`{','.join(texts)}`" if texts else "no value"


def _hint(name: str, known: dict[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, 3)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; its options are {', '.join(known)}" if known else ": it has none"
