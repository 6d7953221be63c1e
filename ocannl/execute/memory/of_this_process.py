"""Things that are in the memory of one process."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from ocannl.program.arguments.errors import ArgumentError


class OfThisProcess:
    """A thing that is neither copied nor pickled."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ArgumentError(
            f"a {type(self).__name__.lower()} is neither copied nor pickled, as its memory is that of this "
            "process: `ctx.save(path, model)` and `ctx.load` keep values, and another process compiles anew"
        )
