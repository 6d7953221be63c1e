"""The warning for a transpose that changes nothing."""

from __future__ import annotations

from string import ascii_lowercase

from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program.indexing.new_axes import known_rows
from ocannl.program.location import user_location, warn_at
from ocannl.program.types.final_types import shape_now
from ocannl.program.values import Value


def warn_of_batch_axes(value: Value) -> None:
    """Warns where a matrix whose axes are both in the batch row is transposed by `.T`, as in NumPy."""
    rows = known_rows(value)
    if len(rows) > 1 and set(rows) == {"batch"}:
        names = ascii_lowercase[: len(rows)]
        way = f"oc.rearrange(t, '{' '.join(names)} -> {' '.join(reversed(names))}', axes='{'b' * len(rows)}')"
        warn_at(
            user_location(),
            f"`{tensor_name(value)}` ({shape_now(value)}) has batch axes only: `.T` swaps the output and the "
            f"input row, and changes nothing; {way} is NumPy's transpose",
        )
