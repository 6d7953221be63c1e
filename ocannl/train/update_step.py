"""The update of one parameter in a step of an optimizer, as its rule sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import DTypeLike

import ocannl as oc


@dataclass(frozen=True)
class UpdateStep:
    """A parameter `p`, its `gradient`, and the learning rate `lr`."""

    p: oc.Tensor
    gradient: oc.Tensor
    lr: oc.TensorLike
    node: Callable[[str, float | None], oc.Tensor]
    """Memory of the parameter by name, as an initial value says; zero for None."""
    number: Callable[[str, float | None, DTypeLike | None], oc.Tensor]
    """One number of the parameter by name, of a dtype, or one that is inferred."""
    temporary: Callable[[str], oc.Tensor]
    """Memory of the parameter by name that is set before it is read."""
    count: Callable[[oc.Tensor], oc.Tensor]
    """Which step of a parameter this is, from 1 on."""
    once: Callable[..., Any]
    """The result of a function of further arguments, which is called once for all parameters."""

    @property
    def steps(self) -> oc.Tensor:
        """Which step of the parameter this is, from 1 on."""
        return self.count(self.p)

    def shared(self, make: Callable[..., Any], *of: Any) -> Any:
        """The result of a function of `steps` and further arguments, which is called once for all parameters
        that share their count.
        """
        return self.once(make, self.steps, *of)

    def memory(self, name: str) -> oc.Tensor:
        """Memory of the parameter that starts at zero."""
        return self.node(name, None)

    def decayed(self, weight_decay: float) -> oc.Tensor:
        """The gradient with that of the squares of weights."""
        return self.gradient + weight_decay * self.p if weight_decay else self.gradient


Rule: TypeAlias = Callable[..., Any]
"""Emits the code of an `UpdateStep`, with the optimizer's options as keywords."""
