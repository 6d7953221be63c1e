"""Contexts, routines and what memory means."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train
from ocannl.lowering.pipelines import stage_names

Array = NDArray[Any]
TOTAL = "...|...->... => 0"
PASSES = [name for name in stage_names("cpu") if "-" in name]


def arrays_of(*shapes: tuple[int, ...], seed: int = 3) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(-2, 2, shape)) for shape in shapes]


def param(name: str, array: Array) -> oc.Tensor:
    return oc.param(name, array, output=list(array.shape), input=[], dtype=np.float64)


def total(tensor: oc.Tensor) -> oc.Tensor:
    return tensor.einsum(TOTAL)


def run(ctx: oc.Context, code: oc.Code, name: str = "routine") -> oc.Routine:
    routine = ctx.compile(code, name=name)
    routine()
    return routine


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


class TestIndices:
    def table(self) -> tuple[oc.Index, oc.Index, oc.Index, oc.Tensor, oc.Routine, oc.Context]:
        """A routine that looks up `table[a][b]` and adds 1000 times an unranged index."""
        a, b, step = oc.index("a", 2), oc.index("b", 3), oc.index("step")
        data = oc.data(np.arange(6.0).reshape(2, 3, 1), label="table")
        result = data[a][b] + 1000 * step
        ctx = oc.Context.cpu()
        return a, b, step, result, ctx.compile(oc.forward(result), name="look"), ctx

    def test_a_call_sets_indices(self):
        a, b, step, result, look, ctx = self.table()
        look(a=1, b=2, step=7)
        assert float(ctx[result]) == 7005
        assert (look[a], look[b], look[step]) == (1, 2, 7)
        look()
        assert float(ctx[result]) == 7005
        look[b] -= 1
        look[step] = 0
        look()
        assert float(ctx[result]) == 4

    def test_indices_begin_at_zero(self):
        *_, result, look, ctx = self.table()
        look()
        assert float(ctx[result]) == 0

    def test_the_last_index_declared_varies_fastest(self):
        a, b, _, result, look, ctx = self.table()
        seen = [(dict(at), float(ctx[result])) for at in look.loop()]
        assert [value for _, value in seen] == list(range(6))
        assert [at for at, _ in seen] == [{a: m, b: n} for m in range(2) for n in range(3)]

    def test_declaration_decides_not_use(self):
        outer, inner = oc.index("outer", 2), oc.index("inner", 3)
        data = oc.data(np.arange(6.0).reshape(3, 2, 1))
        result = data[inner][outer]
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(result), name="routine")
        assert [float(ctx[result]) for _ in routine.loop()] == [0, 2, 4, 1, 3, 5]
        np.testing.assert_array_equal(np.ravel(routine.run_loop(record=[result])[result]), [0, 2, 4, 1, 3, 5])

    def test_run_loop_is_the_loop(self):
        *_, step, result, look, ctx = self.table()
        wanted = []
        for _ in range(2):
            for _ in look.loop():
                wanted.append(float(ctx[result]))
                look[step] += 1
        look[step] = 0
        record = look.run_loop(epochs=2, advance=[step], record=[result])
        np.testing.assert_array_equal(np.ravel(record[result]), wanted)
        assert look[step] == 12

    def test_the_loop_gives_indices_back(self):
        a, b, step, _, look, _ = self.table()
        look[a], look[b], look[step] = 1, 2, 3
        for _ in look.loop():
            pass
        assert (look[a], look[b], look[step]) == (1, 2, 3)
        look.run_loop(epochs=1)
        assert (look[a], look[b], look[step]) == (1, 2, 3)

    def test_a_loop_left_early_gives_indices_back(self):
        a, b, _, _, look, _ = self.table()
        look[b] = 2
        for at in look.loop():
            if at[a] == 1:
                break
        assert (look[a], look[b]) == (0, 2)

    def test_changes_to_an_unranged_index_in_a_loop_are_seen(self):
        *_, step, result, look, ctx = self.table()
        values = []
        for _ in look.loop():
            values.append(float(ctx[result]))
            look[step] += 1
        assert values == [1001 * k for k in range(6)]

    def test_a_record_keeps_arrays(self):
        i = oc.index("i", 4)
        (a,) = arrays_of((4, 3))
        x = oc.data(a, label="x")
        result = total(2 * x[i])
        middle = 2 * x[i]
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(result) + oc.forward(middle), name="routine")
        record = routine.run_loop(epochs=3, record=[result, middle])
        np.testing.assert_allclose(record[middle], np.tile(2 * a, (3, 1)))
        np.testing.assert_allclose(record[result].reshape(12), np.tile(2 * a.sum(1), 3))

    def test_a_record_of_what_the_routine_does_not_keep(self):
        i = oc.index("i", 4)
        (a,) = arrays_of((4, 3))
        middle = 2 * oc.data(a, label="x")[i]
        result = total(middle)
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(result), name="routine")
        record = routine.run_loop(record=[result, middle])
        np.testing.assert_allclose(record[middle], 2 * a)

    def test_a_record_of_an_expression_of_later(self):
        i = oc.index("i", 4)
        (a,) = arrays_of((4, 3))
        result = 2 * oc.data(a, label="x")[i]
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(result), name="routine")
        later = total(result) + 1
        try:
            record = routine.run_loop(record=[later])
        except oc.OcannlError:
            return
        np.testing.assert_allclose(record[later].reshape(4), 2 * a.sum(1) + 1)

    def test_a_learning_rate_is_one_number(self):
        """It does not take the shape of what it is multiplied with."""
        i, step = oc.index("i", 4), oc.index("step")
        (a,) = arrays_of((4, 5, 3))
        w = oc.param("w", output=2)
        loss = total(w @ oc.data(a, label="x")[i]) / 5
        rate = 0.1 * (20 - step) / 20
        ctx = oc.Context.cpu()
        update = train.grad_update(loss) + train.sgd_update(loss, learning_rate=rate)
        routine = ctx.compile(update, name="step")
        ctx.init_params(loss)
        record = routine.run_loop(advance=[step], record=[rate, loss])
        assert record[rate].size == 4
        np.testing.assert_allclose(record[rate].reshape(4), [0.1, 0.095, 0.09, 0.085], rtol=1e-6)

    @pytest.mark.parametrize("value", [-1, 3, 10**6, 2**80])
    def test_out_of_range(self, value: int):
        _, b, *_, look, _ = self.table()
        with pytest.raises(oc.OcannlError, match=r"\bb\b"):
            look(b=value)
        with pytest.raises(oc.OcannlError, match=r"\bb\b"):
            look[b] = value
        assert look[b] == 0
        look()

    def test_an_unranged_index_stays_inside_the_data(self):
        s = oc.index("s")
        result = oc.data(np.arange(6.0).reshape(3, 2))[s] * 2
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(result), name="routine")
        routine(s=2)
        for value in (-1, 3):
            with pytest.raises(oc.OcannlError):
                routine(s=value)
        routine[s] = 1
        with pytest.raises(oc.OcannlError):
            routine.run_loop(epochs=3, advance=[s])
        record = routine.run_loop(epochs=2, advance=[s], record=[result])
        np.testing.assert_array_equal(record[result].reshape(2, 2), [[4, 6], [8, 10]])

    def test_other_names_are_errors(self):
        *_, look, _ = self.table()
        with pytest.raises(oc.OcannlError, match="other"):
            look(other=1)
        with pytest.raises(oc.OcannlError, match="other"):
            look[oc.index("other")] = 1
        with pytest.raises(oc.OcannlError, match="other"):
            look.run_loop(advance=[oc.index("other")])

    def test_an_index_with_two_ranges(self):
        one, two = oc.index("k", 3), oc.index("k", 2)
        x = oc.data(np.ones((3, 2)))
        with pytest.raises(oc.OcannlError, match="k"):
            oc.Context.cpu().compile(x[one] * two)

    def test_a_range_that_is_not_the_axis(self):
        with pytest.raises(oc.ShapeError):
            _ = oc.data(np.ones((3, 2)))[oc.index("k", 4)]

    def test_large_steps_keep_their_value(self):
        step = oc.index("step")
        result = step * oc.data(np.ones(1))
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(result), name="routine")
        routine(step=2**40 + 1)
        assert float(ctx[result]) == 2**40 + 1


def torch_sgd(
    p: Array,
    gradients: Callable[[Array], Array],
    steps: int,
    rate: float,
    momentum: float,
    decay: float,
    nesterov: bool,
) -> Array:
    """The update rule of PyTorch's `optim.SGD`, as its documentation has it."""
    buffer = None
    for _ in range(steps):
        g = gradients(p) + decay * p
        if momentum:
            buffer = g.copy() if buffer is None else momentum * buffer + g
            g = g + momentum * buffer if nesterov else buffer
        p = p - rate * g
    return p


