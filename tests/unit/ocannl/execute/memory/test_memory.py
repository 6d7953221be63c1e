"""The meaning of memory: values, accumulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tensors import Array, arrays_of, param, run, total

import ocannl as oc


class TestMemory:
    def test_an_expression_is_computed_again_after_a_write(self):
        n = oc.node("n", output=3, init=1.0)
        double = 2 * n
        seen = [oc.node(f"seen{k}", output=3) for k in range(3)]
        with oc.code("writes") as code:
            seen[0][...] = double
            n += 10
            seen[1][...] = double
            n *= 2
            seen[2][...] = double
        ctx = oc.Context.cpu()
        routine = run(ctx, code)
        assert [ctx[s][0] for s in seen] == [2, 22, 44]
        routine()
        assert [ctx[s][0] for s in seen] == [44, 64, 128]

    def test_an_expression_is_computed_again_after_a_gradient_is_written(self):
        p = param("p", np.arange(3.0))
        loss = total(p * p)
        norm = total(p.grad)
        before, after = oc.node("before", output=1), oc.node("after", output=1)
        code = loss.zero_grads + oc.set(before, norm) + loss.forward + oc.set(loss.grad, 1) + loss.backprop
        ctx = oc.Context.cpu()
        routine = ctx.compile(code + oc.set(after, norm), name="norms")
        ctx.init_params(loss)
        routine()
        assert (ctx[before][0], ctx[after][0]) == (0, 6)

    def test_a_value_is_what_the_last_computation_left(self):
        n = oc.node("n", output=2, init=1.0)
        double = 2 * n
        reader = double.value + 1
        ctx = oc.Context.cpu()
        compute = ctx.compile(double.forward, name="compute")
        read = ctx.compile(oc.forward(reader), name="read")
        with pytest.raises(oc.UninitializedError):
            read()
        compute()
        ctx[n] = 10
        read()
        np.testing.assert_array_equal(ctx[reader], [3, 3])
        compute()
        read()
        np.testing.assert_array_equal(ctx[reader], [21, 21])

    def test_a_value_in_one_routine_with_its_computation(self):
        n, m = oc.node("n", output=2, init=1.0), oc.node("m", output=2)
        double = 2 * n
        with oc.code("values") as code:
            oc.run(double.forward)
            n += 5
            m[...] = double.value
        ctx = oc.Context.cpu()
        run(ctx, code)
        np.testing.assert_array_equal(ctx[m], [2, 2])

    def test_nodes_persist_across_routines(self):
        n = oc.node("n", output=3, init=0.0)
        with oc.code("add") as add:
            n += 1
        with oc.code("double") as double:
            n *= 2
        ctx = oc.Context.cpu()
        one, two = ctx.compile(add, name="one"), ctx.compile(double, name="two")
        for routine in (one, one, two, one):
            routine()
        np.testing.assert_array_equal(ctx[n], [5, 5, 5])

    def test_an_update_reads_its_old_self_everywhere(self):
        (a,) = arrays_of((4, 4))
        p = oc.param("p", a, output=4, input=4)
        with oc.code("square") as code:
            p[...] = p.T @ p
        ctx = oc.Context.cpu()
        routine = ctx.compile(code, name="square")
        ctx.init_params(code)
        routine()
        np.testing.assert_allclose(ctx[p], a.T @ a)

    @pytest.mark.parametrize(
        "update",
        [
            lambda p: p.T,
            lambda p: p - p.T,
            lambda p: p @ p @ p,
            lambda p: oc.einsum("3 -> o => i -> o", p, i=4),
            lambda p: p - oc.einsum("... -> ... => ", p),
            lambda p: p / oc.einmax("i -> o => -> o", p),
        ],
        ids=["transpose", "antisymmetric", "cube", "column", "centre", "normalize"],
    )
    def test_self_referential_updates(self, update: Callable[[oc.Tensor], oc.Tensor]):
        (a,) = arrays_of((4, 4))
        p = oc.param("p", a, output=4, input=4)
        result = update(p)
        ctx = oc.Context.cpu()
        compute = ctx.compile(oc.forward(result), name="compute")
        assign = ctx.compile(oc.set(p, update(p)), name="assign")
        ctx.init_params(p)
        compute()
        np.testing.assert_array_equal(ctx[p], a)
        assign()
        np.testing.assert_allclose(ctx[p], np.broadcast_to(ctx[result].reshape(result_shape(result)), (4, 4)))

    @pytest.mark.parametrize(("symbol", "wanted"), [("+", 7), ("-", 3), ("*", 10), ("/", 2.5)])
    def test_accumulating_assignments(self, symbol: str, wanted: float):
        n, other = oc.node("n", output=2, init=5.0), oc.data([2.0, 2.0])
        with oc.code("update") as code:
            if symbol == "+":
                n += other
            elif symbol == "-":
                n -= other
            elif symbol == "*":
                n *= other
            else:
                n /= other
        ctx = oc.Context.cpu()
        run(ctx, code)
        np.testing.assert_array_equal(ctx[n], [wanted, wanted])

    def test_two_names_of_one_update(self):
        """A later assignment sees what an earlier one wrote, an earlier one does not see later ones."""
        a, b = oc.node("a", output=1, init=1.0), oc.node("b", output=1, init=2.0)
        with oc.code("swap") as code:
            old = oc.node("old", like=a)
            old[...] = a
            a[...] = b
            b[...] = old
        ctx = oc.Context.cpu()
        routine = run(ctx, code)
        assert (ctx[a][0], ctx[b][0]) == (2, 1)
        routine()
        assert (ctx[a][0], ctx[b][0]) == (1, 2)


def result_shape(result: oc.Tensor) -> tuple[int, ...]:
    """The array's shape where a missing input row is an axis of size 1."""
    sizes = result.shape.array
    return sizes if result.shape.input or not sizes else (*sizes, 1)


