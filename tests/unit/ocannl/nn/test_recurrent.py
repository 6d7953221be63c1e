"""Recurrent layers against PyTorch's: layers, directions, projections, states, lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.nn.check import Case, check_all
from support.nn.recurrent import CASES as LAYERS

import ocannl as oc
from ocannl import interop, nn

B, T, N, H = 2, 4, 3, 5

CASES: dict[str, tuple[Callable[..., Any], str, dict[str, Any], dict[str, Any]]] = {
    "rnn": (nn.rnn, "RNN", {}, {}),
    "rnn of relu": (
        nn.rnn,
        "RNN",
        {"activation": oc.relu, "layers": 2, "bias": False},
        {"nonlinearity": "relu", "num_layers": 2, "bias": False},
    ),
    "gru": (nn.gru, "GRU", {}, {}),
    "gru of two directions": (
        nn.gru,
        "GRU",
        {"bidirectional": True, "bias": False},
        {"bidirectional": True, "bias": False},
    ),
    "lstm of two layers and directions": (
        nn.lstm,
        "LSTM",
        {"layers": 2, "bidirectional": True},
        {"num_layers": 2, "bidirectional": True},
    ),
    "projected lstm": (nn.lstm, "LSTM", {"proj_dim": 2, "bias": False}, {"proj_size": 2, "bias": False}),
}


@pytest.mark.parametrize(("name", "packed"), [(name, number % 2 == 1) for number, name in enumerate(CASES)])
def test_against_torch(name: str, packed: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    make, kind, ours, theirs = CASES[name]
    torch.manual_seed(3)
    module = getattr(torch.nn, kind)(N, H, batch_first=True, dtype=torch.float64, **theirs)
    array = np.random.default_rng(4).normal(size=(B, T, N))
    x, lengths = oc.data(array, label="x"), oc.data(np.array([T - 1, 2]), axes="b")
    real = [T - 1, 2] if packed else None
    begin = [[rows.numpy() for rows in part] for part in zip(*_begin(torch, module, kind), strict=True)]
    block, ctx = make(H, **ours), oc.Context()
    states = [tuple(oc.data(array) for array in state) for state in begin]
    ys, last = block(x, states, lengths=lengths if packed else None, states=True)
    interop.from_torch(ctx, block, module.state_dict())
    given = torch.tensor(array, requires_grad=True)
    wanted, wanted_last = _run(torch, module, given, _begin(torch, module, kind), real)
    loss = oc.sum(ys * ys) + sum((oc.sum(oc.sin(s)) for state in last for s in state), oc.constant(0.0))
    gradient = oc.grad(loss, x)
    flat = [s for state in last for s in state]
    ctx.compile(sum((t.forward for t in (ys, gradient, *flat)), oc.Code()))()
    tensors = wanted_last if isinstance(wanted_last, tuple) else (wanted_last,)
    total = (wanted * wanted).sum() + sum(t.sin().sum() for t in tensors)
    total.backward()
    np.testing.assert_allclose(ctx[ys], wanted.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(ctx[gradient], given.grad.numpy(), atol=1e-12)
    for place, state in enumerate(last):
        for own, other in zip(state, tensors, strict=True):
            np.testing.assert_allclose(ctx[own], other[place].detach().numpy(), atol=1e-12)
    back = interop.to_torch(ctx, block)
    assert back.keys() == module.state_dict().keys()
    again = getattr(torch.nn, kind)(N, H, batch_first=True, dtype=torch.float64, **theirs)
    again.load_state_dict(back)
    repeated, _ = _run(torch, again, given, _begin(torch, module, kind), real)
    np.testing.assert_allclose(repeated.detach().numpy(), wanted.detach().numpy(), atol=1e-12)


def _begin(torch: Any, module: Any, kind: str) -> tuple[Any, ...]:
    """A state to begin with, as PyTorch takes it: one tensor for all layers and directions."""
    count = module.num_layers * (2 if module.bidirectional else 1)
    sizes = [module.proj_size or H, H] if kind == "LSTM" else [H]
    return tuple(
        torch.linspace(-1, 1, count * B * n, dtype=torch.float64).reshape(count, B, n) for n in sizes
    )


def _run(
    torch: Any, module: Any, x: Any, begin: tuple[Any, ...], lengths: list[int] | None
) -> tuple[Any, Any]:
    state: Any = begin if len(begin) > 1 else next(iter(begin))
    if lengths is None:
        return module(x, state)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    ys, last = module(packed, state)
    return torch.nn.utils.rnn.pad_packed_sequence(ys, batch_first=True, total_length=T)[0], last


def test_states_are_checked() -> None:
    x = oc.data(np.ones((2, 3, 4)))
    with pytest.raises(oc.ArgumentError, match="the number of layers is at least 1, found 0"):
        nn.lstm(3, layers=0)
    with pytest.raises(oc.ArgumentError, match=r"a list of 2 tuples of 2 tensors, found \[2\]"):
        nn.lstm(3, layers=2)(x, [(0.0, 0.0)])


def test_parameters_of_several_layers() -> None:
    block = nn.gru(3, layers=2)
    assert [*block.params] == [f"gru.{name}_l{k}" for k in range(2) for name in ("w_x", "w_h", "b", "b_h")]
    assert [*nn.rnn(3).params] == ["rnn.w_x", "rnn.w_h", "rnn.b"]


@check_all(LAYERS)
def test_gradients_of_one_layer(case: Case) -> None:
    case.check_numpy()
    case.check_torch()