class TestTraining:
    @pytest.mark.parametrize("apart", [False, True], ids=["one routine", "two routines"])
    @pytest.mark.parametrize(
        ("momentum", "decay", "nesterov"),
        [
            (0, 0, False),
            (0, 0.1, False),
            (0.9, 0, False),
            (0.9, 0.1, False),
            (0.9, 0, True),
            (0.5, 0.1, True),
        ],
    )
    def test_sgd(self, momentum: float, decay: float, nesterov: bool, apart: bool):
        a, x, y = arrays_of((2, 3), (5, 3), (5, 2))
        w = oc.param("w", a, output=2, input=3)
        loss = total((w @ oc.data(x) - oc.data(y)) ** 2) / 5
        update = train.sgd_update(
            loss, learning_rate=0.05, momentum=momentum, weight_decay=decay, nesterov=nesterov
        )
        ctx = oc.Context.cpu()
        parts = [train.grad_update(loss), update] if apart else [train.grad_update(loss) + update]
        routines = [ctx.compile(part, name="step") for part in parts]
        ctx.init_params(loss)
        for _ in range(7):
            for routine in routines:
                routine()
        wanted = torch_sgd(a, lambda p: 2 / 5 * (x @ p.T - y).T @ x, 7, 0.05, momentum, decay, nesterov)
        np.testing.assert_allclose(ctx[w], wanted, rtol=1e-10)

    def test_momenta_of_two_contexts_are_their_own(self):
        p = param("p", np.ones(3))
        loss = total(p * p)
        code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)
        results = []
        for steps in (3, 5, 3):
            ctx = oc.Context.cpu()
            routine = ctx.compile(code, name="step")
            ctx.init_params(loss)
            for _ in range(steps):
                routine()
            results.append(ctx[p])
        np.testing.assert_array_equal(results[0], results[2])
        assert not np.array_equal(results[0], results[1])

    def test_the_update_of_the_original(self):
        """The code block of the API's page, with a node that is written twice."""
        p = param("p", np.array([1.0, -2.0]))
        loss = total(p * p)
        momentum, nesterov, rate = 0.9, True, 0.1
        with oc.code("sgd step") as sgd:
            delta = oc.node("sgd_delta", like=p)
            delta[...] = p.grad + 0.01 * p
            m = oc.node("sgd_momentum", like=p)
            m[...] = momentum * m + delta
            delta[...] = (delta + momentum * m) if nesterov else m
            p -= rate * delta
        ctx = oc.Context.cpu()
        routine = ctx.compile(train.grad_update(loss) + sgd, name="step")
        ctx.init_params(loss)
        for _ in range(4):
            routine()
        wanted = torch_sgd(np.array([1.0, -2.0]), lambda q: 2 * q, 4, rate, momentum, 0.01, nesterov)
        np.testing.assert_allclose(ctx[p], wanted)

    def test_forward_once_and_update_once(self):
        x = oc.data(np.ones((4, 3)), label="x")
        y = nn.mlp(hid_dims=[5, 6], out_dim=2)(x)
        loss = total(y * y)
        ctx = oc.Context.cpu()
        train.forward_once(ctx, y)
        first = ctx[y]
        assert first.shape == (4, 2)
        train.update_once(ctx, loss)
        np.testing.assert_allclose(float(ctx[loss]), np.sum(first * first))
        for label, p in oc.params(loss).items():
            assert ctx[p.grad].shape == ctx[p].shape, label

    def test_training_one_set_and_looking_at_another(self):
        """The same blocks over other data, in a routine of their own."""
        (x,) = arrays_of((20, 2))
        layer = nn.mlp_layer(hid_dim=4, label="l1")
        one = layer(oc.data(x[:10]))
        other = layer(oc.data(x[10:]))
        ctx = oc.Context.cpu()
        train.forward_once(ctx, one)
        before = ctx[other]
        loss = total(one)
        run(ctx, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
        after = ctx[other]
        assert before.shape == after.shape == (10, 4)
        assert not np.array_equal(before, after)
        assert len(oc.params(one + 0)) == 2


class TestContexts:
    def test_values_are_copies(self):
        x = oc.data(np.zeros(3), label="x")
        ctx = oc.Context.cpu()
        np.asarray(ctx[x])[...] = 7
        np.testing.assert_array_equal(ctx[x], np.zeros(3))

    def test_data_do_not_follow_the_array(self):
        """A context has its own copy from the first routine on."""
        a = np.zeros(3)
        x = oc.data(a, label="x")
        y = x + 1
        ctx = oc.Context.cpu()
        routine = run(ctx, oc.forward(y))
        a[...] = 5
        routine()
        np.testing.assert_array_equal(ctx[y], np.ones(3))

    def test_setting_converts(self):
        p = oc.param("p", output=3, input=[])
        ctx = oc.Context.cpu()
        y = 2 * p
        routine = ctx.compile(oc.forward(y), name="double")
        ctx[p] = np.array([1, 2, 3], np.int64)
        routine()
        assert ctx[p].dtype == np.float32
        np.testing.assert_array_equal(ctx[y], [2, 4, 6])
        ctx[p] = [0.5, 0.25, 0.1]
        routine()
        np.testing.assert_allclose(ctx[y], [1, 0.5, 0.2], rtol=1e-6)
        ctx[p] = 4
        routine()
        np.testing.assert_array_equal(ctx[y], [8, 8, 8])
        ctx[p] = np.asfortranarray(np.arange(6.0).reshape(2, 3))[1]
        routine()
        np.testing.assert_array_equal(ctx[y], [6, 8, 10])

    @pytest.mark.parametrize("shape", [(2,), (4,), (1, 3), (3, 1), (0,)])
    def test_setting_another_shape_is_an_error(self, shape: tuple[int, ...]):
        p = oc.param("p", output=3, input=[])
        ctx = oc.Context.cpu()
        with pytest.raises(oc.ShapeError, match="p"):
            ctx[p] = np.ones(shape)
        ctx[p] = np.ones(3)

    def test_setting_an_expression_is_an_error(self):
        p = oc.param("p", output=3, input=[])
        with pytest.raises(oc.OcannlError):
            oc.Context.cpu()[p + 1] = np.ones(3)

    def test_data_can_be_set(self):
        x = oc.data(np.zeros(3), label="x")
        y = x + 1
        ctx, other = oc.Context.cpu(), oc.Context.cpu()
        routine = run(ctx, oc.forward(y))
        ctx[x] = [1, 2, 3]
        routine()
        np.testing.assert_array_equal(ctx[y], [2, 3, 4])
        np.testing.assert_array_equal(other[y], [1, 1, 1])

    def test_an_expression_that_no_routine_keeps(self):
        p = param("p", np.arange(3.0))
        ctx = oc.Context.cpu()
        with pytest.raises(oc.UninitializedError, match="p"):
            _ = ctx[p * 2]
        ctx.init_params(p)
        np.testing.assert_array_equal(ctx[p * 2], [0, 2, 4])

    def test_asking_for_an_expression_gives_its_present_value(self):
        """An expression that no routine keeps is computed from present memory each time."""
        p = param("p", np.ones(3))
        y = 2 * p
        ctx = oc.Context.cpu()
        ctx.init_params(p)
        np.testing.assert_array_equal(ctx[y], [2, 2, 2])
        ctx[p] = 5
        np.testing.assert_array_equal(ctx[y], [10, 10, 10])

    def test_two_contexts_are_independent(self):
        p = oc.param("p", output=3, input=[])
        y = 2 * p
        one, two = oc.Context.cpu(), oc.Context.cpu(threads=2)
        routines = [ctx.compile(oc.forward(y), name="double") for ctx in (one, two)]
        one[p], two[p] = 1, 10
        for routine in routines:
            routine()
        assert (one[y][0], two[y][0]) == (2, 20)
        one[p] = 3
        assert two[p][0] == 10
        with pytest.raises(oc.UninitializedError):
            _ = oc.Context.cpu()[p]

    def test_uninitialized(self):
        w = oc.param("w", output=2)
        y = w @ oc.data(np.ones((4, 3)))
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(y), name="forward")
        with pytest.raises(oc.UninitializedError, match="w"):
            routine()
        with pytest.raises(oc.UninitializedError, match="w"):
            list(routine.loop())
        with pytest.raises(oc.UninitializedError, match="w"):
            routine.run_loop()
        ctx.init_params(y)
        routine()

    def test_an_uninitialized_node(self):
        n = oc.node("scratch", output=2)
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(n * 2), name="read")
        with pytest.raises(oc.UninitializedError, match="scratch"):
            routine()
        ctx[n] = [1, 2]
        routine()

    def test_an_uninitialized_gradient(self):
        p = param("p", np.ones(3))
        loss = total(p * p)
        ctx = oc.Context.cpu()
        ctx.init_params(p)
        update = ctx.compile(train.sgd_update(loss, learning_rate=0.1), name="update")
        with pytest.raises(oc.UninitializedError, match="p"):
            update()
        run(ctx, train.grad_update(loss))
        update()
        np.testing.assert_allclose(ctx[p], 0.8 * np.ones(3))

    def test_one_routine_writes_what_another_reads(self):
        n, m = oc.node("n", output=2), oc.node("m", output=2)
        ctx = oc.Context.cpu()
        read = ctx.compile(oc.set(m, 2 * n), name="read")
        write = ctx.compile(oc.set(n, 3), name="write")
        with pytest.raises(oc.UninitializedError):
            read()
        write()
        read()
        np.testing.assert_array_equal(ctx[m], [6, 6])

    def test_threads_do_not_change_bits(self):
        a, b = arrays_of((170, 190), (190, 180))
        results = []
        for threads in (1, 2, 3, 5):
            product = oc.tanh(oc.data(a, axes="oi") @ oc.data(b, axes="oi"))
            ctx = oc.Context.cpu(threads=threads)
            result = total(product)
            routine = run(ctx, oc.forward(result) + oc.forward(product))
            assert "parallel" in routine.ir("loops")
            results.append((ctx[result], ctx[product], routine.ir("llvm")))
        for value, array, text in results[1:]:
            np.testing.assert_array_equal(value, results[0][0])
            np.testing.assert_array_equal(array, results[0][1])
            assert text == results[0][2]

    def test_threads_do_not_change_what_is_trained(self, monkeypatch: pytest.MonkeyPatch):
        """A loop over a ranged index, with contractions, norms, softmax and gathered rows, all cut small."""
        monkeypatch.setenv("OCANNL_CACHE", "off")
        monkeypatch.setattr("ocannl.passes.parallel.SHARED_CYCLES", 2.0**8)
        monkeypatch.setattr("ocannl.passes.parallel.TASK_CYCLES", 2.0**6)
        ids = np.random.default_rng(1).integers(0, 11, (3, 8, 32))
        trained: list[list[Array]] = []
        for threads in (1, 3):
            batch = oc.index("batch", 3)
            tokens = oc.data(ids, label="tokens", axes="bbb")[batch]
            h = nn.embedding(num=11, dim=32)(tokens)
            h = nn.decoder_only(1, 2, 16, 16, 64)(h)
            loss = nn.cross_entropy(nn.linear(out_dim=11)(h), tokens)
            ctx = oc.Context.cpu(threads=threads)
            code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
            step = ctx.compile(code, name="step")
            ctx.init_params(loss, seed=1)
            losses = step.run_loop(epochs=2, record=[loss])[loss]
            trained.append([losses, *(ctx[p] for p in oc.params(loss).values())])
            assert step.schedule().count("parallel = ") > 10
        for found, expected in zip(*trained, strict=True):
            np.testing.assert_array_equal(found, expected)

    def test_the_schedule_tells_the_threads(self, monkeypatch: pytest.MonkeyPatch):
        a, b = arrays_of((200, 200), (200, 200))

        def last_line(y: oc.Tensor) -> str:
            return oc.Context.cpu(threads=2).compile(oc.forward(y), name="y").schedule().splitlines()[-1]

        assert "threads" not in last_line(total(oc.data(a[:2], axes="oi")))
        monkeypatch.setattr("ocannl.runtime.team.openmp", lambda: None)
        found = last_line(oc.data(a, axes="oi") @ oc.data(b, axes="oi"))
        assert found == "parallel loops run on 1 thread, since there is no OpenMP runtime"


