"""Eager mode: a line that is run again compiles nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.program.eager.recorder import RECORDER

RNG = np.random.default_rng(0)
X, IDS = RNG.normal(size=(10, 6)), RNG.integers(0, 5, 10)


def sum_of_an_open_parameter(x: oc.Tensor, _: oc.Tensor) -> Callable[[], Any]:
    w = oc.param("w", output=6)
    return lambda: (w * x).sum().item()


def mean_of_a_layer(x: oc.Tensor, _: oc.Tensor) -> Callable[[], Any]:
    layer = nn.linear(out_dim=5)
    return lambda: layer(x).mean().item()


def metric_of_a_layer(x: oc.Tensor, ids: oc.Tensor) -> Callable[[], Any]:
    layer = nn.linear(out_dim=5)
    return lambda: nn.accuracy(layer(x), ids).item()


def hidden_values_that_are_held(x: oc.Tensor, _: oc.Tensor) -> Callable[[], Any]:
    first, second, held = nn.linear(out_dim=4), nn.linear(out_dim=3), list[oc.Tensor]()

    def step() -> None:
        held[:] = [oc.relu(first(x))]
        scores = second(held[0])
        for value in (scores.sum(), held[0].mean(), scores.max(-1), scores.std()):
            value.numpy()

    return step


def training(x: oc.Tensor, ids: oc.Tensor) -> Callable[[], Any]:
    model, optimizer = nn.mlp(hid_dims=[4], out_dim=5), train.adam(1e-3)

    def step() -> None:
        loss = nn.cross_entropy(model(x), ids)
        optimizer.step(loss)
        loss.item()
        nn.accuracy(model(x), ids).item()

    return step


def a_loss_that_is_held_while_memory_is_written(x: oc.Tensor, _: oc.Tensor) -> Callable[[], Any]:
    w, losses = oc.param("w", np.ones(6)), list[oc.Tensor]()

    def step() -> None:
        nonlocal w
        losses.append(((w * x - 3.0) ** 2).sum())
        losses[-1].backward()
        w -= 0.1 * w.grad
        w.grad.zero()

    return step


def a_transformer(_: oc.Tensor, ids: oc.Tensor) -> Callable[[], Any]:
    embed, layers, head = nn.embedding(num=5, dim=4), nn.decoder_only(1, 1, 4, 4, 8), nn.linear(out_dim=5)
    return lambda: nn.cross_entropy(head(layers(embed(ids))), ids).item()


PROGRAMS = [
    sum_of_an_open_parameter,
    mean_of_a_layer,
    metric_of_a_layer,
    hidden_values_that_are_held,
    training,
    a_loss_that_is_held_while_memory_is_written,
    a_transformer,
]


LATER = [mean_of_a_layer, metric_of_a_layer, hidden_values_that_are_held]
"""Programs that divide by sizes which are not known before parameters have values."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_line_that_is_run_again_compiles_nothing(program: Any, compiled: list[str]):
    step = program(oc.data(X, axes="bo"), oc.data(IDS, axes="b"))
    for _ in range(2 if program in LATER else 1):
        step()
    assert compiled
    compiled.clear()
    step()
    assert compiled == []


def test_a_reduction_decides_no_shape_that_its_uses_tell():
    """Where memory lacks a size, it stays open."""
    layer, x = nn.linear(), oc.data(X, axes="bo")
    hidden = layer(x)
    mean = hidden.mean()
    scores = oc.param("w", np.ones((2, 3))) @ hidden
    assert scores.numpy().shape == (10, 2)
    assert np.isfinite(mean.item())
    assert str(layer.w.shape) == "6->3"


BLOCKS: dict[str, Callable[[], Callable[[oc.Tensor, oc.Tensor], oc.Tensor]]] = {
    "linear": lambda: of_x(nn.linear(out_dim=3)),
    "perceptron": lambda: of_x(nn.mlp(hid_dims=[4, 3], out_dim=2)),
    "encoder": lambda: of_sequences(nn.transformer_encoder(2, 1, 3, 3, 4)),
    "decoder": lambda: of_sequences(nn.decoder_only(2, 1, 3, 3, 4)),
    "decoder of a memory": lambda: of_sequences(looking_at_itself(nn.transformer_decoder(1, 1, 3, 3, 4))),
    "stack": lambda: of_x(lambda x: oc.stack([x, x], "batch")),
    "batch norm": lambda: of_x(nn.batch_norm1d()),
    "group norm": lambda: of_x(nn.group_norm(num_groups=2, spatial_axes=1)),
    "convolution": lambda: of_sequences(nn.conv1d(out_channels=2)),
    "pool": lambda: of_sequences(nn.max_pool1d()),
    "mean pool": lambda: of_sequences(nn.avg_pool1d()),
    "attention": lambda: of_sequences(nn.multi_head_attention(num_heads=2, d_k=2, d_v=2, out_dim=6)),
    "lstm": lambda: of_sequences(nn.lstm(3)),
    "layers in both directions": lambda: of_sequences(nn.gru(3, layers=2, bidirectional=True)),
    "positions": lambda: of_sequences(nn.sinusoidal_positions()),
    "embedding": lambda: of_ids(nn.embedding(num=5, dim=3)),
    "accuracy": lambda: nn.accuracy,
    "of the best": lambda: lambda x, ids: nn.top_k_accuracy(x, ids, 2),
    "reshape": lambda: of_x(lambda x: x.reshape(3, -1)),
    "reshape by a slot": lambda: of_x(lambda x: x.reshape("b | h, w", h=2)),
    "gather": lambda: lambda x, ids: x[ids],
    "elements along an axis": lambda: of_x(lambda x: oc.take_along_axis(x, oc.argmax(x, -1, keep=True))),
}


