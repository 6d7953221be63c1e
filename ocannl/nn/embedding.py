"""Vectors for integer ids."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import Layer


def embedding(*, num: int, dim: oc.RowSizes | None = None, label: str = "embedding") -> Layer:
    """A vector for each of `num` ids: batch | -> batch | dim, with the parameter `label.w`: dim -> num.

    Ids are integers with an empty output row. One outside 0..num-1 gives zeros. In memory each vector is one
    row of `label.w`; `w @ hidden` are scores for all ids.
    """
    with oc.scope(label):
        w = oc.param("w", oc.init.normal(), input=dim, output=num)
    return lambda ids: oc.gather("..dim.. -> v; ... | => ... | ..dim..", w, ids, at="v")