class TestInit:
    def model(self) -> oc.Tensor:
        return nn.mlp(hid_dims=[5, 6], out_dim=2)(oc.data(np.ones((4, 3), np.float32), label="x"))

    def values(self, seed: int) -> dict[str, Array]:
        y = self.model()
        ctx = oc.Context.cpu()
        ctx.init_params(y, seed=seed)
        return {label: ctx[p] for label, p in oc.params(y).items()}

    def test_the_same_seed_gives_the_same_bits(self):
        one, again, other = self.values(1), self.values(1), self.values(2)
        assert list(one) == list(again)
        for label in one:
            np.testing.assert_array_equal(one[label], again[label])
        assert any(not np.array_equal(one[label], other[label]) for label in one)

    def test_only_what_is_not_initialized(self):
        y = self.model()
        ctx = oc.Context.cpu()
        first, *rest = oc.params(y).values()
        oc.infer(y)
        ctx[first] = 7
        ctx.init_params(y, seed=1)
        assert np.all(ctx[first] == 7)
        before = {p: ctx[p] for p in rest}
        ctx.init_params(y, seed=2)
        for p in rest:
            np.testing.assert_array_equal(ctx[p], before[p])
        ctx.init_params(y, seed=2, reinit=True)
        assert not np.all(ctx[first] == 7)
        assert any(not np.array_equal(ctx[p], before[p]) for p in rest)

    def test_the_distribution_of_the_default(self):
        w = oc.param("w", output=300, input=200)
        ctx = oc.Context.cpu()
        ctx.init_params(w)
        values = ctx[w]
        assert abs(float(values.mean())) < 1e-2
        assert 0.5 < float(values.var()) * 200 < 1.5

    @pytest.mark.parametrize(
        ("init", "mean", "var"),
        [
            (0.25, 0.25, 0.0),
            (oc.init.constant(2.0), 2.0, 0.0),
            (oc.init.uniform(-1.0, 3.0), 1.0, 16 / 12),
            (oc.init.normal(1.0, 2.0), 1.0, 4.0),
            (oc.init.kaiming(), 0.0, 2 / 200),
            (oc.init.xavier(), 0.0, 2 / 500),
        ],
        ids=["number", "constant", "uniform", "normal", "kaiming", "xavier"],
    )
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_initializers(self, init: Any, mean: float, var: float, dtype: type[np.floating]):
        w = oc.param("w", init, output=300, input=200, dtype=dtype)
        ctx = oc.Context.cpu()
        ctx.init_params(w)
        values = ctx[w]
        assert values.dtype == dtype
        assert values.shape == (300, 200)
        assert abs(float(values.mean()) - mean) < 5 * max(var, 1e-12) ** 0.5 / 60_000**0.5 + 1e-9
        assert abs(float(values.var()) - var) <= 0.03 * var

    def test_parameters_of_one_shape_differ(self):
        a, b = oc.param("a", output=8, input=8), oc.param("b", output=8, input=8)
        ctx = oc.Context.cpu()
        ctx.init_params(a + b)
        assert not np.array_equal(ctx[a], ctx[b])

    def test_arrays(self):
        (a,) = arrays_of((3, 2))
        w = oc.param("w", a)
        ctx = oc.Context.cpu()
        ctx.init_params(w)
        np.testing.assert_array_equal(ctx[w], a)
        assert str(w.shape) == "2->3"

    def test_an_array_of_another_shape(self):
        def program():
            oc.Context.cpu().init_params(oc.param("w", np.ones((3, 2)), output=4, input=2))

        with pytest.raises(oc.ShapeError, match="w"):
            program()


