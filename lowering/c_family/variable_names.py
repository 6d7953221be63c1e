"""Names of a program, made fit for C and the languages that follow it."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable


class VariableNames:
    """Identifiers for variables, by their names in the program or by what else identifies them. `reserved`
    names, those that the pattern `own` matches and those that are taken are left out.
    """

    def __init__(self, reserved: Collection[str], own: re.Pattern[str]) -> None:
        self.reserved, self.own = reserved, own
        self.known: dict[Hashable, str] = {}
        self.taken: set[str] = set()

    def __getitem__(self, name: str) -> str:
        return self.of(name, name)

    def of(self, key: Hashable, name: str) -> str:
        """The identifier of a key, by the name that it has in the program."""
        if key not in self.known:
            self.known[key] = self.fresh(name)
        return self.known[key]

    def fresh(self, name: str) -> str:
        """A new identifier, as near to a name as can be."""
        found = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not re.search("[a-zA-Z]", found) or re.match(r"_*\d", found):
            found = f"i{found.strip('_')}"
        while self.is_taken(found):
            found = f"{found.lstrip('_')}_"
        self.taken.add(found)
        return found

    def is_taken(self, name: str) -> bool:
        return name in self.reserved or name in self.taken or name[0] == "_" or bool(self.own.fullmatch(name))
