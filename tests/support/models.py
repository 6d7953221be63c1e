"""Small models that devices run."""

from __future__ import annotations

import numpy as np

import ocannl as oc
from ocannl import nn


def two_layers() -> oc.Tensor:
    """Two contractions, with an intermediate value in the arena and a static index."""
    i = oc.index("i", 3)
    x = oc.data(np.arange(3 * 40 * 20, dtype=np.float32).reshape(3, 40, 20) / 1e3, axes="bbo", label="x")
    return nn.mlp(hid_dims=[32], out_dim=24)(x[i])
