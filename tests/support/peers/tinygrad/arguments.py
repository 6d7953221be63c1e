"""Sizes and lists in tinygrad's forms, and the slots of specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


def sizes(shape: tuple[Any, ...]) -> list[Any]:
    """Sizes that are given as arguments or as one list."""
    return list(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else list(shape)


def slot(names: Sequence[str]) -> str:
    """The slot of axes of which the last stands in the output row."""
    return f"{''.join(f'{name}, ' for name in names[:-1])}| {names[-1]}," if names else ""
