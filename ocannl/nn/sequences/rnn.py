"""Simple recurrent layers (Elman, 1990)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ocannl as oc
from ocannl.nn.layer import Init
from ocannl.nn.sequences.recurrent import Recurrence, RecurrentLayer, State, recurrent, scanned

Activation = Callable[[oc.TensorLike], oc.Tensor]


@oc.configurable
def rnn(
    hid_dim: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    bias: bool = True,
    activation: Activation = oc.tanh,
    dropout_rate: float = 0.0,
    init: Init = None,
    label: str = "rnn",
) -> RecurrentLayer:
    """Recurrent layers `h = activation(w_x @ x + w_h @ h + b)`: batch, position | features -> batch,
    position | hid_dim. See `nn.RecurrentLayer` for the arguments of a call; a state is `(h,)`.

    The parameters are `label.w_x`: features -> hid_dim, `label.w_h`: hid_dim -> hid_dim and `label.b`:
    hid_dim. Of several `layers` or, if `bidirectional`, directions each has its own, `label.w_x_l1_reverse`.
    There is no `b` without a `bias`. `init` is the initial value of the weights,
    `dropout_rate` that between layers.
    """
    with oc.scope(label):
        return recurrent(
            lambda suffix: _rnn(hid_dim, bias, activation, init, suffix),
            1,
            layers,
            bidirectional,
            dropout_rate,
            label,
        )


def _rnn(hid_dim: int, bias: bool, activation: Activation, init: Init, suffix: str) -> Recurrence:
    w_x = oc.param(f"w_x{suffix}", init, output=hid_dim)
    w_h = oc.param(f"w_h{suffix}", init, input=hid_dim, output=hid_dim)
    b = oc.param(f"b{suffix}", 0.0, output=hid_dim) if bias else 0.0

    def step(inputs: oc.Tensor, state: State) -> State:
        return (activation(inputs + w_h @ state[0]),)

    def run(
        x: oc.Tensor, begin: Sequence[oc.TensorLike], real: oc.Tensor | None, *, reverse: bool
    ) -> tuple[oc.Tensor, State]:
        return scanned(step, w_x @ x + b, begin, real, reverse)

    return run
