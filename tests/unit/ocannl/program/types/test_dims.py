"""Dimensions and rows by name, and what is known of shapes across routines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ocannl as oc
from ocannl import train


class TestCapturedRows:
    def test_it_is_the_product_of_its_axes(self):
        x = np.arange(24.0).reshape(2, 3, 4)
        n, o = oc.Dim("n"), oc.Dim("o")
        total = oc.einsum("..n.. | ..o.. => 0", oc.data(x), n=n, o=o)
        assert (int(n), int(o)) == (6, 4)
        assert repr(n) == "n=6"
        np.testing.assert_array_equal(oc.Context.cpu()[total / (n * o)], [x.mean()])

    def test_rows_without_a_name_of_their_own(self):
        n = oc.Dim("n")
        mean = oc.einsum("... | ... => ...", oc.data(np.ones((5, 2))), batch=n) / n
        np.testing.assert_array_equal(oc.Context.cpu()[mean], [1, 1])

    def test_a_row_of_no_axes(self):
        n = oc.Dim("n")
        total = oc.einsum("..n.. | o => o", oc.data(np.ones(3)), n=n)
        np.testing.assert_array_equal(oc.Context.cpu()[total / n], [1, 1, 1])

    def test_a_row_that_is_known_in_the_end(self):
        n = oc.Dim("n")
        hidden = oc.param("w") @ oc.data(np.ones((5, 2))) + oc.param("b", output=3)
        total = oc.einsum("...|..n.. => ...|", hidden, n=n)
        assert n.known is None
        assert "texpr.size ?d" in (total / n).ir()
        train.forward_once(oc.Context.cpu(), total / n)
        assert int(n) == 3

    @pytest.mark.parametrize(
        ("capture", "message"),
        [
            (lambda x: oc.einsum("..n.. | o => o", x, m=oc.Dim("m")), "`m` is given a size, but the spec"),
            (lambda x: oc.einsum("..n.. | o = o", x, n=oc.Dim("n")), "did you mean `=>`"),
        ],
    )
    def test_mistakes(self, capture: Callable[[oc.Tensor], object], message: str):
        with pytest.raises(oc.SpecError, match=message):
            capture(oc.data(np.ones((2, 3, 4))))

    def test_a_captured_row_is_a_size(self):
        n = oc.Dim("n")
        oc.einsum("..n.. | o => o", oc.data(np.ones((2, 3, 4))), n=n)
        assert oc.param("w", output=n).shape.output == (6,)


class TestInferredRanges:
    def test_as_long_as_its_use(self):
        positions = oc.range(oc.Dim("n"))
        result = positions + oc.data(np.zeros((2, 5)))
        np.testing.assert_array_equal(oc.Context.cpu()[result], [range(5)] * 2)

    def test_as_long_as_a_captured_axis(self):
        n = oc.Dim("n")
        x = oc.einsum("b | o => b | o", oc.data(np.zeros((2, 5))), o=n)
        np.testing.assert_array_equal(oc.Context.cpu()[x + oc.range(n) / n], [np.arange(5) / 5] * 2)


def test_routines_know_what_other_code_told_of_an_open_row():
    n = oc.node("n", init=3.0)
    x = oc.data(np.ones(4), label="x")
    update = oc.set(n, 2 * x)
    ctx = oc.Context.cpu()
    before = x - n
    np.testing.assert_array_equal(ctx[before], -2 * np.ones(4))
    ctx.compile(update)()
    np.testing.assert_array_equal(ctx[before], -np.ones(4))


def test_axes_of_data_have_bases():
    """Axes are counted in the array; the mean over a row with a basis is a mean of numbers."""
    images = oc.data(np.arange(12.0).reshape(2, 2, 3), bases={-1: "rgb"})
    assert str(images.shape) == "2,2|3:rgb"
    assert str(oc.data(np.zeros((2, 3)), axes="oi", bases={1: "m"}).shape) == "3:m->2"
    with pytest.raises(oc.ShapeError, match="3:rgb and 3:hsv"):
        _ = images + oc.data(np.zeros(3), bases={0: "hsv"})
    assert float(oc.mean(oc.constant(2.0) * images)) == 11.0
    n = oc.Dim("n")
    assert float(oc.einsum("... | ..n.. => ", images, n=n) / n) == 22.0
    for bases in ({2: "rgb"}, {0: "a b"}):
        with pytest.raises(oc.ArgumentError):
            oc.data(np.zeros((2, 3)), bases=bases)
    with pytest.raises(oc.SpecError, match="flat data"):
        oc.data(np.zeros(3), bases={0: "rgb"}, flat=True)


def test_a_basis_is_not_called_as_an_index():
    """Its axis would be one of which the index tells the real size."""
    rows, n = oc.data(np.ones((5, 3), np.float32), bases={0: "n"}), oc.index("n", 6)
    picked = oc.data(np.arange(6.0, dtype=np.float32), axes="b")[n]
    with pytest.raises(oc.OcannlError, match="basis `n`, and an index is called so, too"):
        oc.Context.cpu().compile(oc.forward(oc.sum(rows) + picked))
