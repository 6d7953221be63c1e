"""Eager mode: values at once, the meaning of expressions over writes, and that nothing is compiled twice."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Generator, Iterable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from support.tensors import Array, arrays_of

import ocannl as oc
from ocannl import nn, train
from ocannl.program.eager import RECORDER


@pytest.fixture(autouse=True)
def context() -> Generator[oc.Context]:
    """Eager mode in a context of its own."""
    with oc.Context.cpu(threads=1) as ctx, oc.eager():
        yield ctx


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is compiled."""
    found: list[str] = []
    compile_module = oc.execute.context.compile_module

    def noted(module: Any, *rest: Any, **named: Any) -> Any:
        found.append(str(module.body.block.first_op.sym_name.data))
        return compile_module(module, *rest, **named)

    for module in ("context", "evaluation"):
        monkeypatch.setattr(f"ocannl.execute.{module}.compile_module", noted)
    return found


class TestValues:
    def test_printing_comparing_and_iterating(self):
        x = oc.tensor([1.0, 2.0, 3.0])
        y = x * x + 1
        assert str(y) == "[ 2.  5. 10.]"
        assert f"{y.sum():.2f}" == "17.00"
        assert repr(y).startswith("<")
        assert [part.item() for part in y] == [2, 5, 10]
        assert y.sum() > 16
        assert not y.sum() > 17
        np.testing.assert_array_equal(y, [2, 5, 10])

    def test_it_is_on_and_off(self):
        oc.eager(False)
        assert str(oc.data([1.0]) + 1).startswith("<")
        with oc.eager():
            assert str(oc.tensor([1.0]) + 1) == "[2.]"
        with pytest.raises(oc.ArgumentError, match="has no truth value yet"):
            bool(oc.data([1.0]) > 0)
        with pytest.raises(oc.OcannlError, match=r"backward\(\) runs at once, in eager mode"):
            oc.param("w", 1.0, output=1).backward()

    def test_parameters_get_values_by_the_seed(self, context: oc.Context):
        x = np.ones(3, np.float32)
        y = nn.linear(out_dim=2, label="l")(oc.data(x))
        value = y.numpy()
        oc.eager(False)
        y = nn.linear(out_dim=2, label="l")(oc.data(x))
        other = oc.Context.cpu()
        other.init_params(y, seed=1)
        np.testing.assert_array_equal(value, other[y])


