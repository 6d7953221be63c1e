"""Dropout (Srivastava et al., 2014)."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import TrainingLayer
from ocannl.program.location import user_location, warn_at
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.tracing.retracing import is_tracing

ALWAYS_THE_SAME = (
    "with train_step={}, dropout sets the same elements to 0 in every call of this function\n"
    "  hint: give a number that changes, an argument of the function or memory that counts, "
    "n = oc.node('n', 0, output=[]), by n[...] += 1; or None, which drops nothing"
)


@oc.configurable
def dropout(rate: float = 0.1, *, label: str = "dropout") -> TrainingLayer:
    """Sets each element to 0 with probability `rate`, and divides the others by `1 - rate`; the shape is
    kept.

    Each application has random numbers of its own, which change with `train_step`. Without a `train_step`,
    and with rate 0, the result is `x` itself. Warns in an `oc.function` of a `train_step` that is a number,
    which is the same in every call. Raises `ArgumentError` for a rate outside [0, 1).
    """
    if not 0 <= rate < 1:
        raise oc.ArgumentError(f"a dropout rate is at least 0 and less than 1, found {rate!r}")
    keep = 1 - rate

    def apply(x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor:
        if train_step is None or rate == 0:
            return x
        if isinstance(train_step, int) and is_tracing():
            warn_at(user_location(), ALWAYS_THE_SAME.format(train_step))
        return _dropped(x, oc.uniform(train_step, like=x, label=label), keep)

    return apply


@remembered
def _dropped(x: oc.Tensor, unit: oc.Tensor, keep: float) -> oc.Tensor:
    return x * oc.where(unit < keep, 1 / keep, 0.0)
