"""Static indices, loops over them, and what reads them."""

from __future__ import annotations

import numpy as np
import pytest
from support.tensors import arrays_of, total

import ocannl as oc
from ocannl import train


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

    @pytest.mark.parametrize("name", ["größe", "1st", "", "a b"])
    def test_names_are_those_that_all_texts_have(self, name: str):
        with pytest.raises(oc.ArgumentError, match="an index is named by an identifier of ASCII letters"):
            oc.index(name)

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

    def test_a_loop_sets_its_indices_whatever_its_body_does_to_them(self):
        a, b, _, result, look, ctx = self.table()
        values = []
        for at in look.loop():
            values.append(float(ctx[result]))
            look[a], look[b] = 0, 2
            at.clear()
        assert values == list(range(6))

    def test_a_loop_without_ranged_indices_runs_once(self):
        x = oc.data([3.0], label="x")
        state = oc.node("state", output=1)
        ctx = oc.Context.cpu()
        add = ctx.compile(oc.set(state, state + x), name="add")
        assert list(add.loop()) == [{}]
        assert float(ctx[state]) == 3

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
        with pytest.raises(oc.OcannlError, match="no index `another`; its indices are: a, b, step"):
            look(another=1)

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


class TestWhatARunSees:
    """No run has an index outside of what it selects from, however the index got its value."""

    def writer(self) -> tuple[oc.Index, oc.Routine, oc.Context, oc.Tensor]:
        """Adds 1 to slice `k` of 5."""
        k = oc.index("k")
        table = oc.data(np.arange(10.0).reshape(5, 2), label="table")
        total = oc.node("total", output=2)
        with oc.code("add") as add:
            total += table[k]
        ctx = oc.Context.cpu()
        return k, ctx.compile(add, name="add"), ctx, total

    def test_a_call_after_advancing_to_the_end(self):
        k, add, ctx, total = self.writer()
        add.run_loop(epochs=5, advance=[k])
        assert add[k] == 5
        before = np.array(ctx[total])
        for run in (add, add.run_loop, lambda: list(add.loop()), lambda: add.run_loop(advance=[k])):
            with pytest.raises(oc.OcannlError, match=r"index k=5 is outside the data .*, 0\.\.4"):
                run()
        np.testing.assert_array_equal(ctx[total], before)
        add[k] = 4
        add()

    def test_advancing_within_a_loop(self):
        k, batch = oc.index("k"), oc.index("batch", 3)
        x = oc.data(np.ones((3, 2)), label="x")
        y = x[k] * x[batch]
        ctx = oc.Context.cpu()
        both = ctx.compile(oc.forward(y), name="both")
        with pytest.raises(oc.OcannlError, match="index k=3 is outside"):
            [both.run_loop(advance=[k]) for _ in both.loop()]
        assert (both[k], both[batch]) == (3, 0)

    def test_an_index_is_advanced_once(self):
        k, add, *_ = self.writer()
        with pytest.raises(oc.OcannlError, match="is advanced by 1 after each run: it is given 1000 times"):
            add.run_loop(advance=[k] * 1000)

    def test_a_loop_of_no_runs_checks_nothing(self):
        k, add, *_ = self.writer()
        add.run_loop(epochs=0, advance=[k])
        assert add[k] == 0

    def test_advancing_beyond_the_data(self):
        k, add, *_ = self.writer()
        with pytest.raises(oc.OcannlError, match=r"index k=5 is outside the data"):
            add.run_loop(epochs=6, advance=[k])
        assert add[k] == 0

    def test_what_is_recorded_beside_keeps_its_values(self):
        k = oc.index("k")
        p = oc.data(np.arange(5.0).reshape(5, 1), label="p")
        y = p[k] + 1.0
        ctx = oc.Context.cpu()
        step = ctx.compile(oc.forward(y), name="step")
        more = p[k] * 3.0
        found = step.run_loop(epochs=5, advance=[k], record=[y, more])
        np.testing.assert_array_equal(found[more], 3.0 * np.arange(5))
        assert step[k] == 5
        with pytest.raises(oc.OcannlError, match="index k=5 is outside"):
            step()

    def test_indices_that_the_code_does_not_use(self):
        k, add, ctx, total = self.writer()
        step_n = oc.index("step_n")
        add(step_n=7)
        assert add[step_n] == 7
        add[step_n] += 1
        add.run_loop(epochs=2, advance=[k, step_n])
        assert (add[k], add[step_n]) == (2, 10)
        np.testing.assert_array_equal(ctx[total], [0 + 0 + 2, 1 + 1 + 3])
        with pytest.raises(oc.OcannlError, match="no index `stepn`; its indices are: k"):
            add(stepn=3)

    def test_a_name_like_that_of_an_index_is_a_slip(self):
        oc.index("batch")
        i = oc.index("batch_n", 3)
        x = oc.data(np.arange(3.0).reshape(3, 1), label="x")
        look = oc.Context.cpu().compile(x[i] * 2.0, name="look")
        with pytest.raises(oc.OcannlError, match="no index `batch`; its indices are: batch_n"):
            look(batch=1)
