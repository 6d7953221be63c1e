"""Eager mode: writes, and the meaning of expressions over them."""

from __future__ import annotations

import numpy as np
import pytest
from support.tensors import arrays_of

import ocannl as oc


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

    def test_a_gradient_that_was_not_asked_for(self):
        """It is no zero: `backward` has left it out."""
        w, x = oc.param("w", np.array([[3.0, 1.0]])), oc.tensor([1.0, 2.0])
        hidden = w @ x
        (hidden * hidden).sum().backward()
        for tensor in (x, hidden):
            with pytest.raises(oc.OcannlError, match=r"\.grad` was not asked for before backward\(\)"):
                print(tensor.grad)
            tensor.grad.zero()
        (hidden * hidden).sum().backward()
        np.testing.assert_allclose(x.grad, [30, 10])
        np.testing.assert_allclose(hidden.grad, [10])
        np.testing.assert_allclose(w.grad, 2 * np.array([[10, 20]]))

    def test_a_gradient_that_is_asked_for_after_some_rounds(self):
        """The same loss has another backward pass then."""
        w, x = oc.param("w", np.array([[3.0, 1.0]])), oc.data([[1.0, 2.0]], axes="bo")
        for step in range(4):
            if step == 2:
                x.grad.zero()
            ((w @ x) ** 2).sum().backward()
        np.testing.assert_allclose(x.grad, [[60, 20]])
        np.testing.assert_allclose(w.grad, 4 * 2 * np.array([[5, 10]]))

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

    @pytest.mark.parametrize("how", ["context", "function", "routine", "loop", "run_loop", "code"])
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
        elif how == "loop":
            assert list(context.compile(double()).loop()) == [{}]
        elif how == "run_loop":
            context.compile(double()).run_loop()
        else:
            oc.run(double())
        assert (before.item(), (3 * w).item()) == (3, 6)

    def test_each_run_of_a_loop_is_a_write(self, context: oc.Context):
        i, w = oc.index("i", 3), oc.param("w", np.array([1.0]))
        with oc.code("add") as code:
            w += oc.data(np.arange(3.0)[:, None], axes="bo")[i]
        step = context.compile(code)
        context[w] = [1.0]
        seen = [2 * w for _ in step.loop()]
        assert [value.item() for value in seen] == [2, 4, 8]

    def test_initial_values_that_are_given_again_are_a_write(self, context: oc.Context):
        w = oc.param("w", np.array([1.0]))
        context[w] = [2.0]
        before = 3 * w
        context.init_params(w, reinit=True)
        assert (before.item(), (3 * w).item()) == (6, 3)

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
            _ = 3 * w + 1
            del _
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