def of_x(block: Any) -> Any:
    return lambda x, _: block(x)


def of_ids(block: Any) -> Any:
    return lambda _, ids: block(ids)


def of_sequences(block: Any) -> Any:
    return lambda x, _: block(oc.rearrange(x, "(b s) f -> b s f", b=2, axes="bbo"))


def looking_at_itself(block: Any) -> Any:
    return lambda x: block(x, x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_found_at_once(name: str, monkeypatch: pytest.MonkeyPatch):
    """With the values of a program that is compiled as a whole."""
    x, ids, make = oc.data(X, axes="bo"), oc.data(IDS, axes="b"), BLOCKS[name]
    block = make()
    first = block(x, ids)
    found = first.numpy()
    looked_for: list[Any] = []
    once = RECORDER.once
    monkeypatch.setattr(RECORDER, "once", lambda key, make: looked_for.append(key) or once(key, make))
    assert block(x, ids).ir_value is first.ir_value
    assert looked_for == []
    with oc.eager(False):
        np.testing.assert_allclose(found, block(x, ids).numpy(), rtol=1e-12)


def test_weight_decay_before_a_layer_is_used_decides_no_shape():
    layer = nn.linear(out_dim=5)
    decay = (layer.w**2).sum()
    assert layer(oc.data(X, axes="bo")).numpy().shape == (10, 5)
    assert decay.item() > 0


@pytest.mark.parametrize(
    "decorator", [lambda f: f, wraps(nn.gelu), wraps(oc.relu)], ids=["plain", "nn", "oc"]
)
def test_a_block_with_a_function_of_the_user_calls_it_each_time(decorator: Callable[..., Any]):
    seen: list[oc.Tensor] = []

    @decorator
    def watched(x: oc.Tensor) -> oc.Tensor:
        seen.append(x)
        return oc.relu(x)

    x = oc.data(X.reshape(2, 5, 6), axes="bbo")
    given = nn.transformer_encoder(1, 1, 3, 3, 4, activation=watched)
    replaced = nn.mlp(hid_dims=[6], out_dim=2).replace("layers[0]", oc.Block(watched))
    for block in (given, replaced):
        seen.clear()
        for _ in range(3):
            block(x)
        assert len(seen) == 3


def test_a_summary_has_the_parts_of_a_block_that_was_applied():
    model, x = nn.mlp(hid_dims=[4], out_dim=2), oc.data(X, axes="bo")
    model(x).numpy()
    rows = model.summary(x).rows
    assert [row.output for row in rows if row.part in ("(whole)", "layers[0]")] == ["10|2", "10|4"]


def test_parts_at_other_ids_are_one_operation(compiled: list[str]):
    x = oc.data(X, axes="bo")
    for ids in ([3, 1], [0, -1], [9, 2]):
        np.testing.assert_array_equal(x[np.array(ids)].numpy(), X[ids])
    for columns in ([0, 1], [5, -2]):
        np.testing.assert_array_equal(x[1:3, np.array(columns)].numpy(), X[1:3, columns])
    assert len(compiled) == 2
    with pytest.raises(IndexError, match="has 10 positions, found id 10"):
        x[np.array([10])]


def test_gradients_are_found_without_an_operation(monkeypatch: pytest.MonkeyPatch):
    w, x = oc.param("w", np.ones((2, 6))), oc.data(X, axes="bo")
    loss = ((w @ x) ** 2).sum()
    first = oc.grad(loss, w), oc.jvp(loss, w, w)
    added: list[Any] = []
    monkeypatch.setattr("ocannl.program.graph.add", lambda *given: added.append(given))
    again = oc.grad(loss, w), oc.jvp(loss, w, w)
    assert again == first
    assert added == []