class TestNames:
    def test_scopes(self):
        with oc.scope("outer"):
            a = oc.param("a", output=1, input=[])
            with oc.scope("inner"):
                b = oc.param("b", output=1, input=[])
        c = oc.param("c", output=1, input=[])
        assert [t.label for t in (a, b, c)] == ["outer.a", "outer.inner.b", "c"]
        assert oc.params(a + b * c) == {"outer.a": a, "outer.inner.b": b, "c": c}

    def test_closures(self):
        def layer(size: int, label: str):
            with oc.scope(label):
                w, b = oc.param("w"), oc.param("b", 0.0, output=size)
            return lambda x: oc.relu(w @ x + b)

        one, two = layer(4, "one"), layer(2, "two")
        y = two(one(oc.data(np.ones((5, 3)))))
        assert set(oc.params(y)) == {"one.w", "one.b", "two.w", "two.b"}
        oc.infer(y)
        assert {n: str(p.shape) for n, p in oc.params(y).items()} == {
            "one.w": "3->4",
            "one.b": "4",
            "two.w": "4->2",
            "two.b": "2",
        }

    def test_inline_parameters(self):
        @oc.block
        def linear(p: Any, x: Any, *, size: int = 4) -> Any:
            return p.b(output=size) + p.w @ x

        first, second = linear(label="first"), linear(size=2, label="second")
        y = second(first(oc.data(np.ones((5, 3)))))
        assert set(oc.params(y)) == {"first.b", "first.w", "second.b", "second.w"}
        ctx = oc.Context.cpu()
        train.forward_once(ctx, y)
        assert ctx[y].shape == (5, 2)

    def test_a_block_applied_twice_has_one_set_of_parameters(self):
        @oc.block
        def model(p: Any, x: Any) -> Any:
            return p.w2 @ oc.tanh(p.b1(output=4) + p.w1 @ x)

        apply = model()
        x, y = oc.data(np.ones((5, 3))), oc.data(np.ones((2, 3)))
        one, two = apply(x), apply(y)
        assert oc.params(one) == oc.params(two)
        other = model()(x)
        assert not set(oc.params(one).values()) & set(oc.params(other).values())

    def test_parameters_of_one_name(self):
        """Both are listed, under different names."""
        a, b = oc.param("w", 1.0, output=2, input=[]), oc.param("w", 2.0, output=2, input=[])
        found = oc.params(a + b)
        assert set(found.values()) == {a, b}
        ctx = oc.Context.cpu()
        train.forward_once(ctx, y := a + b)
        np.testing.assert_array_equal(ctx[y], [3, 3])

    def test_parameters_of_code(self):
        p, q = param("p", np.ones(2)), param("q", np.ones(2))
        n = oc.node("n", output=2)
        assert set(oc.params(oc.set(n, p) + oc.set(n, q)).values()) == {p, q}

    @pytest.mark.parametrize("name", ["w", "a.b", "x y", "1", "é", "%w", '"', "loops.func", "w_grad"])
    def test_any_name(self, name: str):
        p = oc.param(name, 2.0, output=2, input=[])
        y = p * 2
        ctx = oc.Context.cpu()
        train.forward_once(ctx, y)
        np.testing.assert_array_equal(ctx[y], [4, 4])
        ctx.compile(train.grad_update(y), name=f"routine of {name}")()