class TestAccumulate:
    def accumulated(
        self, accum: str, array: Array, target_size: int, before: float = 0.5, times: int = 1, **how: Any
    ) -> Array:
        target = oc.node("target", output=target_size, init=before)
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.accumulate(target, accum, oc.data(array), **how), name="accumulate")
        for _ in range(times):
            routine()
        return ctx[target]

    def test_max_of_everything(self):
        (a,) = arrays_of((3, 4))
        for reset in (False, True):
            found = self.accumulated("max", a, 1, 9.0, spec="...|... => 0", reset=reset)
            np.testing.assert_allclose(found, [a.max() if reset else 9.0], rtol=1e-6)

    def test_add_by_a_spec(self):
        (a,) = arrays_of((3, 4))
        found = self.accumulated("add", a, 3, spec="b | o => b", times=3)
        np.testing.assert_allclose(found, 0.5 + 3 * a.sum(1), rtol=1e-6)
        found = self.accumulated("add", a, 3, spec="b | o => b", times=3, reset=True)
        np.testing.assert_allclose(found, a.sum(1), rtol=1e-6)

    def test_pointwise(self):
        (a,) = arrays_of((4,))
        np.testing.assert_allclose(self.accumulated("mul", a, 4), 0.5 * a, rtol=1e-6)
        np.testing.assert_allclose(self.accumulated("min", a, 4), np.minimum(0.5, a), rtol=1e-6)
        np.testing.assert_allclose(self.accumulated("add", a, 4, logic="."), 0.5 + a, rtol=1e-6)

    def test_transposed(self):
        (a,) = arrays_of((3, 2))
        target = oc.node("target", output=2, input=3, init=1.0)
        ctx = oc.Context.cpu()
        run(ctx, oc.accumulate(target, "add", oc.data(a, axes="oi"), logic="T"))
        np.testing.assert_allclose(ctx[target], 1 + a.T, rtol=1e-6)

    def test_at_a_fixed_position(self):
        """Other cells keep what they have, or the neutral element after a reset."""
        (a,) = arrays_of((3,))
        target = oc.node("target", output=[2, 3], init=5.0)
        for reset, rest in ((False, 5.0), (True, 0.0)):
            ctx = oc.Context.cpu()
            run(ctx, oc.accumulate(target, "add", oc.data(a), spec="i => 1 i", reset=reset))
            np.testing.assert_allclose(ctx[target], np.stack([np.full(3, rest), a + rest]), rtol=1e-6)

    def test_inside_a_block(self):
        (a,) = arrays_of((3,))
        top = oc.node("top", output=1, init=-100.0)
        n = param("p", a)
        with oc.code("top") as code:
            oc.accumulate(top, "max", oc.relu(n), spec="...->... => 0", reset=True)
            n *= 2
            oc.accumulate(top, "max", oc.relu(n), spec="...->... => 0")
        ctx = oc.Context.cpu()
        routine = ctx.compile(code, name="top")
        ctx.init_params(code)
        routine()
        np.testing.assert_allclose(ctx[top], [2 * max(a.max(), 0)], rtol=1e-6)