class TestWrites:
    def test_the_loop_of_training(self, compiled: list[str]):
        (start,) = arrays_of((1, 3))
        w, x = oc.param("w", start), oc.tensor([1.0, 2.0, 3.0])
        value, losses, loss = start.copy(), [], oc.tensor(0.0)
        for _ in range(20):
            loss = ((w @ x - 2.0) ** 2).sum()
            loss.backward()
            w -= 0.01 * w.grad
            w.grad.zero()
            rest = value @ [1.0, 2.0, 3.0] - 2
            losses.append((rest**2).sum())
            value = value - 0.02 * rest[:, None] * [1.0, 2.0, 3.0]
        np.testing.assert_allclose(w, value, rtol=1e-6)
        np.testing.assert_allclose(loss.item(), losses[-1], rtol=1e-5, atol=1e-12)
        assert len(compiled) <= 5

    def test_gradients_add_up(self):
        w = oc.param("w", np.array([3.0]))
        for times in (1, 2):
            (w * w).sum().backward()
            assert w.grad.item() == 6 * times
        w.grad.zero()
        (w * w).backward(gradient=0.5)
        assert w.grad.item() == 3

    def test_an_expression_keeps_its_meaning(self):
        w = oc.param("w", np.array([1.0, 2.0]))
        before = 2 * w
        dependent = before + w
        w += 10.0
        after = 2 * w
        np.testing.assert_array_equal(before, [2, 4])
        np.testing.assert_array_equal(dependent, [3, 6])
        np.testing.assert_array_equal(after, [22, 24])
        np.testing.assert_array_equal(before + after, [24, 28])
        w[...] = 0.0
        np.testing.assert_array_equal(after, [22, 24])
        np.testing.assert_array_equal(w, [0, 0])

    @pytest.mark.parametrize("how", ["context", "function", "routine", "code"])
    def test_every_write_counts(self, how: str, context: oc.Context):
        w = oc.param("w", np.array([1.0]))
        before = 3 * w
        assert before.item() == 3

        def double() -> oc.Code:
            with oc.code("double") as code:
                w[...] = 2 * w
            return code

        if how == "context":
            context[w] = [2.0]
        elif how == "function":
            oc.function(lambda: [double(), None][1])()
        elif how == "routine":
            context.compile(double())()
        else:
            oc.run(double())
        assert (before.item(), (3 * w).item()) == (3, 6)

    def test_a_write_in_another_context_changes_nothing_here(self):
        w = oc.param("w", np.array([1.0]))
        before = 3 * w
        assert before.item() == 3
        other = oc.Context.cpu()
        other[w] = [7.0]
        assert before.item() == 3
        with other:
            assert (3 * w).item() == 21

    def test_what_is_not_held_is_not_computed(self, compiled: list[str]):
        w = oc.param("w", np.array([1.0]))
        for _ in range(3):
            3 * w + 1  # pyright: ignore
            w += 1.0
        assert compiled == ["eager"]

    def test_a_running_total_is_found_again(self, compiled: list[str]):
        w = oc.param("w", np.array([1.0]))
        total = oc.tensor([0.0])
        for step in range(12):
            total = total + w * 2
            w += 1.0
            if step == 4:
                compiled.clear()
        assert total.item() == 2 * sum(range(1, 13))
        assert compiled == []

    def test_a_derivative_of_what_was_is_an_error(self):
        w = oc.param("w", np.array([1.0]))
        loss = (w * w).sum().named("loss")
        w += 1.0
        with pytest.raises(
            oc.OcannlError, match="was computed before memory that it reads was writ"
        ) as caught:
            (loss * w).backward()
        assert str(caught.value).count(__file__) == 2
        (oc.stop_gradient(loss) * w).sum().backward()
        assert w.grad.item() == 1

    def test_a_derivative_of_a_part_of_what_was_is_an_error(self):
        w = oc.param("w", np.array([1.0, 2.0]))
        squares = w * w
        w += 1.0
        with pytest.raises(oc.OcannlError, match="was computed before memory that it reads was written"):
            (squares[1:] * w[1:]).sum().backward()

    def test_parts_of_memory(self):
        x = oc.tensor([1.0, 2.0, 3.0])
        before = 2 * x
        x[1:] = 5.0
        x[0] += 1.0
        np.testing.assert_array_equal(x, [2, 5, 5])
        np.testing.assert_array_equal(before, [2, 4, 6])

    def test_a_choice_by_value(self):
        w = oc.param("w", np.array([8.0]))
        steps = 0
        while (w * 1).sum() > 1:
            w /= 2.0
            steps += 1
        assert (steps, w.item()) == (3, 1)

    def test_aliases_of_memory_see_writes(self):
        x = oc.tensor([1.0, 2.0])
        y = x
        x += 1.0
        np.testing.assert_array_equal(y, [2, 3])


def stacked_norms() -> Any:
    norms = [nn.layer_norm() for _ in range(4)]
    return lambda x, _: reduce(lambda x, norm: x + norm(x), norms, x)


