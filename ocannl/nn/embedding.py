"""Vectors for integer ids."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import Layer


def embedding(*, num: int, dim: oc.RowSizes | None = None, label: str = "embedding") -> Layer:
    """A vector for each of `num` ids: batch | -> batch | dim, with the parameter `label.w`: num -> dim.

    Ids are integers with an empty output row. One outside 0..num-1 gives zeros.
    """
    with oc.scope(label):
        w = oc.param("w", oc.init.normal(), input=num, output=dim)
    return lambda ids: w @ oc.one_hot(ids, num)
