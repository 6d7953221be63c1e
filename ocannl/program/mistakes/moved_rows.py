"""The warning about `...` that is meant to move from one row to another: by its place it is another row."""

from __future__ import annotations

from functools import lru_cache

from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.program.location import user_location, warn_at


def warn_of_moved_rows(spec: str) -> None:
    """Warns of a spec whose result has `...` in a row where no operand has it, while it reduces that of
    another row.
    """
    if (message := _message(spec)) is not None:
        warn_at(user_location(), message)


@lru_cache(maxsize=1024)
def _message(spec: str) -> str | None:
    parsed = parse_spec(spec)
    if not (parsed.new_rows and parsed.reduced_rows):
        return None
    reduced, new = parsed.reduced_rows[0], parsed.new_rows[0]
    what = f"reduces the `...` of the {reduced} row; that of the {new} row is another"
    way = "a row that moves has a name, as in `..r.. | a => a | ..r..`"
    return f"{spec!r} {what} one, which no operand has: {way}"