def of_examples(block: Any) -> Any:
    return lambda x, _: block(x)


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

    def test_a_rate_that_changes_compiles_at_most_twice(self, compiled: list[str]):
        w = oc.param("w", np.array([1.0]))
        expected = 1.0
        for step in range(10):
            rate = 0.5 / (1 + step)
            w -= rate * w
            expected -= rate * expected
        np.testing.assert_allclose(w.item(), expected, rtol=1e-12)
        assert len(compiled) <= 4

    def test_numbers_in_products_compile_once(self, compiled: list[str]):
        w = oc.param("w", np.arange(6.0).reshape(2, 3), output=2, input=3)
        for k in range(6):
            np.testing.assert_allclose((w @ 2).numpy(), [6, 24])
            np.testing.assert_allclose((2 @ w).numpy(), [6, 10, 14])
            np.testing.assert_allclose((w @ (0.5 * k)).numpy(), [1.5 * k, 6 * k])
            if k == 2:
                compiled.clear()
        assert compiled == []

    def test_numbers_beside_truth_values_and_integers(self, compiled: list[str]):
        x, n = oc.tensor([1.0, 2.0, 3.0]), oc.tensor([1, 2, 3])
        for k in range(7):
            np.testing.assert_array_equal(oc.where(x > k, x, k).numpy(), np.maximum([1, 2, 3], k))
            total = n + k
            assert total.dtype == np.int32
            np.testing.assert_array_equal(total.numpy(), np.arange(1, 4) + k)
            if k == 3:
                compiled.clear()
        assert compiled == []
        # What a number that is no integer gives is no integer.
        np.testing.assert_allclose((n + 0.5).numpy(), [1.5, 2.5, 3.5])

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

    def test_batches_that_are_slices(self, compiled: list[str]):
        """The first two are part of the program, all others one program."""
        rng = np.random.default_rng(0)
        x, y = oc.data(rng.normal(size=(60, 3))), oc.data(rng.integers(0, 2, 60), axes="b")
        model = nn.linear(out_dim=2)
        for step in range(14):
            at = 4 * step
            loss = nn.cross_entropy(model(x[at : at + 4]), y[at : at + 4])
            loss.backward()
            for p in model.params.values():
                p -= 0.1 * p.grad
                p.grad.zero()
            float(loss)
            if step == 4:
                compiled.clear()
        assert compiled == []

    PARTS = (
        lambda k: (k,),
        lambda k: (-1 - k,),
        lambda k: (slice(k, k + 2),),
        lambda k: (slice(k + 2, k, -1),),
        lambda k: (slice(k, None, 2),),
        lambda k: (slice(0, k),),
        lambda k: (..., k % 4),
        lambda k: (k, slice(None), k % 4),
        lambda k: (slice(k, k + 2), ..., slice(k % 3, k % 3 + 2)),
        lambda k: (slice(k, k + 2), None, k % 3),
        lambda k: (None, k, ..., None),
        lambda k: (k, k % 3, k % 4),
    )

    @pytest.mark.parametrize("part", PARTS)
    def test_parts_that_move(self, part: Any, compiled: list[str]):
        """Values and gradients are those of NumPy."""
        array = np.random.default_rng(0).normal(size=(9, 3, 4))
        x, w = oc.data(array, axes="boo"), oc.param("w", array, batch=9, output=[3, 4])
        for k in [*range(6), 1, 4]:
            key = part(k)
            np.testing.assert_array_equal(x[key].numpy(), array[key])
            (w[key] * x[key]).sum().backward()
            expected = np.zeros_like(array)
            expected[key] = array[key]
            np.testing.assert_array_equal(w.grad.numpy(), expected)
            w.grad.zero()
        steady = len(compiled)
        for k in (5, 1, 3):
            if part(0) != (slice(0, 0),) or k == 5:  # else each has another size
                x[part(k)].numpy()
        assert len(compiled) == steady

    @pytest.mark.parametrize("part", PARTS)
    def test_parts_that_move_are_written(self, part: Any, compiled: list[str]):
        expected = np.random.default_rng(0).normal(size=(9, 3, 4))
        m = oc.node("m", batch=9, output=[3, 4], init=0.0)
        m[...] = oc.data(expected, axes="boo")
        for k in [*range(6), 1, 4]:
            key = part(k)
            if None in key:
                continue
            m[key] = float(k)
            expected[key] = k
            m[key] += 2.0
            expected[key] += 2
            np.testing.assert_array_equal(m.numpy(), expected)
        compiled.clear()
        if all(isinstance(item, int) for item in part(0)):
            for k in (5, 3):
                m[part(k)] = float(k)
            assert compiled == []

    def test_positions_outside_are_told(self):
        x = oc.data(np.arange(12.0).reshape(4, 3))
        for k in range(4):
            x[k].numpy()
        with pytest.raises(oc.ArgumentError, match="position 4 is outside of axis 0"):
            x[4]
        with pytest.raises(oc.ArgumentError, match="position 3 is outside of axis 1"):
            x[3, 3]

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

    def test_data_of_one_operation_are_apart(self):
        """Ids of two axes, and numbers: none takes the place of another before there is an expression."""
        array = np.arange(12.0).reshape(3, 4)
        x, m = oc.data(array), oc.node("m", batch=3, output=4, init=0.0)
        for k in range(5):
            i, j = [k % 3, 2], [1, (k + 2) % 4]
            np.testing.assert_array_equal(x[i, j].numpy(), array[i, j])
            m[i, j] = float(k)
            np.testing.assert_array_equal(m.numpy()[i, j], [k, k])
            m[...] = 0.0
            np.testing.assert_array_equal(oc.fma(x, 1.5 + k, 2.5 * k).numpy(), array * (1.5 + k) + 2.5 * k)
            chosen = oc.where(x > k, 1.5 + k, 2.5 - k)
            np.testing.assert_array_equal(chosen.numpy(), np.where(array > k, 1.5 + k, 2.5 - k))

    def test_ids_outside_of_other_data_are_told(self):
        x = oc.data(np.arange(12.0).reshape(4, 3))
        for wrong in (1, 2, 5, 3):
            found = x[oc.data([0, wrong], axes="b")]
            if wrong < 4:
                np.testing.assert_array_equal(found.numpy()[1], np.arange(3 * wrong, 3 * wrong + 3))
            else:
                with pytest.raises(oc.OcannlError, match="the id 5"):
                    found.numpy()

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
                sizes.append((len(RECORDER.known), len(RECORDER.living), places, len(RECORDER.users)))
        assert sizes[0] == sizes[1] == sizes[2]


