"""The types of configured blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from numpy.typing import ArrayLike

import ocannl as oc

Layer: TypeAlias = Callable[[oc.Tensor], oc.Tensor]

Init: TypeAlias = float | ArrayLike | oc.init.Initializer | oc.Tensor | None
"""The initial value of weights, as `oc.param` takes it; None is its default."""


class TrainingLayer(Protocol):
    """A function of a tensor that differs in training: it is in training mode if there is a `train_step`."""

    def __call__(self, x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor: ...


class MaskedLayer(Protocol):
    """A function of sequences, in training mode if there is a `train_step`. The mask is 0 where a position
    may not attend to another.
    """

    def __call__(
        self, x: oc.Tensor, mask: oc.Tensor | None = None, train_step: oc.TensorLike | None = None
    ) -> oc.Tensor: ...


class PositionalLayer(Protocol):
    """A function of queries or keys at positions, batch, position | ; without them those are 0, 1, 2, ..."""

    def __call__(self, x: oc.Tensor, positions: oc.Tensor | None = None) -> oc.Tensor: ...
