"""Eager mode: numbers that change each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
from support.tensors import Array

import ocannl as oc
from ocannl import nn, train
from ocannl.program.eager.recorder import Recorder
from ocannl.train import optimizers

OPTIMIZERS = [
    name for name, made in vars(optimizers).items() if getattr(made, "__module__", "") == optimizers.__name__
]


class TestNumbers:
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

    def test_zeros_of_both_signs_are_two_numbers(self):
        """In operators, their parts, functions that are remembered and memory that is set."""
        x, m = oc.tensor([1.0, 2.0]), oc.node("m", output=2)
        zeros = 0.0, -0.0
        for make in (
            lambda zero: oc.copysign(x, zero),
            lambda zero: x * zero,
            lambda zero: oc.where(x < 0, x, zero),
            lambda zero: nn.leaky_relu(-x, slope=-zero),
            lambda zero: oc.clip(x, zero, zero),
            lambda zero: x[:1] @ zero,
        ):
            found = [bool(np.signbit(make(zero).numpy()).any()) for zero in zeros]
            assert found == [False, True], make
        for zero in zeros:
            m[...] = zero
            assert bool(np.signbit(m.numpy()).all()) == bool(np.signbit(zero))

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
        # What a number that is not an integer gives is not an integer.
        np.testing.assert_allclose((n + 0.5).numpy(), [1.5, 2.5, 3.5])

    def test_numbers_of_many_expressions_that_nobody_looks_at(self, compiled: list[str]):
        """Their data are free when something runs. Which are is not searched for; the oldest are taken."""
        x, kind = oc.data(np.ones(3)), Recorder.is_free
        for k in range(60):
            _ = x * (0.5 * k)
        for k in (0.7, 0.9):
            (x * k).numpy()
        compiled.clear()
        with patch.object(Recorder, "is_free", autospec=True, side_effect=kind) as asked:
            for k in range(9):
                np.testing.assert_array_equal((x * (0.1 * k)).numpy(), np.full(3, 0.1 * k))
        assert asked.call_count < 9 * 10
        assert compiled == []

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

    POINTWISE = (
        lambda x, k: (k + x, k - x, x * k, x / k, x % k, x // k),
        lambda x, k: (oc.abs(x) ** k, k**x, x < k, oc.maximum(x, k), oc.atan2(x, k), oc.fma(x, k, k + 1)),
        lambda x, k: (
            oc.where(x > k, k, k + 1),
            oc.where(x > k, 0.5 + k, k) * oc.tensor([0.1]),
            oc.clip(x, k, 9),
        ),
    )

    @pytest.mark.sampled(7)
    @pytest.mark.parametrize("apply", POINTWISE)
    @pytest.mark.parametrize("dtype", ["float16", "int32", "bool"])
    def test_they_are_as_if_they_were_part_of_the_program(self, apply: Any, dtype: str, compiled: list[str]):
        """The same element types, too: a number takes that of what it stands beside."""
        array = np.array([1, 2, 0]).astype(dtype)
        wanted: list[Array] = []
        for k in (0.1, 0.3, 0.7, 1.3, 2.3):
            with oc.eager(False):
                wanted = [np.asarray(one.numpy()) for one in apply(oc.data(array), k)] if k > 1 else []
            compiled.clear()
            found = [one.numpy() for one in apply(oc.data(array), k)]
            for one, other in zip(wanted, found, strict=False):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)
        assert wanted
        assert compiled == []

    def test_integers_beside_integers(self, compiled: list[str]):
        n = oc.data(np.array([1, 2, 3], np.int8))
        for k in range(1, 10):
            found = [n + k, n * k, n // k, k - n, oc.where(n > k, n, k), k @ n]
            assert {one.dtype for one in found[:5]} == {np.dtype(np.int8)}
            assert [one.numpy()[0].item() for one in found[:5]] == [1 + k, k, 1 // k, k - 1, max(1, k)]
            if k == 6:
                compiled.clear()
        assert compiled == []
        with pytest.raises(oc.PrecisionError, match="300 is no number of type i8"):
            (n + 300).numpy()

    def test_exponents(self, compiled: list[str]):
        """Small ones are products, and part of the program; there are few of them."""
        w = oc.param("w", np.array([1.0, 2.0, 3.0]))
        exponents = [2.0, 3.0, 0.5, 1.5, 2.0, 0.7, 3.0, 2.25, 4.0, 2.0, 5.0]
        for number, k in enumerate(exponents):
            if number == 7:
                compiled.clear()
            (w**k).sum().backward()
            np.testing.assert_allclose(w.grad.numpy(), k * np.array([1.0, 2.0, 3.0]) ** (k - 1), rtol=1e-12)
            w.grad.zero()
        assert compiled == []

    def test_constants_are_numbers(self, compiled: list[str]):
        for k in range(9):
            x = oc.tensor([1.0, 2.0, 3.0])
            shifted = (x * oc.constant(0.5 * k) + oc.constant(1.0)).sum().item()
            product = (oc.constant(0.5 * k) @ x).item()
            assert (shifted, product) == (3 * k + 3, 3 * k)
            if k == 6:
                compiled.clear()
        assert compiled == []

    @pytest.mark.exhaustive
    def test_options_of_blocks(self, compiled: list[str]):
        array = np.random.default_rng(0).normal(size=(3, 4))
        losses: list[Any] = [
            lambda x, k: nn.softmax(temperature=0.5 + k)(x),
            lambda x, k: nn.leaky_relu(x, slope=0.1 * k),
            lambda x, k: nn.huber(x, 0.1 * k, delta=0.5 + k),
            lambda x, k: nn.dropout(rate=0.1 + 0.1 * k)(x, train_step=k),
            lambda x, k: x + oc.uniform(k, key="noise", like=x),
        ]
        for k in range(7):
            for apply in losses:
                assert np.isfinite(apply(oc.data(array), k).numpy()).all()
            if k == 4:
                compiled.clear()
        assert compiled == []


class TestOptimizers:
    """Of rules two of whose numbers are beside the same operand, as momentum and rate are beside a moment."""

    RULES: ClassVar[list[Callable[[], train.Optimizer]]] = [
        lambda: train.sgd(0.1, momentum=0.5),
        lambda: train.adamw(0.1, weight_decay=0.2),
        lambda: train.rmsprop(0.01, momentum=0.9),
    ]

    @staticmethod
    def losses(make: Callable[[], train.Optimizer], is_eager: bool, change: Any = None) -> list[float]:
        """Those of some steps by new data each, which are made while those before are still there."""
        arrays = np.random.default_rng(0).normal(size=(8, 4, 3))
        w, found, optimizer = oc.param("w", np.ones((1, 3)), output=1, input=3), list[float](), make()

        def step(x: oc.Tensor) -> oc.Tensor:
            loss = ((w @ x - 1.0) ** 2).mean()
            optimizer.step(loss)
            return loss

        with oc.Context.cpu(threads=1), oc.eager(is_eager):
            run = step if is_eager else oc.function(step)
            for n, array in enumerate(arrays):
                if change is not None:
                    change(optimizer, n)
                x = oc.data(array) if is_eager else array
                found.append(float(run(x)))
        return found

    @pytest.mark.parametrize("make", RULES)
    def test_they_are_those_of_a_function(self, make: Callable[[], train.Optimizer]):
        np.testing.assert_allclose(self.losses(make, True), self.losses(make, False), rtol=1e-12)

    def test_settings_that_change(self, compiled: list[str]):
        """A rate compiles nothing in the end, and is that of the step."""

        def change(optimizer: train.Optimizer, n: int) -> None:
            optimizer.lr = 0.1 / (1 + n)
            if n == 5:
                compiled.clear()

        def scheduled() -> train.Optimizer:
            return train.sgd(lambda n: 0.1 / (1 + n), momentum=0.5)

        found = self.losses(self.RULES[0], True, change)
        assert compiled == []
        np.testing.assert_allclose(found, self.losses(scheduled, False), rtol=1e-12)

    def test_rates_that_change_are_the_same_code(self):
        """One that is a whole number in between, and those of groups, in each context."""
        w, b = oc.param("w", np.ones((1, 3)), output=1, input=3), oc.param("b", [0.5])
        optimizer = train.sgd(1.0, groups={"b": {"lr": 0.5}})
        x, codes = oc.data([1.0, 2.0, 3.0]), list[oc.Code]()
        for _ in range(2):
            with oc.Context.cpu(threads=1) as ctx:
                ctx[w], ctx[b] = np.ones((1, 3)), [0.5]
                for rate in (0.25, 1, 0.5, 0.125):
                    optimizer.lr, optimizer.groups["b"]["lr"] = rate, rate / 2
                    before = w.numpy(), b.numpy()
                    loss = (w @ x).sum() + 3 * b.sum()
                    codes.append(optimizer.step(loss))
                    np.testing.assert_allclose(w.numpy(), before[0] - rate * x.numpy())
                    np.testing.assert_allclose(b.numpy(), before[1] - rate / 2 * 3)
        assert len(set(map(id, codes))) == 2

    def test_rates_that_change_are_exact_in_each_type(self):
        a, b = (oc.param(n, np.ones(1, dtype)) for n, dtype in (("a", np.float32), ("b", np.float64)))
        optimizer = train.sgd(0.1, count_each=True)
        optimizer.step((a * a).sum())
        optimizer.lr = 0.3
        optimizer.step((a * a).sum())
        optimizer.step((b * b).sum())
        assert b.item() == 1 - 0.3 * 2
        assert a.item() == np.float32(0.8) - np.float32(0.3) * np.float32(1.6)

    @pytest.mark.parametrize("rate", [-0.5, float("nan"), 10**400, "0.1"], ids=lambda rate: str(rate)[:4])
    def test_rates_that_are_set_are_checked(self, rate: Any):
        w, optimizer = oc.param("w", np.ones(1)), train.sgd(0.1, groups={"w": {"lr": 0.1}})
        optimizer.step((w * w).sum())
        before = w.item()
        for of_group, of_others in ((rate, 0.1), (0.1, rate)):
            optimizer.groups["w"]["lr"], optimizer.lr = of_group, of_others
            with pytest.raises(oc.ArgumentError, match="lr of sgd is"):
                optimizer.step((w * w).sum())
        assert w.item() == before

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name[0] != "_"])
    def test_every_optimizer_takes_other_rates(self, name: str):
        w, optimizer = oc.param("w", np.ones((2, 2)), output=2, input=2), getattr(train, name)(0.1)
        x = oc.data(np.ones(2))
        for rate in (0.1, 0.03, np.float32(0.07), 0.01):
            optimizer.lr = rate
            optimizer.step(((w @ x) ** 2).sum())
        assert np.isfinite(w.numpy()).all()
        assert (w.numpy() != 1).any()

    def test_a_norm_that_is_clipped_later(self):
        def change(optimizer: train.Optimizer, n: int) -> None:
            optimizer.clip_norm = None if n < 4 else 0.01

        found, without = (self.losses(self.RULES[0], True, one) for one in (change, None))
        assert found[:5] == without[:5]
        assert abs(found[6] - without[6]) > 1e-3