def perceptron(look: bool) -> list[Array]:
    oc.seed(3)
    (points,) = arrays_of((12, 2))
    x, y = oc.data(points), oc.data(np.sign(points[:, :1] * points[:, 1:]))
    model = nn.mlp(hid_dims=[5], out_dim=1, label="model")
    seen: list[Array] = []
    params: Iterable[oc.Tensor] = ()

    def see(*tensors: oc.Tensor) -> None:
        if look:
            seen.extend(t.numpy() for t in tensors)

    for _ in range(4):
        scores = model(x)
        see(scores)
        margin = oc.relu(1 - y * scores)
        see(margin, scores)
        loss = margin.sum()
        see(loss)
        params = oc.params(loss).values()
        loss.backward()
        for p in params:
            see(p, p.grad)
            p -= 0.05 * p.grad
            see(p, loss)
            p.grad.zero()
    oc.seed(1)
    return [p.numpy() for p in params]


def test_looking_changes_nothing():
    for plain, looked in zip(perceptron(False), perceptron(True), strict=True):
        np.testing.assert_array_equal(plain, looked)


def test_eager_and_compiled_agree():
    eager = perceptron(False)
    oc.eager(False)
    (points,) = arrays_of((12, 2))
    model = nn.mlp(hid_dims=[5], out_dim=1, label="model")
    ctx = oc.Context.cpu()

    @oc.function(ctx=ctx)
    def step(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
        loss = oc.relu(1 - y * model(x)).sum()
        train.grad_update(loss)
        train.sgd_update(loss, learning_rate=0.05)
        return loss

    oc.seed(3)
    for _ in range(4):
        step(points, np.sign(points[:, :1] * points[:, 1:]))
    oc.seed(1)
    trained = oc.params(step.lower(points, points[:, :1]).results).values()
    for found, wanted in zip(eager, trained, strict=True):
        np.testing.assert_allclose(found, ctx[wanted], rtol=1e-5, atol=1e-6)


def test_optimizers_run_at_once(context: oc.Context):
    x, y = arrays_of((8, 3), (8, 1))
    values: list[Array] = []
    for eager in (True, False):
        oc.eager(eager)
        w = oc.param("w", np.ones((1, 3)))
        opt = train.adam(lr=0.1)

        def loss_of(x: oc.Tensor, y: oc.Tensor, w: oc.Tensor = w) -> oc.Tensor:
            return nn.mse(w @ x, y)

        def step(x: oc.Tensor, y: oc.Tensor, opt: Any = opt) -> oc.Tensor:
            loss = loss_of(x, y)
            opt.step(loss)
            return loss

        compiled = oc.function(step, ctx=context, static="opt")
        losses = [float(step(oc.data(x), oc.data(y)) if eager else compiled(x, y)) for _ in range(4)]
        values += [context[w], np.array(losses)]
    np.testing.assert_allclose(values[0], values[2], rtol=1e-12)
    np.testing.assert_allclose(values[1], values[3], rtol=1e-12)
