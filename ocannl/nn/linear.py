"""The linear layer."""

from __future__ import annotations

import ocannl as oc
from ocannl.nn.layer import Init, Layer
from ocannl.program.tensor_functions.remembered import remembered


@oc.configurable
def linear(
    *,
    in_dim: oc.RowSizes | None = None,
    out_dim: oc.RowSizes | None = None,
    bias: bool = True,
    init: Init = None,
    label: str = "linear",
) -> Layer:
    """`w @ x + b`: batch | in_dim -> batch | out_dim, with parameters `label.w`: in_dim -> out_dim and
    `label.b`: out_dim.

    The rows `in_dim` and `out_dim` may have any number of axes; one that is not given is inferred from its
    use. `init` is the initial value of `w`.
    """
    with oc.scope(label):
        w = oc.param("w", init, input=in_dim, output=out_dim)
        b = oc.param("b", 0.0, input=None if in_dim is None else [], output=out_dim) if bias else 0.0
    return remembered(lambda x: w @ x + b if bias else w @ x)
