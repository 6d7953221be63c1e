"""Gated recurrent units (Cho et al., 2014)."""

from __future__ import annotations

from collections.abc import Sequence

import ocannl as oc
from ocannl.nn.layer import Init
from ocannl.nn.sequences.recurrent import Recurrence, RecurrentLayer, State, recurrent, scanned


@oc.configurable
def gru(
    hid_dim: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    bias: bool = True,
    dropout_rate: float = 0.0,
    init: Init = None,
    label: str = "gru",
) -> RecurrentLayer:
    """GRU layers, as PyTorch has them: batch, position | features -> batch, position | hid_dim. See
    `nn.RecurrentLayer` for the arguments of a call; a state is `(h,)`.

    The parameters `label.w_x`: features -> 3, hid_dim, `label.w_h`: hid_dim -> 3, hid_dim and `label.b`: 3,
    hid_dim have the reset gate, the update gate and the new state along their axis of 3; `label.b_h`: hid_dim
    is added to the state's part of the new state, inside of the reset gate. Of several `layers` or, if
    `bidirectional`, directions each has its own, `label.w_x_l1_reverse`. There are no `b` and `b_h` without a
    `bias`. `init` is the initial value of the weights, `dropout_rate` that between layers.
    """
    with oc.scope(label):
        return recurrent(
            lambda suffix: _gru(hid_dim, bias, init, suffix), 1, layers, bidirectional, dropout_rate, label
        )


def _gru(hid_dim: int, bias: bool, init: Init, suffix: str) -> Recurrence:
    w_x = oc.param(f"w_x{suffix}", init, output=[3, hid_dim])
    w_h = oc.param(f"w_h{suffix}", init, input=hid_dim, output=[3, hid_dim])
    b = oc.param(f"b{suffix}", 0.0, output=[3, hid_dim]) if bias else 0.0
    b_h = oc.param(f"b_h{suffix}", 0.0, output=hid_dim) if bias else 0.0

    def step(inputs: oc.Tensor, state: State) -> State:
        (h,) = state
        own = w_h @ h
        (x_reset, x_update, x_new), (reset, update, new) = (
            [oc.einsum(f"..., | {k}, h => ... | h", sums) for k in range(3)] for sums in (inputs, own)
        )
        keep = oc.sigmoid(x_update + update)
        candidate = oc.tanh(x_new + oc.sigmoid(x_reset + reset) * (new + b_h))
        return (candidate + keep * (h - candidate),)

    def run(
        x: oc.Tensor, begin: Sequence[oc.TensorLike], real: oc.Tensor | None, *, reverse: bool
    ) -> tuple[oc.Tensor, State]:
        return scanned(step, w_x @ x + b, begin, real, reverse)

    return run
