"""Contexts: what they hold, initialize and call by which names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tensors import Array, arrays_of, param, run, total

import ocannl as oc
from ocannl import nn, train


class TestContexts:
    def test_values_are_copies(self):
        x = oc.data(np.zeros(3), label="x")
        ctx = oc.Context.cpu()
        value = ctx[x]
        value.flags.writeable = True
        value[...] = 7
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

    @pytest.mark.parametrize(
        ("shape", "told"),
        [
            ((3, 4, 2), "in this order: give array.transpose(1, 2, 0)"),
            ((3, 2, 4), "in this order: give array.T"),
            ((4, 2, 5), "axis 2: 3 in `p`, 5 in the array"),
            ((8, 3), "3 axes in `p`, 2 axes in the array\n  hint: the numbers of elements are equal: "),
            ((24,), "hint: the numbers of elements are equal: array.reshape((4, 2, 3))"),
        ],
    )
    def test_what_to_do_with_another_shape(self, shape: tuple[int, ...], told: str):
        p = oc.param("p", output=[4, 2], input=3)
        with pytest.raises(oc.ShapeError) as caught:
            oc.Context.cpu()[p] = np.ones(shape)
        assert told in str(caught.value)
        assert f"`p` (3->4,2) takes an array of shape (4, 2, 3), found {shape}" in str(caught.value)

    def test_what_to_do_with_a_part_of_another_shape(self):
        p, ctx = oc.param("p", output=4, input=3), oc.Context.cpu()
        ctx.init_params(p)
        with pytest.raises(oc.ShapeError, match=r"part of `p` takes .* \(2, 3\), found .*\n  .*array\.T"):
            ctx[p.at[:2]] = np.ones((3, 2))

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

    def test_the_parameters_of_a_block(self):
        block, ctx = nn.linear(out_dim=2), oc.Context.cpu()
        with pytest.raises(oc.ShapeError, match=r"input axes of `linear.w` are not known: .*apply the block"):
            ctx.init_params(block)
        oc.infer(block(oc.data(np.ones((4, 3)))))
        ctx.init_params(block)
        assert ctx[block.w].shape == (2, 3)
        assert oc.params(block) == block.params

    def test_an_open_parameter_gets_the_shape_of_its_array(self):
        layer, ctx = nn.linear(out_dim=3), oc.Context.cpu()
        ctx[layer.w] = np.ones((3, 2))
        ctx[layer.b] = 0.0
        assert str(layer.w.shape) == "2->3"
        np.testing.assert_array_equal(ctx[layer(oc.data(np.ones((4, 2))))], np.full((4, 3), 2))

    @pytest.mark.parametrize("sizes", [(4, 2), (3, 5)])
    def test_an_array_that_does_not_fit_closes_no_shape(self, sizes: tuple[int, int]):
        layer, ctx = nn.linear(out_dim=3), oc.Context.cpu()
        y = layer(oc.data(np.ones((4, 2))))
        with pytest.raises(oc.ShapeError, match=r"`linear.w` .*what it is used for, fit no array of shape"):
            ctx[layer.w] = np.ones(sizes)
        assert str(layer.w.shape) == "...,2->3"
        oc.infer(y)

    def test_a_block_whose_sizes_are_given_needs_no_application(self):
        block, ctx = nn.linear(in_dim=3, out_dim=2), oc.Context.cpu()
        ctx.init_params(block)
        assert ctx[block.w].shape == (2, 3)
        assert ctx[block.w].dtype == np.float32

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

    @pytest.mark.exhaustive
    def test_threads_do_not_change_what_is_trained(self, monkeypatch: pytest.MonkeyPatch):
        """A loop over a ranged index, with contractions, norms, softmax and gathered rows, all cut small."""
        monkeypatch.setenv("OCANNL_CACHE", "off")
        monkeypatch.setattr("ocannl.passes.loops.schedule.parallel.SHARED_CYCLES", 2.0**8)
        monkeypatch.setattr("ocannl.passes.loops.schedule.parallel.TASK_CYCLES", 2.0**6)
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
        monkeypatch.setattr("ocannl.runtime.cpu.team.openmp", lambda: None)
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
        ctx.compile(train.grad_update(y.sum()), name=f"routine of {name}")()


class TestTheArrayOfAValue:
    def param(self) -> tuple[oc.Context, oc.Tensor]:
        ctx, p = oc.Context.cpu(), oc.param("p", output=3)
        ctx[p] = [1.0, 2.0, 3.0]
        return ctx, p

    def test_setting_a_part_of_it_is_not_lost_silently(self):
        ctx, p = self.param()
        with pytest.raises(oc.ArgumentError, match=r"a copy of memory.*set `ctx\[t\] = array`") as found:
            ctx[p][0] = 5
        assert isinstance(found.value, ValueError)  # as NumPy's of an array that is read-only
        array = ctx[p].copy()
        array[0] = 5
        ctx[p] = array
        np.testing.assert_array_equal(ctx[p], [5, 2, 3])

    def test_memory_is_updated_from_its_value(self):
        ctx, p = self.param()
        before = ctx[p]
        ctx[p] += 1
        ctx[p] *= [1, 2, 3]
        np.testing.assert_array_equal(ctx[p], [2, 6, 12])
        np.testing.assert_array_equal(before, [1, 2, 3])

    def test_what_is_computed_from_it_may_be_changed(self):
        ctx, p = self.param()
        twice = ctx[p] * 2
        twice[0] = 7
        np.testing.assert_array_equal(twice, [7, 4, 6])

    def test_one_element_formats_as_a_number(self):
        ctx = oc.Context.cpu()
        loss = oc.param("loss", output=1)
        ctx[loss] = 0.12345
        assert f"{ctx[loss]:.3f}" == "0.123"
        assert round(ctx[loss].max(), 2) == 0.12
        assert f"{ctx[loss]}" == str(ctx[loss])
        ctx, p = self.param()
        values = ctx[p]
        with pytest.raises(TypeError):
            format(values, ".3f")


def test_expressions_are_not_shared():
    with pytest.raises(oc.OcannlError, match=r"is an expression, not memory: only memory is set or shared"):
        oc.Context.cpu().share(oc.data(np.ones(3)) * 2)
