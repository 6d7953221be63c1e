"""Modules and arrays of PyTorch that are no counterparts of a block: one error, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn

Array = NDArray[Any]
RNG = np.random.default_rng(1)


def random(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


# Modules of PyTorch that no block is, and those of other sizes, with the block that comes nearest.
REFUSED: dict[str, tuple[Callable[[Any], Any], Callable[[], Any], str]] = {
    "PReLU": (lambda t: t.PReLU(), lambda: nn.linear(out_dim=5), "missing: bias"),
    "Bilinear": (lambda t: t.Bilinear(8, 8, 5), lambda: nn.linear(out_dim=5), r"\(5, 8, 8\) given"),
    "LSTMCell": (lambda t: t.LSTMCell(8, 5), lambda: nn.lstm(5), "not in the block: weight_ih\n"),
    "LSTM for GRU": (
        lambda t: t.LSTM(8, 5),
        lambda: nn.gru(5),
        r"not its: weight_ih_l0 \(20, 8\), weight_hh",
    ),
    "GRU for LSTM": (
        lambda t: t.GRU(8, 5),
        lambda: nn.lstm(5),
        r"not its: weight_ih_l0 \(15, 8\), weight_hh",
    ),
    "no bias": (lambda t: t.LSTM(8, 5, bias=False), lambda: nn.lstm(5), "missing: bias_ih_l0"),
    "no offset": (lambda t: t.LayerNorm(8, bias=False), nn.layer_norm, "missing: bias"),
    "no statistics": (
        lambda t: t.BatchNorm1d(8, track_running_stats=False),
        nn.batch_norm1d,
        "missing: running_mean\n  missing: running_var",
    ),
    "keys with biases": (
        lambda t: t.MultiheadAttention(8, 2, add_bias_kv=True),
        lambda: nn.multi_head_attention(num_heads=2, d_k=4, d_v=4, out_dim=8, bias=True),
        "not in the block: bias_k",
    ),
    "fewer heads of keys": (
        lambda t: t.MultiheadAttention(8, 4),
        lambda: nn.multi_head_attention(num_heads=4, d_k=2, d_v=2, out_dim=8, bias=True, num_kv_heads=2),
        r"w_k: 8->2,2 in the block, \(4, 2, 8\) given",
    ),
    "normalized weights": (
        lambda t: t.utils.parametrizations.weight_norm(t.Linear(8, 5)),
        lambda: nn.linear(out_dim=5),
        r"not in the block: parametrizations.weight.original0(.|\n)*hint: nn.weight_norm\(block\) and",
    ),
    "into normalized weights": (
        lambda t: t.Linear(8, 5),
        lambda: nn.weight_norm(nn.linear(out_dim=5)),
        "missing: parametrizations.weight.original1",
    ),
    "norms of columns": (
        lambda t: t.utils.parametrizations.weight_norm(t.Linear(8, 8), dim=1),
        lambda: nn.weight_norm(nn.linear(out_dim=8)),
        r"arrays of these shapes are not its: .*original0 \(1, 8\)",
    ),
    "into computed weights": (
        lambda t: t.Linear(8, 5),
        lambda: nn.linear(out_dim=5).replace("w", 2.0 * nn.linear(out_dim=5).w),
        "w: it is computed from other parameters",
    ),
    "integers": (
        lambda t: t.Linear(8, 5),
        lambda: nn.linear(out_dim=5),
        "of floats, an array of int64 given",
    ),
    "complex": (
        lambda t: t.Linear(8, 5, dtype=__import__("torch").complex64),
        lambda: nn.linear(out_dim=5),
        "w: it is of floats, an array of complex64 given",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_counterpart_is_refused(name: str):
    torch = pytest.importorskip("torch")
    make, block_of, message = REFUSED[name]
    block, ctx, state = block_of(), oc.Context.cpu(), make(torch.nn).state_dict()
    if name == "integers":
        state = {key: tensor.to(torch.int64) for key, tensor in state.items()}
    y = block(oc.data(random(2, 3, 8)))
    ctx.init_params(y[0] if isinstance(y, tuple) else y)
    before = {key: ctx[entry] for key, entry in oc.state(block).items()}
    with pytest.raises(oc.StateError, match=message):
        oc.interop.from_torch(ctx, block, state)
    for key, entry in oc.state(block).items():
        np.testing.assert_array_equal(ctx[entry], before[key])


ODD: list[tuple[Callable[[], Any], dict[str, tuple[int, ...]]]] = [
    (lambda: nn.conv2d(out_channels=4, bias=False), {"weight": ()}),
    (lambda: nn.conv_transpose2d(out_channels=4, groups=2, bias=False), {"weight": (3, 2, 3, 3)}),
    (
        lambda: nn.multi_head_attention(num_heads=2, d_k=4, d_v=4, out_dim=8),
        {"in_proj_weight": (23, 8), "out_proj.weight": (8, 8)},
    ),
    (
        lambda: nn.multi_head_attention(num_heads=2, d_k=4, d_v=4, out_dim=8),
        {"in_proj_weight": (24,), "out_proj.weight": (8,)},
    ),
    (
        lambda: nn.rnn(5),
        {"weight_ih_l0": (5, 8), "weight_hh_l0": (5, 5), "bias_ih_l0": (5,), "bias_hh_l0": (4,)},
    ),
]


@pytest.mark.parametrize("number", range(len(ODD)))
def test_arrays_that_cannot_be_divided_are_refused(number: int):
    make, shapes = ODD[number]
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(oc.StateError, match="the block: arrays of these shapes are not its: "):
        oc.interop.from_torch(oc.Context.cpu(), make(), arrays)
