"""Functions that write memory: parameters, statistics, moments and counters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import random_reference
from support.tensors import Array, arrays_of, param, total

import ocannl as oc
from ocannl import nn, train


@pytest.fixture
def ctx() -> oc.Context:
    return oc.Context.cpu(threads=1)


class TestUpdates:
    def step(self, ctx: oc.Context, momentum: float = 0.0) -> tuple[Any, oc.Tensor]:
        w = param("w", np.array([1.0, -2.0]))

        @oc.function(ctx=ctx)
        def step(x: oc.Tensor) -> Any:
            loss = total((w * x - 1) ** 2).named("loss")
            train.grad_update(loss)
            train.sgd_update(loss, learning_rate=0.1, momentum=momentum)
            return {"before": loss, "after": total((w * x - 1) ** 2), "w": w}

        return step, w

    def test_a_loss_is_the_one_before_its_update(self, ctx: oc.Context):
        step, w = self.step(ctx)
        value, x = np.array([1.0, -2.0]), np.array([0.5, 1.5])
        for _ in range(3):
            before = ((value * x - 1) ** 2).sum()
            value = value - 0.1 * 2 * x * (value * x - 1)
            found = step(x)
            np.testing.assert_allclose(found["before"], [before])
            np.testing.assert_allclose(found["after"], [((value * x - 1) ** 2).sum()])
            np.testing.assert_allclose(found["w"], value)
            np.testing.assert_allclose(ctx[w], value)

    def test_state_is_shared_by_signatures(self, ctx: oc.Context):
        """A smaller batch continues the momentum that a larger one began."""
        one, w = self.step(ctx, momentum=0.9)
        apart = oc.Context.cpu()
        other, v = self.step(apart, momentum=0.9)
        x = np.array([0.5, 1.5])
        for number in range(6):
            one(x[None] if number % 2 else x)
            other(x)
        np.testing.assert_allclose(ctx[w], apart[v])
        assert len(one.signatures()) == 2

    def test_its_state_is_that_of_its_code(self, ctx: oc.Context):
        step, w = self.step(ctx, momentum=0.9)
        assert list(oc.state(step)) == ["w"]
        step(np.ones(2))
        found = oc.state(step)
        assert found["w"] == w
        assert set(found.kinds.values()) == {"parameter", "moment"}

    def test_parameters_that_are_made_inside_are_shared_by_signatures(self, ctx: oc.Context):
        layer = oc.function(lambda x: nn.linear(out_dim=3)(x), ctx=ctx)
        x = arrays_of((4, 2))[0].astype(np.float32)
        np.testing.assert_array_equal(layer(x)[:2], layer(x[:2]))

    def test_parameters_without_a_value_get_one_by_the_seed(self):
        def first(seed: int) -> Array:
            oc.seed(seed)
            try:
                return oc.function(lambda x: nn.linear(out_dim=2, label="l")(x), ctx=oc.Context.cpu())(
                    np.ones(3)
                )
            finally:
                oc.seed(1)

        np.testing.assert_array_equal(first(1), first(1))
        assert not np.array_equal(first(1), first(2))

    def test_a_value_that_was_set_stays(self, ctx: oc.Context):
        w = oc.param("w", output=2, input=[])
        ctx[w] = [5.0, 6.0]
        np.testing.assert_array_equal(oc.function(lambda: w + 0, ctx=ctx)(), [5, 6])

    def test_gradients_of_before_update_all_parameters_beside_their_loss(self, ctx: oc.Context):
        """Each is computed, as the loss is, before the first parameter changes."""
        v, w = param("v", np.array([2.0])), param("w", np.array([3.0]))

        @oc.function(ctx=ctx)
        def descend(x: oc.Tensor) -> Any:
            loss = total(v * w * x)
            of_v, of_w = oc.grad(loss, [v, w])
            v[...] = v - 0.1 * of_v
            w[...] = w - 0.1 * of_w
            return loss, of_w, v, w

        np.testing.assert_allclose(np.ravel(descend(np.array([5.0]))), [30, 10, 2 - 1.5, 3 - 1.0])

    @pytest.mark.parametrize(
        ("label", "told"), [("loss", "`loss`"), (None, "the expression made at .*py:[0-9]*")]
    )
    def test_a_derivative_of_what_was_before_a_write_is_an_error(
        self, label: str | None, told: str, ctx: oc.Context
    ):
        w = param("w", np.array([1.0]))

        @oc.function(ctx=ctx)
        def twice(x: oc.Tensor) -> oc.Tensor:
            loss = total(w * x)
            loss = loss if label is None else loss.named(label)
            for _ in range(2):
                train.grad_update(loss)
                train.sgd_update(loss, learning_rate=0.1)
            return loss

        with pytest.raises(
            oc.OcannlError, match=f"{told} was computed before memory that it reads was written at"
        ):
            twice(np.ones(1))

    def test_two_losses_one_after_the_other(self, ctx: oc.Context):
        w = param("w", np.array([1.0]))

        @oc.function(ctx=ctx)
        def twice(x: oc.Tensor) -> list[oc.Tensor]:
            found: list[oc.Tensor] = []
            for _ in range(2):
                loss = total(w * w * x)
                train.grad_update(loss)
                train.sgd_update(loss, learning_rate=0.1)
                found.append(loss)
            return found

        np.testing.assert_allclose(np.ravel(twice(np.ones(1))), [1, 0.64])

    def test_expressions_keep_their_meaning_between_writes(self, ctx: oc.Context):
        n = oc.node("n", output=1, init=1.0)

        @oc.function(ctx=ctx)
        def count() -> tuple[Any, ...]:
            double = 2 * n
            with oc.code("one"):
                oc.accumulate(n, "add", 10.0)
            again = 2 * n
            oc.set(n, double + n)
            return double, again, double + again, 2 * n

        assert [float(each[0]) for each in count()] == [2, 22, 24, 26]
        assert ctx[n] == 13

    def test_code_of_a_block_is_as_outside(self, ctx: oc.Context):
        """Inside of one block of code, expressions are computed where they are used."""
        n = oc.node("n", output=1, init=1.0)
        seen = oc.node("seen", output=1)
        double = 2 * n

        @oc.function(ctx=ctx)
        def count() -> oc.Tensor:
            with oc.code("two statements"):
                oc.accumulate(n, "add", 10.0)
                oc.set(seen, double)
            return seen

        assert count() == 22

    def test_dropout_by_an_argument(self, ctx: oc.Context):
        drop = oc.function(lambda x, at: nn.dropout(rate=0.5)(x, train_step=at), ctx=ctx)
        x = np.ones(64, np.float32)
        np.testing.assert_array_equal(drop(x, 1), drop(x, 1))
        assert not np.array_equal(drop(x, 1), drop(x, 2))

    def test_random_numbers_do_not_depend_on_which_size_came_first(self):
        def masks(sizes: list[int]) -> dict[int, Any]:
            layer = nn.dropout(rate=0.5)

            @oc.function(ctx=oc.Context.cpu(threads=1))
            def twice(x: oc.Tensor, at: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
                return layer(x, train_step=at), layer(x, train_step=at)

            return {size: twice(np.ones((size, 32), np.float32), 3) for size in sizes}

        begun, resumed = masks([4, 2]), masks([2, 4])
        for size in (2, 4):
            np.testing.assert_array_equal(begun[size], resumed[size])
            assert not np.array_equal(*begun[size])

    def test_random_numbers_do_not_depend_on_which_function_came_first(self):
        """As where a run is resumed before a validation or a smaller batch that has a function of its own."""

        def masks(first_called: str) -> dict[str, Any]:
            layer, ctx = nn.dropout(rate=0.5), oc.Context.cpu(threads=1)

            def dropped(x: oc.Tensor, at: oc.Tensor) -> oc.Tensor:
                return layer(x, train_step=at)

            functions = {name: oc.function(dropped, ctx=ctx, name=name) for name in ("whole", "rest")}
            order = sorted(functions, key=lambda name: name != first_called)
            return {name: functions[name](np.ones(64, np.float32), 3) for name in order}

        begun, resumed = masks("whole"), masks("rest")
        for name in begun:
            np.testing.assert_array_equal(begun[name], resumed[name])
        assert not np.array_equal(begun["whole"], begun["rest"])

    def test_random_numbers_are_those_of_a_functions_name(self):
        """Also where a notebook makes it again; methods have the name of their class in front."""

        class Model:
            def noise(self, at: oc.Tensor) -> oc.Tensor:
                return oc.uniform(at, output=8)

        def noise(at: oc.Tensor) -> oc.Tensor:
            return oc.uniform(at, output=8)

        ctx = oc.Context.cpu(threads=1)
        functions = [oc.function(each, ctx=ctx) for each in (noise, noise, Model().noise)]
        functions.append(oc.function(noise, ctx=ctx, name="other"))
        for each, name in zip(functions, ("noise", "noise", "Model.noise", "other"), strict=True):
            wanted = random_reference.uniform(f"uniform@{name}#1", 1, (8,))
            np.testing.assert_array_equal(each(1), wanted)


class TestCalledWithTensors:
    def test_an_update_that_nothing_would_run_is_an_error(self):
        w, optimizer = oc.param("w", np.ones(3)), train.sgd(lr=0.1)

        @oc.function
        def step(x: oc.Tensor) -> oc.Tensor:
            loss = oc.mean((w * x) ** 2)
            optimizer.step(loss)
            return loss

        x = oc.data(np.ones(3))
        with pytest.raises(oc.OcannlError, match="nothing would run it"):
            step(x)
        step(x.numpy())
        assert (w.numpy() < 1).all()

    def test_code_that_is_returned_or_belongs_to_a_block_is_run_by_that(self):
        n = oc.node("n", output=())

        def count(x: oc.Tensor) -> oc.Code:
            with oc.code() as code:
                n[...] = n + x
            return code

        counting, x, ctx = oc.function(count), oc.data(2.0), oc.Context.cpu()
        ctx[n] = 0.0
        ctx.compile(counting(x))()
        with oc.code() as both:
            counting(x)
        ctx.compile(both)()
        assert float(ctx[n]) == 4.0

    def test_expressions_are_made_as_by_any_function(self):
        double = oc.function(lambda x: 2 * x)
        np.testing.assert_array_equal(double(oc.data([1.0, 2.0])).numpy(), [2.0, 4.0])
