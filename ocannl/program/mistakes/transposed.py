"""The warning for a transpose that changes nothing."""

from __future__ import annotations

from string import ascii_lowercase

from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program import graph
from ocannl.program.location import user_location, warn_at
from ocannl.program.values import Value


def warn_of_batch_axes(value: Value) -> None:
    """Warns where a matrix whose axes are both in the batch row is transposed by `.T`, as in NumPy. Open
    shapes may have other axes; nothing is inferred for the warning.
    """
    shape = graph.known_shape(value)
    count = len(shape.batch.axes)
    if count > 1 and not shape.output.axes and not shape.input.axes and shape.is_final:
        names = ascii_lowercase[:count]
        way = f"oc.rearrange(t, '{' '.join(names)} -> {' '.join(reversed(names))}', axes='{'b' * count}')"
        warn_at(
            user_location(),
            f"`{tensor_name(value)}` ({shape}) has batch axes only: `.T` swaps the output and the input row, "
            f"and changes nothing; {way} is NumPy's transpose",
        )
