"""Dropout: what it keeps, its gradients, and where transformers have it."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

STEP = oc.index("step_n")


def ones(*shape: int) -> oc.Tensor:
    return oc.data(np.ones(shape, np.float32), label="ones")


def at_step(tensor: oc.Tensor, *steps: int) -> list[NDArray[Any]]:
    ctx = oc.Context.cpu()
    routine = ctx.compile(tensor)
    ctx.init_params(tensor)
    found = list[NDArray[Any]]()
    for step in steps:
        routine(step_n=step)
        found.append(ctx[tensor])
    return found


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_what_is_kept_is_scaled(rate: float):
    (found,) = at_step(nn.dropout(rate)(ones(200, 200), train_step=STEP), 3)
    assert set(np.unique(found)) == {np.float32(0), np.float32(1 / (1 - rate))}
    assert abs((found > 0).mean() - (1 - rate)) < 0.01
    assert abs(found.mean() - 1) < 0.05


def test_steps_applications_and_blocks_differ():
    x = ones(40, 40)
    drop, other = nn.dropout(0.5), nn.dropout(0.5)
    stacked = oc.stack([drop(x, STEP), drop(x, STEP), other(x, STEP)], axis="batch")
    masks = np.concatenate(at_step(stacked, 0, 1)).reshape(6, -1)
    assert abs(np.corrcoef(masks) - np.eye(6)).max() < 0.1
    np.testing.assert_array_equal(np.concatenate(at_step(stacked, 0, 1)).reshape(6, -1), masks)


@pytest.mark.parametrize(("rate", "step"), [(0.5, None), (0.0, STEP), (0, 3)])
def test_it_is_nothing_without_a_step_or_a_rate(rate: float, step: oc.TensorLike | None):
    x = ones(3)
    assert nn.dropout(rate)(x, train_step=step) == x


def test_a_step_that_does_not_count_warns():
    """In a function it would be the same number in every call; at once it is what was asked for."""
    drop = nn.dropout(0.5)

    def fixed(step: int) -> Any:
        return oc.function(lambda x: drop(x, step))

    for step in (0, 3):
        with pytest.warns(UserWarning, match=f"with train_step={step}, dropout sets the same elements to 0"):
            fixed(step).lower(np.ones((2, 3)))
    count = oc.node("count", output=[], init=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oc.function(lambda x: drop(x, count)).lower(np.ones((2, 3)))
        oc.function(lambda x, step: drop(x, step)).lower(np.ones((2, 3)), 3)
        drop(ones(3), 3)


@pytest.mark.exhaustive
def test_what_recurrent_layers_give_to_each_other_is_dropped():
    """All of it here, but nothing of the last layer."""
    x = oc.data(np.random.default_rng(1).normal(size=(2, 3, 4)))
    layers = nn.rnn(5, layers=2, activation=oc.cos, dropout_rate=0.9999)
    (dropped,) = at_step(layers(x, train_step=STEP), 0)
    (kept,) = at_step(layers(x), 0)
    assert dropped.all()
    np.testing.assert_array_equal(*dropped)
    assert not np.allclose(*kept)
    with pytest.warns(UserWarning, match="dropout of recurrent layers is between them, and there is one"):
        nn.lstm(5, bidirectional=True, dropout_rate=0.1)


@pytest.mark.parametrize("rate", [-0.1, 1, 1.5, float("nan")])
def test_rates(rate: float):
    with pytest.raises(ValueError, match=f"a dropout rate is at least 0 and less than 1, found {rate}"):
        nn.dropout(rate)


def test_gradients_go_where_the_values_went():
    w = oc.param("w", np.full((30, 30), 2.0), batch=30, output=30)
    dropped = nn.dropout(0.3)(w, train_step=STEP).named("dropped")
    loss = (dropped * dropped).einsum("...|... => 0")
    ctx = oc.Context.cpu()
    dropped_value = dropped.value
    step = ctx.compile(train.grad_update(loss))
    ctx.init_params(loss)
    for n in range(2):
        step(step_n=n)
        np.testing.assert_allclose(ctx[w.grad], 2 * ctx[dropped_value] / 0.7)


def test_passes_that_are_compiled_apart_drop_the_same():
    w = oc.param("w", np.ones((30, 30)), batch=30, output=30)
    first = nn.dropout(0.3)(w, train_step=STEP)
    loss = nn.dropout(0.4)(first, train_step=STEP).einsum("...|... => 0")
    together, apart = oc.Context.cpu(), oc.Context.cpu()
    whole = together.compile(train.grad_update(loss))
    parts = [
        apart.compile(first),
        apart.compile(loss.forward + oc.set(loss.grad, 1.0) + loss.zero_grads),
        apart.compile(oc.set(loss.grad, 1.0) + loss.backprop),
    ]
    for ctx, routines in ((together, [whole]), (apart, parts)):
        ctx.init_params(loss)
        for routine in routines:
            routine(step_n=7)
    np.testing.assert_array_equal(together[w.grad], apart[w.grad])


@pytest.mark.exhaustive
def test_only_the_mask_is_in_memory():
    x = oc.param("x", batch=64, output=64)
    hidden = nn.dropout(0.5)(oc.relu(oc.param("w", output=64) @ x), train_step=STEP)
    loss = (hidden * hidden).einsum("...|... => 0")
    routine = oc.Context.cpu().compile(train.grad_update(loss))
    text = routine.ir("fuse")
    assert text.count("loops.uniform") == 1
    assert '"dropout" virtual' in text


@pytest.mark.exhaustive
def test_a_perceptron_with_dropout_learns():
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(256, 4)).astype(np.float32)
    targets = (inputs[:, :1] * inputs[:, 1:2] > 0).astype(np.int32)[:, 0]
    x, y = oc.data(inputs, label="x"), oc.data(targets, axes="b", label="y")
    hidden, drop, out = nn.mlp_layer(hid_dim=64), nn.dropout(0.2), nn.linear(out_dim=2)
    loss = nn.cross_entropy(out(drop(hidden(x), train_step=STEP)), y).named("loss")
    logits = out(drop(hidden(x)))
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.5))
    ctx.init_params(loss)
    losses = step.run_loop(epochs=300, advance=[STEP], record=[loss])[loss]
    assert losses[-50:].mean() < 0.5 * losses[:10].mean()
    assert (ctx[logits].argmax(axis=1) == targets).mean() > 0.9


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("block", "masks"),
    [
        (
            lambda x, **step: nn.multi_head_attention(num_heads=2, d_k=3, d_v=3, dropout_rate=0.5)(x, **step),
            1,
        ),
        (lambda x, **step: nn.feed_forward(d_ff=8, dropout_rate=0.5)(x, **step), 1),
        (lambda x, **step: nn.transformer_encoder(2, 2, 3, 3, 8, dropout_rate=0.5)(x, **step), 2 * 4),
        (lambda x, **step: nn.decoder_only(1, 2, 3, 3, 8, dropout_rate=0.5)(x, **step), 4),
        (lambda x, **step: nn.transformer_decoder(1, 2, 3, 3, 8, dropout_rate=0.5)(x, x, **step), 6),
    ],
    ids=["attention", "feed_forward", "encoder", "decoder_only", "decoder"],
)
def test_blocks_have_dropout_in_training_only(block: Any, masks: int):
    x = oc.data(np.random.default_rng(2).normal(size=(2, 5, 6)).astype(np.float32), label="x")
    trained, used = block(x, train_step=STEP) + x, block(x) + x
    assert trained.ir().count("texpr.uniform") == masks
    assert "texpr.uniform" not in used.ir()
    first, again, later = at_step(trained, 0, 0, 1)
    np.testing.assert_array_equal(first, again)
    assert first.shape == (2, 5, 6)
    assert not np.allclose(first, later)


def test_a_rate_of_zero_compiles_to_the_same_text():
    x = ones(2, 5, 6)
    plain = nn.transformer_encoder(1, 2, 3, 3, 8)(x)
    assert nn.transformer_encoder(1, 2, 3, 3, 8, dropout_rate=0.0)(x, train_step=STEP).ir() == plain.ir()
