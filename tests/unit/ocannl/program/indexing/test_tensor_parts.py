"""Parts of tensors by positions, against NumPy: values, shapes and gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tensors import Array, total

import ocannl as oc

Key = Any


def array_of(*shape: int) -> Array:
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


def check(array: Array, key: Key, axes: str | None = None):
    """The part, and the gradient of its sum of squares."""
    x = oc.data(array, axes=axes, label="x")
    part, wanted = x[key], array[key]
    assert tuple(part.shape) == wanted.shape
    gradient = np.zeros_like(array)
    np.add.at(gradient, key, 2 * wanted)
    ctx = oc.Context.cpu(1)
    np.testing.assert_array_equal(ctx[part], wanted)
    np.testing.assert_array_equal(ctx[oc.grad(total(part * part), x)], gradient)


KEYS: list[Key] = [
    *(1, -1, slice(1, 2), (0, slice(None, None, 2)), (1, 2, 3), (..., slice(1, None)), slice(5, 9)),
    *((slice(None), slice(None, None, -1)), (..., slice(3, None, -2)), (..., 1, slice(-3, -1))),
    *(
        [1, 0, -1],
        (slice(None), [2, 2]),
        (..., np.array([[0, 3], [1, 1]])),
        ([0, 1], [1, 2]),
        (0, [1, 1], [0, 3]),
        ([[0], [1]], [0, 2, 1]),
        (1, [[0], [2]], (3, 0)),
        (slice(None), ((1,), (0,)), [0]),
    ),
    *((..., np.array([True, False, True, False])), np.arange(24).reshape(2, 3, 4) % 5 == 1),
    *(None, (None, 1), (1, None), (..., None), (slice(None), None, slice(1, 3), [2])),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_key(key: Key):
    check(array_of(2, 3, 4), key)


@pytest.mark.parametrize("axes", ["b|i->o", "ooi", "iii", "boo", "bbi"])
def test_any_rows(axes: str):
    order = "bbo" if axes == "b|i->o" else axes
    for key in [
        (1, slice(None, None, -1)),
        (..., [2, 0]),
        (slice(1), slice(2, None), slice(3)),
        (None, ..., None),
    ]:
        check(array_of(2, 3, 4), key, axes if axes != "b|i->o" else order)


def sizes_and_keys() -> st.SearchStrategy[tuple[tuple[int, ...], Key]]:
    def position(size: int) -> st.SearchStrategy[Any]:
        return st.one_of(st.integers(-size, size - 1), st.slices(size))

    def keys(sizes: tuple[int, ...]) -> st.SearchStrategy[Any]:
        some = st.integers(0, len(sizes)).flatmap(lambda n: st.tuples(*map(position, sizes[:n])))
        last = position(sizes[-1]).map(lambda p: (..., p))
        return st.tuples(st.just(sizes), st.one_of(some, last))

    return st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple).flatmap(keys)


@settings(max_examples=10, deadline=None)
@given(sizes_and_keys())
def test_any_slice(case: tuple[tuple[int, ...], Key]):
    sizes, key = case
    if 0 not in array_of(*sizes)[key].shape:
        check(array_of(*sizes), key)


def test_parts_of_parts():
    x = oc.data(array_of(5, 6), label="x")
    for first, second in itertools.product([slice(None, None, 2), slice(4, 0, -1)], repeat=2):
        np.testing.assert_array_equal(x[first][second].numpy(), array_of(5, 6)[first][second])


def test_ids_that_are_tensors():
    x, ids = oc.data(array_of(4, 2), label="x"), oc.data(np.array([3, 0, 3]), axes="b", label="ids")
    part = x[ids]
    assert str(part.shape) == "3|2"
    np.testing.assert_array_equal(part.numpy(), array_of(4, 2)[[3, 0, 3]])
    oc.default_context()[ids] = [0, 4, 1]
    with pytest.raises(oc.OcannlError, match="the id 4 in `ids` is outside of 0 to 3"):
        part.numpy()


APART: list[Key] = [
    *((0, ..., [1, 2]), ([0, 1], slice(None), 1), ([0], None, [1]), ([0, 1], slice(1, 3), [[1], [3]])),
    *((slice(None), 1, None, [[0, 2]]), ([1, 1], ..., [0, 2]), (None, [0], slice(None), 1)),
]


@pytest.mark.parametrize("key", APART, ids=str)
def test_ids_that_are_not_side_by_side(key: Key):
    """Their axes stand in front, as in NumPy."""
    check(array_of(2, 3, 4), key)


def in_tensors(key: Key) -> Key:
    """A key with tensors in place of arrays, of any rows."""
    return tuple(oc.data(k, axes="boi"[3 - k.ndim :]) if isinstance(k, np.ndarray) else k for k in key)


ROWS, COLUMNS = np.array([[1], [0]]), np.array([3, 0, 3])
BROADCAST: list[Key] = [
    *((slice(None), ROWS, COLUMNS), (ROWS, COLUMNS[:2] % 3), (1, ROWS, COLUMNS), (ROWS, ..., COLUMNS)),
    *((ROWS[None], COLUMNS[:1] % 3, COLUMNS), (ROWS, np.array(2), COLUMNS), (ROWS, [[2]], COLUMNS)),
    *((ROWS, [1, 2, 0], COLUMNS), (np.array([1]), np.array([[2]]), 3), (ROWS, None, COLUMNS[None] % 3)),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", BROADCAST, ids=str)
def test_ids_are_broadcast_against_each_other(key: Key):
    array = array_of(2, 3, 4)
    x, wanted, ctx = oc.data(array, label="x"), array[key], oc.Context.cpu(1)
    part = x[in_tensors(key)]
    assert tuple(part.shape) == wanted.shape
    gradient = np.zeros_like(array)
    np.add.at(gradient, key, 2 * wanted)
    np.testing.assert_array_equal(ctx[part], wanted)
    np.testing.assert_array_equal(ctx[oc.grad(total(part * part), x)], gradient)


def test_ids_of_shapes_that_do_not_fit():
    x = oc.data(array_of(2, 3, 4), label="x")
    for key in [([0, 1], [0, 1, 2]), in_tensors((np.array([0, 1]), np.array([0, 1, 2])))]:
        with pytest.raises(oc.ArgumentError, match=r"\(2,\), \(3,\)"):
            x[key]


def test_a_wrong_id_that_is_broadcast_is_named():
    x, ids = oc.data(array_of(2, 3), label="x"), oc.data(np.array([[0], [7]]), axes="bo", label="ids")
    with pytest.raises(oc.OcannlError, match="the id 7 in `ids` is outside of 0 to 1"):
        x[ids, oc.data(np.array([0, 1]), axes="o")].numpy()


def test_static_indices_among_positions():
    x, i, j = oc.data(array_of(2, 3, 4), label="x"), oc.index("i", 3), oc.index("j", 4)
    part = x[1:, i, j]
    ctx = oc.Context.cpu(1)
    run = ctx.compile(oc.forward(part), name="part")
    for n, m in itertools.product(range(3), range(4)):
        run(i=n, j=m)
        np.testing.assert_array_equal(ctx[part], array_of(2, 3, 4)[1:, n, m])


def test_an_index_alone_is_of_a_batch_axis():
    x, i = oc.param("x", output=3, input=[], batch=None), oc.index("i", 5)
    assert x[i].shape.output == (3,)
    assert x.shape.batch == (5, ...)


def test_a_mask_that_is_a_tensor_is_an_error():
    x = oc.data(array_of(3), label="x")
    for mask in (x > 1, (x > 1) & (x < 3), ~(x > 1), oc.isnan(x), (x > 1)[::-1], oc.data(array_of(3) > 1)):
        with pytest.raises(oc.ArgumentError, match="a mask that is a tensor"):
            _ = x[mask]


@pytest.mark.parametrize(
    "key", [[True], [True] * 3, (..., [False] * 3), np.eye(2, 4) == 1, ([True] * 2, [True] * 4)], ids=str
)
def test_a_mask_has_the_length_of_its_axis(key: Key):
    array = array_of(2, 3, 4)
    x = oc.data(array, label="x")
    with pytest.raises(IndexError):
        array[key]
    with pytest.raises(oc.PositionError, match="found a mask of"):
        x[key]
    with oc.code(), pytest.raises(oc.PositionError, match="found a mask of"):
        x[key] = 0.0


def test_the_axes_of_expressions():
    """They get the shapes that they would get now."""
    x = oc.data(array_of(2, 3), label="x")
    y = oc.relu(x) * 2 + oc.constant(1.0)
    assert tuple(y.shape) == (2, 3)
    assert not y.shape.is_final
    np.testing.assert_array_equal(y[1, ::-1].numpy(), [13, 11, 9])
    assert str(y.shape) == "2|3"


def test_what_nothing_selects_is_not_read():
    x = oc.data(np.array([np.nan, 1.0, np.inf, 2.0]), label="x")
    np.testing.assert_array_equal(x[1::2].numpy(), [1, 2])
    np.testing.assert_array_equal(oc.grad(total(x[1::2] * 3), x).numpy(), [0, 3, 0, 3])
