"""Modules of LLVM IR in parts, which become machine code independently of each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from ocannl.dialects.records import dataclass

# The characters of a part's functions, at least: a part costs a millisecond, and one of so many takes 40.
PART = 1 << 16
FUNCTION = re.compile(r'^define internal .*?@("[^"]*"|[\w.$-]+)\(.*?^}\n?', re.MULTILINE | re.DOTALL)
OPEN = re.compile(r'^define (?!internal )(.*?@("[^"]*"|[\w.$-]+)\(.*?) \{$', re.MULTILINE)
GLOBAL = re.compile(r'^@("[^"]*"|[\w.$-]+) = ', re.MULTILINE)
REFERENCE = re.compile(r'@("[^"]*"|[\w.$-]+)')
# What every part has: declarations, the attributes of functions, metadata, and the target.
SHARED = re.compile(r"^(?:declare |attributes |target |!).*$", re.MULTILINE)
INTERNAL, OF_ALL_PARTS, DECLARED = "define internal ", "define ", "declare "


@dataclass(frozen=True)
class Function:
    """The text of a function that is internal to its module."""

    name: str
    text: str

    @cached_property
    def references(self) -> set[str]:
        return {*REFERENCE.findall(self.text)}

    @property
    def definition(self) -> str:
        return self.text.replace(INTERNAL, OF_ALL_PARTS, 1)

    @property
    def declaration(self) -> str:
        head, _, _ = self.text.partition(" {\n")
        return head.replace(INTERNAL, DECLARED, 1)


def split_module(text: str, least: int = PART) -> list[str]:
    """The texts of the parts of a module: first what is not internal to it and all globals, then functions in
    their order, `least` characters or more a part. A module whose functions fill less than two is one part.

    What was internal is visible, so that other parts reach it by a table of addresses: they may be loaded
    further apart than an offset of 32 bits reaches. The code of a function does not depend on the part that
    it is in.
    """
    found = [Function(match[1], match[0]) for match in FUNCTION.finditer(text)]
    of_module = {*GLOBAL.findall(text)}
    free = [function for function in found if of_module.isdisjoint(function.references)]
    groups = [*_groups(free, least)]
    if len(groups) < 2:
        return [text]
    declarations = {match[2]: f"declare {match[1]}" for match in OPEN.finditer(text)}
    declarations |= {function.name: function.declaration for function in found}
    moved = {function.name for function in free}
    first = FUNCTION.sub(
        lambda match: "" if match[1] in moved else match[0].replace(INTERNAL, OF_ALL_PARTS, 1), text
    )
    shared = "\n".join(SHARED.findall(text))
    rest = [
        _part("\n".join([f.definition for f in group]), {f.name for f in group}, declarations, shared)
        for group in groups
    ]
    return [_part(first, declarations.keys() - moved, declarations, ""), *rest]


def _groups(functions: Sequence[Function], least: int) -> Iterator[list[Function]]:
    """Successive functions, together of `least` characters or more; the last ones may be fewer."""
    group, size = list[Function](), 0
    for function in functions:
        group.append(function)
        size += len(function.text)
        if size >= least:
            yield group
            group, size = [], 0
    if group:
        yield group


def _part(text: str, own: set[str], declarations: dict[str, str], shared: str) -> str:
    """A text with declarations of the functions of other parts to which it refers."""
    others = [name for name in dict.fromkeys(REFERENCE.findall(text)) if name in declarations.keys() - own]
    return "\n".join([text, *[declarations[name] for name in others], shared]) + "\n"
