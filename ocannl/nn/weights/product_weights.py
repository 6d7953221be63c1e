"""Weights in place of parameters of which only products are taken."""

from __future__ import annotations

import ocannl as oc

PRODUCTS = {
    "ocannl.nn.mlp",
    "ocannl.nn.transformers.attention",
    *(f"ocannl.nn.sequences.{name}" for name in ("lstm", "gru", "rnn", "recurrent", "selective_ssm")),
}
"""Modules whose functions take only products `w @ x` of parameters with input axes."""


class ProductWeights(oc.Block[[oc.Tensor], oc.Tensor]):
    """A function of `x` in place of a parameter `w`, of which only products `w @ x` are taken."""

    def __matmul__(self, x: oc.Tensor) -> oc.Tensor:
        return self(x)

    def freeze(self) -> ProductWeights:
        """The same without gradients."""
        return ProductWeights(super().freeze().function, self.configuration, frozen=True)
