"""Parameters that are kept in one float and used in another."""

from __future__ import annotations

from ocannl.program.tensor import Tensor
from ocannl.program.values import kept_parameter


def as_kept(tensor: Tensor) -> Tensor:
    """A tensor, in place of a parameter as products see it, in a narrower float, the one that is kept.
    Anything else that was given for a tensor stays as it is.
    """
    kept = kept_parameter(tensor.ir_value) if isinstance(tensor, Tensor) else None
    return tensor if kept is None else Tensor(kept)
