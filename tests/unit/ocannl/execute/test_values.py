"""Values of tensors: the default context, conversions to arrays and numbers; looking changes nothing."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from support.tensors import param, total

import ocannl as oc


def data(*shape: int, **options: Any) -> oc.Tensor:
    return oc.data(np.arange(1.0, 1 + np.prod(shape)).reshape(shape), label="x", **options)


class TestTheDefaultContext:
    def test_is_made_once(self):
        assert oc.default_context() is oc.default_context()

    def test_with_makes_another_the_default(self):
        outer, inner = oc.Context.cpu(1), oc.Context.cpu(1)
        with outer as entered:
            assert entered is outer
            with inner, inner:
                assert oc.default_context() is inner
            assert oc.default_context() is outer
        assert oc.default_context() not in (outer, inner)

    def test_a_thread_has_its_own(self):
        found: list[oc.Context] = []
        with oc.Context.cpu(1) as ctx:
            thread = threading.Thread(target=lambda: found.append(oc.default_context()))
            thread.start()
            thread.join()
        assert found[0] is not ctx

    def test_another_context_that_has_the_value_is_named(self):
        p, other = param("p", np.ones(2)), oc.Context.emulated_gpu()
        other[p] = [1.0, 2.0]
        for look in (p.numpy, (2 * p).numpy):
            with pytest.raises(oc.UninitializedError, match=r"`p`.*has a value in <context emulated_gpu"):
                look()
        with other:
            np.testing.assert_array_equal((2 * p).numpy(), [2, 4])


class TestConversions:
    def test_to_arrays(self):
        x = data(2, 3)
        for array in (x.numpy(), np.asarray(x), np.from_dlpack(x), (x * 1).numpy(), np.array(x.tolist())):
            np.testing.assert_array_equal(array, [[1, 2, 3], [4, 5, 6]])
        assert np.asarray(x, np.float32).dtype == np.float32

    def test_arrays_are_copies(self):
        x = data(3)
        assert not x.numpy().flags.writeable
        np.from_dlpack(x)[...] = 0
        np.testing.assert_array_equal(x.numpy(), [1, 2, 3])

    def test_to_numbers(self):
        loss = data(3).einsum("... => ")
        assert (float(loss), int(loss), loss.item()) == (6.0, 6, 6.0)
        assert isinstance(loss.numpy(), np.float64)
        assert f"{oc.default_context()[loss]:.2f} {oc.default_context()[total(data(3))]:.1f}" == "6.00 6.0"
        with pytest.raises(ValueError, match=r"has 2 elements, \.item\(\) needs one"):
            float(data(2))

    def test_functions_of_numpy(self):
        x = data(3)
        found = [np.sin(x), np.float32(2) * x, np.float64(2) > x, np.maximum(x, 2.0), np.negative(x)]
        wanted = [np.sin([1, 2, 3]), [2, 4, 6], [1, 0, 0], [2, 2, 3], [-1, -2, -3]]
        for y, array in zip(found, wanted, strict=True):
            np.testing.assert_allclose(y, np.asarray(array), rtol=1e-14)
        for program in (lambda: np.add.reduce(x), lambda: np.equal(x, x), lambda: np.sin(x, out=np.ones(3))):
            with pytest.raises(oc.ArgumentError, match=r"t\.numpy\(\)"):
                program()

    def test_what_is_known(self):
        x, w = data(2, 3), oc.param("w", output=[])
        assert (x.dtype, x.ndim, len(x), tuple(x.shape), x.shape[-1]) == (np.float64, 2, 2, (2, 3), 3)
        assert (repr(x), repr(w)) == ("<x: 2|3, f64>", f"<w: {w.shape}, f32>")
        assert repr(w @ x).endswith(", f64>")
        half = oc.data(np.ones(3, np.float16))
        for t in (half * 2, oc.sin(half), half.sum(), half + oc.data(np.ones(3, np.int32))):
            assert (t.dtype, t.numpy().dtype) == (np.float16, np.float16)
        for program in (lambda: tuple(w.shape), lambda: len(w), lambda: w.ndim):
            with pytest.raises(oc.ShapeError, match=r"test_values.py:\d+ is not final; oc.infer"):
                program()
        y = oc.param("v", output=4) @ x
        with pytest.raises(oc.ShapeError, match=r"its shape is .*; give input= where it is made, \[\] for"):
            w[0]
        oc.infer(y)
        assert (tuple(y.shape), y[0].ndim) == ((2, 4), 1)
        with pytest.raises(oc.ArgumentError, match="range"):
            list(x)

    def test_equality_is_identity(self):
        x = data(3)
        assert x != data(3)
        assert x == x.tensor()
        assert x in {x: 1}
        for other in (1, 0.5, np.ones(3)):
            with pytest.warns(UserWarning, match=r"`x` is no number, and equal to none: oc\.eq compares"):
                assert x != other


class TestLookingChangesNothing:
    def test_shapes_stay_open(self):
        a, c, z = data(1, 1), oc.constant(3.0), data(4, 5)
        y = a * c
        before = str(y.shape)
        np.testing.assert_array_equal(y.numpy(), [[3]])
        assert str(y.shape) == before
        both = oc.einsum("b | o; b | o => b | o", y, z)
        np.testing.assert_array_equal(both.numpy(), 3 * z.numpy())
        np.testing.assert_array_equal(y.numpy(), np.full((4, 5), 3))

    def test_data_without_axes_keep_their_choice(self):
        x = oc.data(np.arange(6.0), flat=True, label="x")
        assert x.numpy().shape == (6,)
        oc.infer(oc.einsum("... | ...; ... | ... => ... | ...", x, data(2, 3)))
        assert x.numpy().shape == (2, 3)

    def test_a_precision_stays_open(self):
        state = oc.node("state", output=2, init=1.0)
        assert state.numpy().dtype == np.float32
        with oc.code("widen") as code:
            state[...] = state + oc.data(np.ones(2))
        ctx = oc.Context.cpu(1)
        ctx.compile(code)()
        assert ctx[state].dtype == np.float64

    def test_kept_values_stay(self):
        """A value that a routine left is not computed again by looking at what depends on it."""
        p = param("p", np.array([1.0]))
        y = p * 2
        kept, ctx = y.value, oc.Context.cpu(1)
        step = ctx.compile(oc.forward(y))
        ctx[p] = [1.0]
        step()
        ctx[p] = [5.0]
        np.testing.assert_array_equal(ctx[y + 1], [11])
        np.testing.assert_array_equal(ctx[kept], [2])

    def test_an_open_block_gets_nothing(self):
        x, n = data(3), oc.node("n", output=3, dtype=np.float64)
        with oc.code("block") as block:
            n[...] = x + x.numpy()[0]
            assert (float(x[0]), x.dtype, x.ir("texpr") == "") == (1, np.float64, False)
            oc.infer(x * 2)
            oc.default_context().compile(x * 2)
        assert len(block.statements) == 2

    def test_parameters_stay_unwritten(self):
        w, ctx = oc.param("w", 1.0, output=2), oc.Context.cpu(1)
        for look in (lambda: ctx[w], lambda: ctx[w * 2], lambda: ctx[w.grad]):
            with pytest.raises(oc.UninitializedError):
                look()
        assert w not in ctx


class TestWritingIntegers:
    def memory(self) -> oc.Tensor:
        return oc.data(np.array([1, 2], np.int32), label="ids")

    @pytest.mark.parametrize("value", [2.5, [0.0, np.nan], [1, 2**31], 2**63, -(2**40), np.inf])
    def test_what_it_cannot_hold_is_an_error(self, value: Any):
        ids = self.memory()
        with pytest.raises(oc.ArgumentError, match="`ids` holds int32"):
            oc.default_context()[ids] = value
        np.testing.assert_array_equal(ids.numpy(), [1, 2])

    def test_whole_numbers(self):
        ids = self.memory()
        oc.default_context()[ids] = [3.0, -4.0]
        np.testing.assert_array_equal(ids.numpy(), [3, -4])


def test_a_number_has_a_format():
    x = oc.data(np.array([1.0, 2.0]), label="x")
    assert f"{x.sum():.2f} {x}" == f"3.00 {x!r}"
    with pytest.raises(ValueError, match=r"has 2 elements, \.item\(\) needs one"):
        format(x, ".2f")
