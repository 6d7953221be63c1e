"""Programs that call what arrays have in NumPy: parts, creation, reductions, sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.targets.functions import Values, computed, number, random

import ocannl as oc


def parts(ctx: oc.Context, dtype: Any) -> Values:
    """Slices with all signs of steps, ids and masks, and their gradients."""
    x = oc.data(random(dtype, 9, 5, 17), label="x")
    with ctx:
        assert oc.default_context() is ctx
        keys: list[Any] = [3, (..., slice(None, None, -2)), (slice(2, 7, 3), -1), [0, 8, -3], x.numpy() > 0.5]
    found: dict[str, oc.Tensor] = {}
    for n, key in enumerate(keys):
        found[f"part {n}"] = x[key]
        found[f"part {n} grad"] = oc.grad(number(x[key]), x)
    found["ids"] = x[:, oc.data(np.array([4, 0, 4]), label="ids")]
    return computed(ctx, found)


ARRAY_PROGRAMS = {"parts": parts}