def moons(look: Callable[..., Any]) -> tuple[dict[str, Array], dict[str, str]]:
    """Half-moons for one epoch; `look` sees every tensor when it is made."""
    (points,) = arrays_of((8, 10, 2))
    classes = np.sign(points[..., :1] * points[..., 1:])
    steps = 2 * 8
    batch_n, step_n = oc.index("batch_n", 8), oc.index("step_n")
    flat = oc.data(points.astype(np.float32), label="moons_flat")
    labels = oc.data(classes.astype(np.float32), label="moons_classes")
    look(flat, labels)
    w1, w2, w3 = (oc.param(f"w{k}") for k in (1, 2, 3))
    b1, b2 = (oc.param(f"b{k}", 0.0, output=16) for k in (1, 2))
    look(w1, w2, w3, b1, b2)
    x = flat[batch_n]
    look(x)
    product = w1 @ x
    look(product, w1)
    hidden = oc.relu(b1 + product)
    look(hidden, w1, b1)
    hidden = oc.relu(b2 + w2 @ hidden)
    look(hidden, w2, b2)
    scores = w3 @ hidden
    look(scores, w3)
    margin = oc.relu(1 - labels[batch_n] * scores)
    look(margin, scores, w3)
    loss = margin.einsum("...|... => 0") / 10
    look(loss, margin, scores, w1, w2, w3, b1, b2)
    rate = 0.1 * (2 * steps - step_n) / steps
    look(rate)
    update = train.grad_update(loss) + train.sgd_update(loss, learning_rate=rate, weight_decay=1e-4)
    look(loss, w1, w1.grad)
    ctx = oc.Context.cpu()
    step = ctx.compile(update, name="moons_step")
    look(loss, rate)
    ctx.init_params(loss, seed=1)
    record = step.run_loop(epochs=2, advance=[step_n], record=[loss, rate])
    values = {label: ctx[p] for label, p in oc.params(loss).items()}
    values |= {"losses": np.ravel(record[loss]), "rates": np.ravel(record[rate])}
    return values, {stage: step.ir(stage) for stage in ("texpr", "infer-shapes", "assign", "loops")}


