"""Blocks of neural networks: configured by keywords, then applied."""

from ocannl.nn.mlp import mlp, mlp_layer

__all__ = ["mlp", "mlp_layer"]
