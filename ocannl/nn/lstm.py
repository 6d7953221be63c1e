"""Long short-term memory (Hochreiter and Schmidhuber, 1997)."""

from __future__ import annotations

from types import EllipsisType

import ocannl as oc
from ocannl.nn.layer import Init, Layer


@oc.configurable
def lstm(hid_dim: int, *, init: Init = None, label: str = "lstm") -> Layer:
    """One LSTM layer, whose states start at zero: batch, position | features -> batch, position | hid_dim.

    The parameters `label.w_x`: features -> 4, hid_dim, `label.w_h`: hid_dim -> 4, hid_dim and `label.b`: 4,
    hid_dim have the input, forget, cell and output gate along their axis of 4. The positions are unrolled, so
    their number has to be known: `ShapeError` if it is not, `ArgumentError` if it is 0. `init` is the initial
    value of `w_x` and `w_h`.
    """
    with oc.scope(label):
        w_x = oc.param("w_x", init, output=[4, hid_dim])
        w_h = oc.param("w_h", init, input=hid_dim, output=[4, hid_dim])
        b = oc.param("b", 0.0, output=[4, hid_dim])

    def step(inputs: oc.Tensor, h: oc.Tensor, c: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        sums = inputs + w_h @ h
        take_in, keep, new, give_out = (oc.einsum(f"..., | {k}, h => ... | h", sums) for k in range(4))
        c = oc.sigmoid(keep) * c + oc.sigmoid(take_in) * oc.tanh(new)
        return oc.sigmoid(give_out) * oc.tanh(c), c

    def apply(x: oc.Tensor) -> oc.Tensor:
        inputs = w_x @ x + b
        h = c = oc.constant(0.0)
        states: list[oc.Tensor] = []
        for t in range(_length(x)):
            h, c = step(oc.einsum(f"..., {t} | gate, h => ... | gate, h", inputs), h, c)
            states.append(h)
        return oc.einsum("t ... | h => ... t | h", oc.stack(states, axis="batch")).named(label)

    return apply


def _length(x: oc.Tensor) -> int:
    position = x.shape.batch[-1] if x.shape.batch else ...
    if isinstance(position, EllipsisType):
        raise oc.ShapeError(f"an LSTM unrolls its positions: the last batch axis of {x} has to be known")
    if not position:
        raise oc.ArgumentError(f"an LSTM has a state after each position, and {x} has none")
    return int(position)