def no_look(*_: oc.Tensor):
    pass


def look_at_shapes(*tensors: oc.Tensor):
    for t in tensors:
        _ = str(t.shape), repr(t), t.label, t.shape.batch, t.shape.input, t.shape.output, hash(t), t == t
        _ = oc.params(t), repr(t.shape), t.shape == t.shape


def look_at_ir(*tensors: oc.Tensor):
    for t in tensors:
        for stage in ("texpr", "infer-shapes"):
            try:
                _ = t.ir(stage)
            except oc.ShapeError:
                assert stage != "texpr"


def look_at_loops(*tensors: oc.Tensor):
    for t in tensors:
        with suppress(oc.ShapeError):
            _ = t.ir("loops"), t.ir("assign")


@pytest.fixture(scope="module")
def plain() -> tuple[dict[str, Array], dict[str, str]]:
    return moons(no_look)


class TestSameProgram:
    @pytest.mark.parametrize("look", [look_at_shapes, look_at_ir, look_at_loops])
    def test_looking_changes_nothing(
        self, look: Callable[..., Any], plain: tuple[dict[str, Array], dict[str, str]]
    ):
        values, text = moons(look)
        for label, value in plain[0].items():
            np.testing.assert_array_equal(values[label], value, err_msg=label)
        assert text == plain[1]

    def test_the_same_program_gives_the_same_text_and_bits(
        self, plain: tuple[dict[str, Array], dict[str, str]]
    ):
        values, text = moons(no_look)
        assert text == plain[1]
        for label, value in plain[0].items():
            np.testing.assert_array_equal(values[label], value, err_msg=label)

    def test_it_learns(self, plain: tuple[dict[str, Array], dict[str, str]]):
        losses = plain[0]["losses"]
        assert losses[-8:].sum() < losses[:8].sum()
        np.testing.assert_allclose(plain[0]["rates"], [0.1 * (32 - k) / 16 for k in range(16)], rtol=1e-6)

    def test_compiling_twice_in_one_context(self):
        p = param("p", np.ones(3))
        loss = total(p * p)
        code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
        ctx = oc.Context.cpu()
        one, two = ctx.compile(code, name="step"), ctx.compile(code, name="step")
        for stage in stage_names("cpu"):
            assert one.ir(stage) == two.ir(stage)
        ctx.init_params(loss)
        one()
        two()
        np.testing.assert_allclose(ctx[p], 0.64 * np.ones(3))

    def test_other_programs_between_change_nothing(self):
        def text() -> str:
            p = param("p", np.ones(3))
            loss = total(oc.exp(p) * p)
            return oc.Context.cpu().compile(train.grad_update(loss), name="step").ir("loops")

        first = text()
        _ = [oc.param(f"q{k}", output=2) @ oc.data(np.ones((4, 3))) for k in range(5)]
        assert text() == first

    def test_the_order_of_construction_does_not_matter(self):
        """The same parameters get the same shapes however the program was put together."""

        def shapes(reverse: bool) -> dict[str, str]:
            w1, w2, b = oc.param("w1"), oc.param("w2"), oc.param("b", output=4)
            x, y = oc.data(np.ones((5, 3))), oc.data(np.ones((5, 2)))
            if reverse:
                h = oc.Dim("h")
                second = oc.einsum("i -> o => i -> o", w2, i=h)
                out = second @ oc.relu(w1 @ x + b)
                difference = y - out
            else:
                hidden = oc.relu(w1 @ x + b)
                difference = y - w2 @ hidden
            oc.infer(difference)
            return {p.label: str(p.shape) for p in (w1, w2, b)}

        assert shapes(False) == shapes(True) == {"w1": "3->4", "w2": "4->2", "b": "4"}


