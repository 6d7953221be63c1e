"""Comments of C text: the lines of the user's program that something comes from."""

from __future__ import annotations

import linecache
from pathlib import PurePath

from xdsl.ir import Operation

from ocannl.dialects.ir.origins import at, origins


def user_lines(step: Operation) -> list[str]:
    """The comments with the lines that a step comes from, each once, in the order of its operations."""
    places = (at(origin) for op in step.walk() for origin in origins(op.location))
    found = dict.fromkeys((place.filename.data, place.line.data) for place in places if place is not None)
    return [comment(f"{PurePath(file).name}:{line}: {linecache.getline(file, line)}") for file, line in found]


def comment(text: str) -> str:
    """Text as one line of a comment, which ends in nothing that would go on in the next one."""
    return f"// {' '.join(text.split())}".rstrip(" \\")
