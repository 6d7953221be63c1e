"""tinygrad's `Tensor`, its methods said in OCANNL, for its tests of operators.

A tensor has its last axis in the output row, and the others in the batch row.
"""

from __future__ import annotations

from support.peers.tinygrad.along_axes import AlongAxes
from support.peers.tinygrad.losses import Losses
from support.peers.tinygrad.pointwise import Pointwise
from support.peers.tinygrad.products import Products
from support.peers.tinygrad.reductions import Reductions
from support.peers.tinygrad.shapes import Shapes
from support.peers.tinygrad.windows import Windows


class Tensor(Pointwise, Reductions, AlongAxes, Shapes, Products, Windows, Losses):
    """All of the methods."""
