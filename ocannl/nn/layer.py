"""What blocks are, once they are configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import ocannl as oc

Layer: TypeAlias = Callable[[oc.Tensor], oc.Tensor]


class TrainingLayer(Protocol):
    """A block that is trained where it is given a `train_step`, and used where it is not."""

    def __call__(self, x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor: ...


class MaskedLayer(Protocol):
    """A block over sequences, trained where it is given a `train_step`; the mask is not 0 where a position
    may look at another.
    """

    def __call__(
        self,
        x: oc.Tensor,
        mask: oc.Tensor | None = None,
        train_step: oc.TensorLike | None = None,
    ) -> oc.Tensor: ...
