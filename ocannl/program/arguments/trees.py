"""Nested dicts, lists, tuples and dataclasses: their leaves, and the same form around others."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast


@dataclass(frozen=True, slots=True)
class Branch:
    """A collection in the form of a tree: its class, the names of its parts and their forms."""

    kind: Callable[..., Any]
    keys: tuple[Any, ...]
    parts: tuple[Form, ...]


Form: TypeAlias = Branch | None
"""The form of a tree; None is a leaf."""


def children(tree: Any) -> dict[Any, Any] | None:
    """The parts of a collection by name; None for a leaf."""
    parts_of = _parts_of(cast("type[Any]", type(tree)))
    return None if parts_of is None else parts_of(tree)


@lru_cache(maxsize=1024)
def _parts_of(kind: type[Any]) -> Callable[[Any], dict[Any, Any]] | None:
    """How collections of a class are taken apart; None for a class of leaves."""
    if issubclass(kind, Mapping):
        return dict
    if issubclass(kind, list | tuple):
        return _parts_of_sequence
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.init]
        return lambda tree: {name: getattr(tree, name) for name in names}
    return None


def _parts_of_sequence(parts: Sequence[Any]) -> dict[Any, Any]:
    names: Sequence[Any] = getattr(parts, "_fields", range(len(parts)))
    return dict(zip(names, parts, strict=True))


def form_of(tree: Any) -> Form:
    """The form of a tree, which can be a key."""
    parts = children(tree)
    if parts is None:
        return None
    # A defaultdict is not made of its parts alone.
    kind = dict if isinstance(tree, defaultdict) else cast("type[Any]", type(tree))
    return Branch(kind, tuple(parts), tuple(map(form_of, parts.values())))


def leaves_of(tree: Any) -> Iterator[Any]:
    """The leaves of a tree, in order."""
    leaves: list[Any] = []
    _collect_leaves(tree, leaves)
    return iter(leaves)


def _collect_leaves(tree: Any, leaves: list[Any]) -> None:
    parts = children(tree)
    if parts is None:
        leaves.append(tree)
        return
    for part in parts.values():
        _collect_leaves(part, leaves)


def paths_of(form: Form, name: str) -> Iterator[str]:
    """The names of the leaves: `batch.ids` is the part `ids` of `batch`."""
    if form is None:
        yield name
        return
    for key, part in zip(form.keys, form.parts, strict=True):
        yield from paths_of(part, f"{name}.{key}" if name else str(key))


def built(form: Form, leaves: Iterator[Any]) -> Any:
    """A tree of a form with other leaves."""
    if form is None:
        return next(leaves)
    values = [built(part, leaves) for part in form.parts]
    if _is_kind(form, Mapping):
        found = dict(zip(form.keys, values, strict=True))
        return found if form.kind is dict else form.kind(found)
    if _is_kind(form, list | tuple):
        return form.kind(*values) if hasattr(form.kind, "_fields") else form.kind(values)
    return form.kind(**dict(zip(form.keys, values, strict=True)))


def _is_kind(form: Branch, of: Any) -> bool:
    return isinstance(form.kind, type) and issubclass(form.kind, of)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with its leaves replaced."""
    return built(form_of(tree), iter([function(leaf) for leaf in leaves_of(tree)]))