class TestSettings:
    def step(self) -> tuple[oc.Tensor, oc.Code]:
        p = param("p", np.arange(3.0))
        loss = total(oc.tanh(p) * p)
        return p, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)

    def result(self) -> Array:
        p, code = self.step()
        ctx = oc.Context.auto()
        routine = ctx.compile(code, name="settled_step")
        ctx.init_params(p)
        routine()
        return ctx[p]

    def test_dump(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        plain = self.result()
        monkeypatch.setenv("OCANNL_DUMP", str(tmp_path / "new" / "folder"))
        np.testing.assert_array_equal(self.result(), plain)
        files = [file for file in (tmp_path / "new" / "folder").rglob("*") if file.is_file()]
        names = " ".join(sorted(file.name for file in files))
        for name in PASSES:
            assert name in names
        assert all("settled_step" in str(file) for file in files)
        assert all(file.read_text().strip() for file in files)

    def test_verify(self, monkeypatch: pytest.MonkeyPatch):
        plain = self.result()
        monkeypatch.setenv("OCANNL_VERIFY", "1")
        np.testing.assert_array_equal(self.result(), plain)

    @pytest.mark.parametrize("cache", ["off", "folder"])
    def test_cache(self, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        plain = self.result()
        monkeypatch.setenv("OCANNL_CACHE", "off" if cache == "off" else str(tmp_path / "cache"))
        for _ in range(2):
            np.testing.assert_array_equal(self.result(), plain)
        assert not Path("off").exists()

    def test_an_unwritable_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "file").write_text("a file where a folder is asked for")
        monkeypatch.setenv("OCANNL_CACHE", str(tmp_path / "file"))
        with pytest.warns(RuntimeWarning, match="cache"):
            self.result()

    def test_backend(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCANNL_BACKEND", "cpu")
        self.result()
        monkeypatch.setenv("OCANNL_BACKEND", "abacus")
        with pytest.raises(oc.DeviceError, match="abacus"):
            oc.Context.auto()

    def test_timing(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        monkeypatch.setenv("OCANNL_TIMING", "1")
        monkeypatch.setenv("OCANNL_CACHE", "off")
        self.result()
        output = capsys.readouterr()
        for name in PASSES:
            assert name in output.out + output.err

    @pytest.mark.parametrize("threads", ["1", "2", "3"])
    def test_threads(self, threads: str, monkeypatch: pytest.MonkeyPatch):
        plain = self.result()
        monkeypatch.setenv("OCANNL_THREADS", threads)
        assert repr(oc.Context.auto()).startswith(f"<context cpu: {threads} thread")
        np.testing.assert_array_equal(self.result(), plain)

    @pytest.mark.parametrize("threads", [None, ""])
    def test_threads_by_default(self, threads: str | None, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("OCANNL_THREADS", raising=False)
        if threads is not None:
            monkeypatch.setenv("OCANNL_THREADS", threads)
        monkeypatch.setattr("ocannl.context.usable_cores", lambda: 5)
        assert oc.Context.cpu().team.wanted == oc.Context.auto().team.wanted == 5
        assert oc.Context.cpu(threads=2).team.wanted == 2

    @pytest.mark.parametrize("threads", ["many", "0", "-1", "1.5", "²"])
    def test_threads_that_are_no_number(self, threads: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCANNL_THREADS", threads)
        with pytest.raises(oc.DeviceError, match="OCANNL_THREADS is a number of threads, at least 1"):
            oc.Context.cpu()

    def test_profiling_tells_times_and_changes_nothing(self):
        p, code = self.step()
        ctx = oc.Context.cpu()
        routine = ctx.compile(code, name="step")
        with pytest.raises(oc.UninitializedError, match="reads `p`"):
            routine.profile()
        ctx.init_params(p)
        before = np.asarray(ctx[p])
        heading, *kernels = routine.profile(runs=3).splitlines()
        assert heading.split() == ["kernel", "space", "schedule", "flops", "bytes", "time", "GFLOP/s", "GB/s"]
        assert len(kernels) == len(routine.schedule().splitlines()) - 1
        assert all(re.search(r"\d us +\S+ +\S+$", line) for line in kernels), kernels
        np.testing.assert_array_equal(ctx[p], before)
        with pytest.raises(ValueError, match="number of runs"):
            routine.profile(runs=0)

    def test_the_totals_of_memory_are_those_of_the_nodes(self):
        x = oc.param("x", [float(i) for i in range(8)])
        waves = oc.tanh(x).named("waves")
        total = waves.einsum("i => 0").named("total")
        routine = oc.Context.cpu().compile((total * waves).named("y"))
        *nodes, last = routine.memory().splitlines()
        assert {line.split()[0]: line.split()[2] for line in nodes[1:]} == {
            "x": "on_device",
            "waves": "local",
            "total": "local",
            "y": "on_device",
        }
        assert last == "132 bytes: an arena of 68, 64 in memory of their own"

    def test_what_was_compiled_can_be_read(self):
        _, code = self.step()
        routine = oc.Context.cpu().compile(code, name="settled_step")
        assert "settled_step" in routine.ir("loops")
        assert "p" in routine.memory()
        assert "gradient" in routine.memory()
        assert routine.schedule()
        assert "settled_step" in repr(routine)
