"""The update of one parameter in a step of an optimizer, as its rule sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import DTypeLike

import ocannl as oc


@dataclass(frozen=True)
class UpdateStep:
    """A parameter `p`, its `gradient`, and the learning rate `lr` in step number `steps`, counted from 1."""

    p: oc.Tensor
    gradient: oc.Tensor
    lr: oc.TensorLike
    steps: oc.Tensor
    node: Callable[[str, float | None], oc.Tensor]
    """Memory of the parameter by name, as an initial value says; zero for None."""
    number: Callable[[str, float | None, DTypeLike | None], oc.Tensor]
    """One number of the parameter by name, of a dtype, or one that is inferred."""
    temporary: Callable[[str], oc.Tensor]
    """Memory of the parameter by name that is set before it is read."""
    shared: Callable[..., Any]
    """The result of a function of `steps` and further arguments, which is called once for all parameters."""

    def memory(self, name: str) -> oc.Tensor:
        """Memory of the parameter that starts at zero."""
        return self.node(name, None)

    def decayed(self, weight_decay: float) -> oc.Tensor:
        """The gradient with that of the squares of weights."""
        return self.gradient + weight_decay * self.p if weight_decay else self.gradient


Rule: TypeAlias = Callable[..., Any]
"""Emits the code of an `UpdateStep`, with the optimizer's options as keywords."""
