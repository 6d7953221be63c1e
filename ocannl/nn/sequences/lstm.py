"""Long short-term memory (Hochreiter and Schmidhuber, 1997)."""

from __future__ import annotations

from collections.abc import Sequence

import ocannl as oc
from ocannl.nn.layer import Init
from ocannl.nn.sequences.recurrent import Recurrence, RecurrentLayer, State, recurrent, scanned


@oc.configurable
def lstm(
    hid_dim: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    proj_dim: int | None = None,
    bias: bool = True,
    dropout_rate: float = 0.0,
    init: Init = None,
    label: str = "lstm",
) -> RecurrentLayer:
    """LSTM layers: batch, position | features -> batch, position | hid_dim. See `nn.RecurrentLayer` for the
    arguments of a call; a state is `(h, c)`.

    The parameters `label.w_x`: features -> 4, hid_dim, `label.w_h`: hid_dim -> 4, hid_dim and `label.b`: 4,
    hid_dim have the input, forget, cell and output gate along their axis of 4. With `proj_dim`, `label.w_p`:
    hid_dim -> proj_dim projects the states (Sak et al., 2014). Of several `layers` or, if `bidirectional`,
    directions each has its own, `label.w_x_l1_reverse`. There is no `b` without a `bias`. `init` is the
    initial value of the weights, `dropout_rate` that between layers.
    """
    with oc.scope(label):
        return recurrent(
            lambda suffix: _lstm(hid_dim, proj_dim, bias, init, suffix),
            2,
            layers,
            bidirectional,
            dropout_rate,
            label,
        )


def _lstm(hid_dim: int, proj_dim: int | None, bias: bool, init: Init, suffix: str) -> Recurrence:
    w_x = oc.param(f"w_x{suffix}", init, output=[4, hid_dim])
    w_h = oc.param(f"w_h{suffix}", init, input=proj_dim or hid_dim, output=[4, hid_dim])
    b = oc.param(f"b{suffix}", 0.0, output=[4, hid_dim]) if bias else 0.0
    w_p = None if proj_dim is None else oc.param(f"w_p{suffix}", init, input=hid_dim, output=proj_dim)

    def step(inputs: oc.Tensor, state: State) -> State:
        h, c = state
        sums = inputs + w_h @ h
        take_in, keep, new, give_out = (oc.einsum(f"..., | {k}, h => ... | h", sums) for k in range(4))
        c = oc.sigmoid(keep) * c + oc.sigmoid(take_in) * oc.tanh(new)
        h = oc.sigmoid(give_out) * oc.tanh(c)
        return (h if w_p is None else w_p @ h), c

    def run(
        x: oc.Tensor, begin: Sequence[oc.TensorLike], real: oc.Tensor | None, *, reverse: bool
    ) -> tuple[oc.Tensor, State]:
        return scanned(step, w_x @ x + b, begin, real, reverse)

    return run
