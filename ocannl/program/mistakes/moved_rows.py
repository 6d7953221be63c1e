"""The warning about `...` that is meant to move from one row to another: by its place it is another row."""

from __future__ import annotations

from ocannl.dialects.shapes.spec_parser import parse_spec
from ocannl.program.location import user_location, warn_at


def warn_of_moved_rows(spec: str) -> None:
    """Warns of a spec whose result has `...` in a row where no operand has it, while it reduces that of
    another row.
    """
    parsed = parse_spec(spec)
    if (new := parsed.new_rows) and (reduced := parsed.reduced_rows):
        what = f"{spec!r} reduces the `...` of the {reduced[0]} row; that of the {new[0]} row is another one"
        way = "a row that moves has a name, as in `..r.. | a => a | ..r..`"
        warn_at(user_location(), f"{what}, which no operand has: {way}")
