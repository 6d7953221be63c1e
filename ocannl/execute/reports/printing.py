"""Tensors as text for people: their values as tables, and the expressions that they are."""

from __future__ import annotations

import builtins

import numpy as np

from ocannl.execute.context import Context, default_context
from ocannl.execute.reports.expression_tree import tree_text
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.tensor import TensorLike, as_tensor
from ocannl.program.text.number_tables import NumberTable, line_of
from ocannl.program.types.final_types import known_types, shape_now

STYLES = ("grid", "inline", "label", "tree")


def print(
    t: TensorLike,
    *,
    style: str = "grid",
    ctx: Context | None = None,
    digits: int = 4,
    most: int = 8,
    depth: int = 20,
) -> None:
    """Prints a tensor: its name, shape and element type, and by `style`

    - "grid": its value as tables; across is the last axis in the order of memory (batch, output, input), down
      the one before, and the axes before that are nested,
    - "inline": its value on the same line,
    - "label": no value,
    - "tree": under it what it is computed from, down to a `depth`, with the values that there are, and the
      gradients that have been computed. Where an expression occurs again, it is named only.

    Values are those of `ctx[t]`, by default in `oc.default_context()`, with so many significant `digits`; of
    an axis with more than `most` positions, both ends are shown. Nothing is changed or decided by it.

    Raises `UninitializedError` where "grid" and "inline" have no value to show.
    """
    if style not in STYLES:
        raise ArgumentError(f"a tensor is printed as {', '.join(STYLES)}, found {style!r}")
    tensor = as_tensor(t)
    digits, most = integer(digits, "digits", 1), integer(most, "most", 2)
    if style == "tree":
        context = ctx or default_context()
        builtins.print(tree_text(tensor.ir_value, integer(depth, "depth"), context, digits))
        return
    shape, element = known_types([tensor.ir_value])[tensor.ir_value]
    heading = f"{tensor.label}: {shape}, {element}"
    if style == "label":
        builtins.print(heading)
        return
    array = np.asarray(tensor.numpy() if ctx is None else ctx[tensor])
    if style == "inline" or not array.ndim:
        builtins.print(f"{heading} = {line_of(array, digits, most)}")
    else:
        builtins.print(
            heading, NumberTable.of(array, shape_now(tensor.ir_value), digits, most).text, sep="\n"
        )
