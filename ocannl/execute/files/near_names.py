"""Names of a file that are nearly those of a program, to be renamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from difflib import get_close_matches


def likely_renaming(stored: Collection[str], wanted: Collection[str]) -> dict[str, str]:
    """The `rename` of `ctx.load` for the names of a file that the program does not have, and those
    of the program that the file does not have: one pattern where the beginnings of names differ, else names
    that are alike; nothing where none are.
    """
    extra = [name for name in stored if name not in wanted]
    missing = [name for name in wanted if name not in stored]
    for (old, new), _ in Counter(_beginnings(extra, missing)).most_common():
        matching = [name for name in stored if name.startswith(old)]
        if all(new + name.removeprefix(old) in missing for name in matching):
            return {f"{old}*": f"{new}*"}
    near: dict[str, str] = {}
    for name in missing:
        if found := get_close_matches(name, [other for other in extra if other not in near], 1, cutoff=0.8):
            near[found[0]] = name
    return near


def _beginnings(extra: Sequence[str], missing: Sequence[str]) -> list[tuple[str, str]]:
    """The beginnings that differ, of names that end alike after a dot."""
    pairs: list[tuple[str, str]] = []
    for old in extra:
        for new in missing:
            ends = _ends(new)
            end = next((end for end in _ends(old) if end in ends), None)
            if end is not None:
                pairs.append((old.removesuffix(end), new.removesuffix(end)))
    return pairs


def _ends(name: str) -> list[str]:
    """The ends of a name after each of its dots, the longest first."""
    parts = name.split(".")
    return [".".join(parts[at:]) for at in range(len(parts))]
