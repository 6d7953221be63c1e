"""Eager mode: what is done again compiles nothing, and nothing grows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from support.tensors import Array

import ocannl as oc
from ocannl import nn, train
from ocannl.execute import eager_engine
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.recorder import RECORDER


def stacked_norms() -> Any:
    norms = [nn.layer_norm() for _ in range(4)]
    return lambda x, _: reduce(lambda x, norm: x + norm(x), norms, x)


def of_examples(block: Any) -> Any:
    return lambda x, _: block(x)


@oc.custom_gradient
def clipped(x: oc.Tensor, most: oc.TensorLike) -> Any:
    """Its gradient goes on as if it was not clipped."""
    return oc.minimum(x, most), lambda cotangent: (cotangent, None)


METRICS_AND_BLOCKS: list[Any] = [
    lambda: nn.accuracy,
    lambda: lambda x, ids: nn.accuracy(oc.argsort(x)[:, -1], ids),
    lambda: lambda x, ids: nn.top_k_accuracy(x, ids, 2),
    lambda: nn.confusion_matrix,
    lambda: lambda x, ids: nn.f1(x, ids, average="macro"),
    lambda: lambda x, _: oc.put_along_axis(x, x.argmax(-1, keep=True), 0.5),
    lambda: of_examples(nn.group_norm(num_groups=2, spatial_axes=1)),
    lambda: of_examples(nn.decoder_only(1, 1, 2, 2, 4)),
    stacked_norms,
    lambda: of_examples(nn.sinusoidal_positions()),
    lambda: lambda x, _: nn.rotary()(oc.einsum("b | f => b | h f", x, h=2)),
    lambda: lambda x, _: clipped(x, 0.5) + clipped(x, 2),
]


class TestAgain:
    def test_batches_compile_once(self, compiled: list[str]):
        """Data take the place of data that nobody holds."""
        model = nn.mlp(hid_dims=[4], out_dim=1)
        rng = np.random.default_rng(0)
        for step in range(7):
            x = oc.data(rng.normal(size=(5, 2)))
            y = oc.data(rng.normal(size=(5, 1)))
            loss = nn.mse(model(x), y)
            loss.backward()
            for p in oc.params(loss).values():
                p -= 0.1 * p.grad
                p.grad.zero()
            float(loss)
            if step == 3:  # two places for data, and sizes that are known since
                compiled.clear()
        assert compiled == []

    def test_data_that_are_held_stay(self):
        held = [oc.data([float(k)]) for k in range(4)]
        sums = [x + 1 for x in held]
        del held
        gc.collect()
        more = [oc.data([10.0 + k]) for k in range(4)]
        assert [s.item() for s in sums] == [1, 2, 3, 4]
        assert [x.item() for x in more] == [10, 11, 12, 13]

    def test_data_that_code_uses_stay(self, context: oc.Context):
        result = oc.data([1.0]) * 2
        routine = context.compile(oc.forward(result))
        for k in range(3):
            oc.data([5.0 + k]).numpy()
        routine()
        assert context[result] == 2

    def test_ids_that_change(self, compiled: list[str]):
        table = np.arange(12.0).reshape(4, 3)
        x = oc.data(table)
        for k in range(5):
            ids = (np.arange(2) * k) % 4
            np.testing.assert_array_equal(x[ids].numpy(), table[ids])
            np.testing.assert_array_equal(nn.embedding(num=4, dim=2)(oc.data(ids, axes="b")).shape, (2, 2))
            if k == 1:
                compiled.clear()
        assert [name for name in compiled if name != "init"] == []

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("make", METRICS_AND_BLOCKS)
    def test_what_compiles_once(self, make: Any, compiled: list[str]):
        """Dimensions that an operation captures are those of before, whatever is known of them by now."""
        rng, apply = np.random.default_rng(0), make()
        for step in range(8):
            x, ids = oc.data(rng.normal(size=(5, 6))), oc.data(rng.integers(0, 6, 5), axes="b")
            value = apply(x, ids)
            assert np.isfinite(value.numpy()).all()
            if step == 4:  # two places for data
                compiled.clear()
        assert compiled == []

    @pytest.mark.exhaustive
    def test_sizes_that_only_uses_tell(self):
        """A dimension that only the result of an operation has is another one in another use."""
        x, ids, rng = oc.tensor([1.0, 2.0, 3.0]), np.arange(4), np.random.default_rng(0)
        decoder = nn.decoder_only(1, 1, 2, 2, 4)
        for size in (6, 8, 6, 8):
            k = oc.Dim("k")
            both = oc.einsum("b => b k", x, k=k) + oc.einsum("a | b => a b", oc.data(np.ones((3, size))))
            np.testing.assert_array_equal(both.numpy(), np.outer([2, 3, 4], np.ones(size)))
            scores = rng.normal(size=(4, size))
            found = nn.confusion_matrix(oc.data(scores), oc.data(ids, axes="b")).numpy()
            assert found.shape == (size, size)
            np.testing.assert_array_equal(found[ids, scores.argmax(1)], np.ones(4))
            assert decoder(oc.data(rng.normal(size=(2, size, 4)))).numpy().shape == (2, size, 4)

    def test_ids_outside_of_other_data_are_told(self):
        x = oc.data(np.arange(12.0).reshape(4, 3))
        for wrong in (1, 2, 5, 3):
            found = x[oc.data([0, wrong], axes="b")]
            if wrong < 4:
                np.testing.assert_array_equal(found.numpy()[1], np.arange(3 * wrong, 3 * wrong + 3))
            else:
                with pytest.raises(oc.OcannlError, match="the id 5"):
                    found.numpy()

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize(
        "make", [train.adam, train.sgd, lambda lr: train.sgd(lr, momentum=0.9, clip_norm=1.0)]
    )
    def test_a_loop_with_an_optimizer(self, make: Any, compiled: list[str]):
        layer, optimizer = nn.linear(out_dim=3), make(0.1)
        rng = np.random.default_rng(1)
        batches = [(rng.normal(size=(6, 4)), rng.integers(0, 3, 6)) for _ in range(6)]

        def step(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
            loss = nn.cross_entropy(layer(x), y)
            optimizer.step(loss)
            return loss

        losses: list[float] = []
        for k, (x, y) in enumerate(batches):
            losses.append(step(oc.data(x), oc.data(y, axes="b")).item())
            if k == 2:
                compiled.clear()
        assert compiled == []
        after = layer.w.numpy()
        with oc.eager(False):
            layer, optimizer = nn.linear(out_dim=3), make(0.1)
            fit = oc.function(step)
            np.testing.assert_allclose([fit(x, y) for x, y in batches], losses, rtol=1e-12)
        np.testing.assert_allclose(layer.w.numpy(), after, rtol=1e-12)

    @pytest.mark.exhaustive
    def test_recipes_go_on_with_their_moments(self, compiled: list[str]):
        updates: list[Any] = [
            lambda loss: train.sgd_update(loss, learning_rate=0.1, momentum=0.9),
            lambda loss: train.adam_update(loss, learning_rate=0.1),
        ]
        for update in updates:
            w, apart = oc.param("w", np.ones(2)), oc.param("w", np.ones(2))
            for k in range(5):
                loss = (w * w).sum()
                oc.run(train.grad_update(loss) + update(loss))
                if k == 2:
                    compiled.clear()
            assert compiled == []
            with oc.eager(False):
                loss = (apart * apart).sum()
                step = oc.default_context().compile(train.grad_update(loss) + update(loss))
                oc.default_context().init_params(loss)
                for _ in range(5):
                    step()
            np.testing.assert_allclose(w.numpy(), apart.numpy(), rtol=1e-12)

    def test_captured_dimensions_are_found_again(self, compiled: list[str]):
        norm = nn.batch_norm1d(momentum=0.5)
        for k in range(6):
            x = oc.data(np.arange(6.0).reshape(3, 2) * (k + 1))
            value = norm(x, train_step=1)
            oc.run(oc.updates(value))
            np.testing.assert_allclose(value.numpy().mean(0), 0, atol=1e-9)
            if k == 3:
                compiled.clear()
        assert compiled == []

    def test_random_numbers(self, compiled: list[str]):
        def draw() -> list[Array]:
            oc.seed(5)
            drop = nn.dropout(rate=0.5)
            x = oc.tensor([1.0] * 64)
            return [drop(x, train_step=1).numpy() for _ in range(4)]

        first = draw()
        assert len({array.tobytes() for array in first}) == 4
        assert len(compiled) <= 2
        np.testing.assert_array_equal(draw(), first)
        oc.seed(1)

    def test_programs_built_after_it_are_not_kept(self):
        held = oc.tensor([1.0, 2.0]) * 2
        assert RECORDER.users
        oc.eager(False)
        w = oc.param("w", output=2)
        loss = (w * w).sum()
        train.grad_update(loss)
        value = weakref.ref(loss.ir_value)
        del loss
        assert value() is None
        assert held.numpy().tolist() == [2.0, 4.0]

    @pytest.mark.exhaustive
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("is_trained", [False, True])
    def test_an_expression_that_goes_on(self, is_trained: bool, compiled: list[str]):
        """It is data from time to time, where no gradient goes through it."""
        w = oc.param("w", np.array([0.5, 2.0]))
        mean, wanted = oc.tensor([0.0, 0.0]), np.zeros(2)
        for k in range(150):
            x = oc.tensor([1.0 + k, 2.0])
            new = x * (oc.stop_gradient(w) if is_trained else 0.5)
            mean = 0.9 * mean + 0.1 * new
            wanted = 0.9 * wanted + 0.1 * np.array([1.0 + k, 2.0]) * ([0.5, 2.0] if is_trained else 0.5)
            np.testing.assert_allclose(mean.numpy(), wanted, rtol=1e-5)
            if k == 100:
                compiled.clear()
        assert compiled == []

    @pytest.mark.exhaustive
    def test_a_long_expression_keeps_its_gradient(self):
        w = oc.param("w", np.array([1.0]))
        value = w
        for _ in range(100):
            value = value * 1.01
        assert value.item() == pytest.approx(1.01**100)
        value.sum().backward()
        assert w.grad.item() == pytest.approx(1.01**100)

    def test_nothing_grows(self):
        w = oc.param("w", np.array([1.0]))
        sizes: list[tuple[int, ...]] = []
        for step in range(60):
            loss = ((w - 2.0) ** 2).sum()
            loss.backward()
            w -= 0.1 * w.grad
            w.grad.zero()
            if step % 20 == 19:
                places = sum(map(len, RECORDER.places.values()))
                sizes.append((len(RECORDER.operations), len(RECORDER.living), places, len(RECORDER.users)))
        assert sizes[0] == sizes[1] == sizes[2]

    @pytest.mark.parametrize("limit", ["MOST_MEMORIES", "MOST_BYTES"])
    def test_what_is_gone_is_not_kept(self, limit: str, monkeypatch: pytest.MonkeyPatch):
        """Neither parameters, on which operations and routines depend, nor data whose place nobody takes."""
        monkeypatch.setattr(eager_engine, limit, {"MOST_MEMORIES": 2, "MOST_BYTES": 1000}[limit])
        made = list[weakref.ref[Any]]()
        for count in (100, 101, 102):
            w, x = oc.param("w", np.ones(count)), oc.data(np.ones(count))
            loss = (w * x).sum()
            loss.backward()
            assert loss.item() == w.grad.numpy().sum() == count
            made += [weakref.ref(w.ir_value), weakref.ref(x.ir_value)]
        del w, x, loss
        gc.collect()
        assert sum(value() is not None for value in made) <= 2

    def test_loops_of_much_memory_compile_once(self, monkeypatch: pytest.MonkeyPatch, compiled: list[str]):
        """Nothing that a loop uses is forgotten again and again, however much it is."""
        monkeypatch.setattr(eager_engine, "MOST_MEMORIES", 2)
        weights = [oc.param(f"w{k}", float(k), output=[]) for k in range(4)]
        for step in range(1, 10):
            parts = [weight / step for weight in weights]
            assert sum(part.item() for part in parts) == pytest.approx(6 / step)
            if step == 7:
                compiled.clear()
        assert compiled == []

    def test_data_of_what_was_forgotten_come_last(self, compiled: list[str]):
        """They may come back in the midst of a loop, which has its own by then."""
        held = [oc.data(np.ones(2)) for _ in range(2)]
        (held[0] + held[1]).numpy()
        ENGINE.only.forget()
        for step in range(6):
            x = oc.data(np.full(2, float(step)))
            assert (x * 2.0).numpy()[0] == 2 * step
            if step == 3:
                compiled.clear()
                held.clear()
        assert compiled == []


SEVERAL_OPERATIONS: dict[str, Any] = {
    "argmax": lambda x: x.argmax(-1),
    "argmin of rows": lambda x: x.argmin("batch"),
    "mean": lambda x: x.mean(),
    "mean that keeps its axis": lambda x: x.mean(1, keep=True),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(0),
    "cumsum": oc.cumsum,
    "cumsum of columns": lambda x: oc.cumsum(x, 0),
    "cumprod": oc.cumprod,
    "logcumsumexp": oc.logcumsumexp,
    "cummax": oc.cummax,
    "positions of cummax": lambda x: oc.cummax(x, return_indices=True)[1],
    "positions of cummin": lambda x: oc.cummin(x, return_indices=True)[1],
    "flip": oc.flip,
    "flip of both": lambda x: oc.flip(x, (0, 1)),
    "roll": lambda x: oc.roll(x, 1),
    "roll by 2": lambda x: oc.roll(x, 2),
    "sort": oc.sort,
    "sort downwards": lambda x: oc.sort(x, descending=True),
    "argsort": oc.argsort,
    "topk": lambda x: oc.topk(x, 2)[0],
    "topk of 3": lambda x: oc.topk(x, 3)[1],
    "norm": oc.norm,
    "norm of all": lambda x: oc.norm(x, None),
    "sum of absolutes": lambda x: oc.norm(x, ord=1),
    "part": lambda x: x[1:3, ::2],
    "row": lambda x: x[1],
    "rows in reverse": lambda x: x[::-1],
}


@pytest.mark.exhaustive
def test_several_operations_of_a_value_are_found_at_once(monkeypatch: pytest.MonkeyPatch):
    """As one, and those of other settings are others."""
    x = oc.data(np.random.default_rng(1).normal(size=(4, 6)))
    with oc.eager(False):
        wanted = {name: make(x).numpy() for name, make in SEVERAL_OPERATIONS.items()}
    first = {name: make(x) for name, make in SEVERAL_OPERATIONS.items()}
    looked_for: list[Any] = []
    once = RECORDER.once
    monkeypatch.setattr(RECORDER, "once", lambda key, make: looked_for.append(key) or once(key, make))
    for name, make in SEVERAL_OPERATIONS.items():
        looked_for.clear()
        assert make(x).ir_value is first[name].ir_value, name
        assert len(looked_for) <= 2, name
        np.testing.assert_array_equal(first[name].numpy(), wanted[name], name)


REMEMBERED: dict[str, Callable[[oc.Tensor], oc.Tensor]] = {
    "silu": nn.silu,
    "gelu": nn.gelu,
    "gelu by tanh": lambda x: nn.gelu(x, approximate="tanh"),
    "elu": nn.elu,
    "softplus": nn.softplus,
    "softmax": lambda x: nn.softmax()(x),
    "softmax of batches": lambda x: nn.softmax(spec="b | ... -> ...")(x),
    "log_softmax": lambda x: nn.log_softmax()(x),
    "layer_norm": lambda x: nn.layer_norm(affine=False)(x),
    "rms_norm": lambda x: nn.rms_norm(affine=False, epsilon=1e-3)(x),
    "squares": lambda x: nn.mse(x, x),
    "their sum": lambda x: nn.mse(x, x, reduction="sum"),
    "logsumexp": lambda x: oc.logsumexp(x, -1),
    "clip": lambda x: oc.clip(x, -0.5, 0.25),
    "transposed": lambda x: oc.rearrange(x, "a b -> b a"),
    "triangle": oc.tril,
    "upper triangle": lambda x: oc.triu(x, 1),
}


@pytest.mark.exhaustive
def test_pure_functions_are_found_at_once(monkeypatch: pytest.MonkeyPatch):
    """By their tensors and settings, with the values of a program that is compiled as a whole."""
    x = oc.data(np.random.default_rng(1).normal(size=(4, 6)), axes="bo")
    with oc.eager(False):
        wanted = {name: make(x).numpy() for name, make in REMEMBERED.items()}
    first = {name: make(x) for name, make in REMEMBERED.items()}
    for name, found in first.items():
        np.testing.assert_array_equal(found.numpy(), wanted[name], name)
    looked_for: list[Any] = []
    once = RECORDER.once
    monkeypatch.setattr(RECORDER, "once", lambda key, make: looked_for.append(key) or once(key, make))
    for name, make in REMEMBERED.items():
        looked_for.clear()
        assert make(x).ir_value is first[name].ir_value, name
        assert len(looked_for) <= 1, name


def test_parameters_of_a_remembered_block_are_those_of_now(context: oc.Context):
    norm, x = nn.layer_norm(dim=3), oc.data([[1.0, 2.0, 4.0]], axes="bo")
    gain = oc.params(norm(x))["layer_norm.gain"]
    before = norm(x).numpy()
    for factor in (2.0, 3.0):
        gain[...] = factor
        np.testing.assert_allclose(norm(x).numpy(), factor * before, rtol=1e-6)


def test_settings_that_change_stay_those_of_their_calls(compiled: list[str]):
    array = np.random.default_rng(3).normal(size=(4, 6))
    x = oc.data(array)
    for step, slope in enumerate([0.1, 0.2, 0.3, 0.2, 0.1, 0.4]):
        found = nn.leaky_relu(x, slope=slope).numpy()
        np.testing.assert_allclose(found, np.where(array > 0, array, slope * array))
        if step == 2:
            compiled.clear()
    assert compiled == []


@pytest.mark.exhaustive
def test_numbers_that_change_stay_those_of_their_calls():
    """They are data, whose place others take as soon as nothing depends on them."""
    array = np.random.default_rng(2).uniform(0.5, 2.0, size=(4, 6))
    x = oc.data(array)
    for order, ddof in [(3, 0), (5, 1), (2.5, 2), (5, 1), (0.5, 0), (2.5, 3), (5, 2), (3, 1)]:
        np.testing.assert_allclose(oc.norm(x, ord=order).numpy(), (array**order).sum(-1) ** (1 / order))
        np.testing.assert_allclose(x.var(1, ddof=ddof).numpy(), array.var(1, ddof=ddof))
