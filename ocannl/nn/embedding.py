"""Vectors for integer ids."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import Init, Layer
from ocannl.nn.pairing import check_ids
from ocannl.program.tensor_functions.remembered import remembered


@oc.configurable
def embedding(
    *, num: int, dim: oc.RowSizes | None = None, init: Init = None, label: str = "embedding"
) -> Layer:
    """A vector for each of `num` ids: batch | -> batch | dim, with the parameter `label.w`: dim -> num.

    Ids are integers with an empty output row. One outside 0..num-1 is an error. In memory each vector is one
    row of `label.w`; `w @ hidden` are scores for all ids. `init` is the initial value of `w`, by default
    normal.
    """
    with oc.scope(label):
        w = oc.param("w", oc.init.normal() if init is None else init, input=dim, output=num)

    @remembered
    def apply(ids: oc.Tensor) -> oc.Tensor:
        check_ids(ids, "an embedding")
        return oc.gather("..dim.. -> v; ... | => ... | ..dim..", w, ids, at="v")

    return apply
