"""Tables that give names others: of whole names, of beginnings, and of patterns with a `*`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ocannl.program.arguments.errors import ArgumentError


class Renaming:
    """The names that a table gives to others: to those that it has, where it has `head` also to `head.w`, and
    to those that fit a pattern, whose `*` stands for any text, the same in both. Where several fit, the
    longest decides, of these a whole name or beginning before a pattern.

    Raises `ArgumentError` for a `*` that only one of two names has, and for several.
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        for old, new in table.items():
            if old.count("*") != new.count("*") or old.count("*") > 1:
                raise ArgumentError(
                    "names are renamed one by one, by how they begin, or by one `*` in each, "
                    f"found {old!r}: {new!r}"
                )
        self._table = sorted(table.items(), key=_order)

    def __call__(self, name: str) -> str:
        """The new name; that which it has where nothing fits."""
        return next((new for entry in self._table if (new := _renamed(name, *entry)) is not None), name)

    def unused(self, names: Collection[str]) -> list[str]:
        """The entries that fit none of some names."""
        return [old for old, new in self._table if all(_renamed(name, old, new) is None for name in names)]


def _order(entry: tuple[str, str]) -> tuple[int, bool, str]:
    old, _ = entry
    return -len(old.replace("*", "")), "*" in old, old


def _renamed(name: str, old: str, new: str) -> str | None:
    """The new name by one entry; None if it does not fit."""
    if "*" not in old:
        rest = name.removeprefix(f"{old}.")
        joined = ".".join(filter(None, (new, rest)))
        return new if name == old else joined if rest != name else None
    begin, end = old.split("*")
    fits = name.startswith(begin) and name.endswith(end) and len(name) >= len(begin) + len(end)
    return new.replace("*", name[len(begin) : len(name) - len(end)]) if fits else None
