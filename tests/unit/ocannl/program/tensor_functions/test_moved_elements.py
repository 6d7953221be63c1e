"""Elements that are only moved keep their type, as in NumPy: truth values, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc

CTX = oc.Context.cpu(1)
RNG = np.random.default_rng(3)
IDS, ROWS, MASK = np.array([1, 0, 3, 3]), np.array([2, 1]), np.array([True, False, True, False])
DTYPES = (np.bool_, np.int8, np.uint8)
Array = NDArray[Any]
sliding = np.lib.stride_tricks.sliding_window_view


def padded(a: Array) -> Array:
    return np.pad(a, ((0, 0), (1, 1)))


def windows_of_padded(a: Array) -> Array:
    return sliding(padded(a), 3, 1)


def rearranged(a: Array) -> Array:
    return a.reshape(4, 3, 2).transpose(2, 0, 1).reshape(8, 3)


def ids(array: Array, axes: str = "b") -> oc.Tensor:
    return oc.data(array, axes=axes)


MOVES: dict[str, tuple[Callable[[oc.Tensor], oc.Tensor], Callable[[Array], Array]]] = {
    "ids": (lambda x: x[ids(IDS)], lambda a: a[IDS]),
    "ids of two axes": (lambda x: x[ids(IDS), ids(IDS)], lambda a: a[IDS, IDS]),
    "an array of ids": (lambda x: x[ROWS], lambda a: a[ROWS]),
    "ids behind": (lambda x: x[:, ids(IDS)], lambda a: a[:, IDS]),
    "mask": (lambda x: x[MASK], lambda a: a[MASK]),
    "slice": (lambda x: x[1:3, ::-2], lambda a: a[1:3, ::-2]),
    "integer": (lambda x: x[2], lambda a: a[2]),
    "new axis": (lambda x: x[:, None], lambda a: a[:, None]),
    "reshape": (lambda x: x.reshape(8, 3), lambda a: a.reshape(8, 3)),
    "rearrange": (
        lambda x: oc.rearrange(x, "a (b c) -> (c a) b", c=2),
        lambda a: a.reshape(4, 3, 2).transpose(2, 0, 1).reshape(8, 3),
    ),
    "squeeze": (lambda x: oc.rearrange(x[:1], "() a -> a"), lambda a: a[0]),
    "squeeze by reshape": (lambda x: x[:1].reshape(6), lambda a: a[0]),
    "repeat": (lambda x: oc.repeat(x, "a b -> a b c", c=2), lambda a: np.repeat(a[..., None], 2, 2)),
    "tile": (lambda x: oc.repeat(x, "a b -> a (c b)", c=2), lambda a: np.tile(a, (1, 2))),
    "stack": (lambda x: oc.stack([x, x], "batch"), lambda a: np.stack([a, a])),
    "stack of one": (lambda x: oc.stack([x], "batch"), lambda a: a[None]),
    "concat": (lambda x: oc.concat("a, x |; b, x | => a^b, x |", x, x), lambda a: np.concatenate([a, a])),
    "concat of three": (
        lambda x: oc.concat("x, a |; x, b |; x, c | => x, a^b^c |", x, x, x),
        lambda a: np.tile(a, (1, 3)),
    ),
    "unfold": (lambda x: oc.unfold(x, 1, 3), lambda a: sliding(a, 3, 1)),
    "windows": (lambda x: oc.einsum("i, 2*o <+ d | => i, o, d |", x, d=2), lambda a: a.reshape(4, 3, 2)),
    "padded windows": (
        lambda x: oc.einsum("i, o + d | => i, o, d |", x, d=3, use_padding=True),
        lambda a: sliding(padded(a), 3, 1),
    ),
    "pad": (lambda x: oc.einsum("a, b | => a, 1^b^1 |", x), padded),
    "cut": (lambda x: oc.einsum("a, b^c | => a, b |", x, b=2, c=4), lambda a: a[:, :2]),
    "transpose": (lambda x: oc.einsum("i j | => j i |", x), lambda a: a.T),
    "diagonal": (lambda x: oc.einsum("i i | => i |", x[:, :4]), lambda a: a[:, :4].diagonal()),
    "position": (lambda x: oc.einsum("i 2 | => i |", x), lambda a: a[:, 2]),
    "apart": (lambda x: oc.einsum("i, j | => i, 2*j |", x), lambda a: np.kron(a, np.array([1, 0], a.dtype))),
    "broadcast": (lambda x: oc.einsum("i j | => k i j |", x, k=2), lambda a: np.stack([a, a])),
    "rows": (lambda x: oc.outer_sum("... | => ... |", x), lambda a: a),
    "flip": (lambda x: oc.flip(x), lambda a: a[:, ::-1]),
    "roll": (lambda x: oc.roll(x, 2), lambda a: np.roll(a, 2, 1)),
    "sort": (lambda x: oc.sort(x), lambda a: np.sort(a, 1)),
    "topk": (lambda x: oc.topk(x, 2)[0], lambda a: np.sort(a, 1)[:, :-3:-1]),
    "tril": (lambda x: oc.tril(x), np.tril),
    "triu": (lambda x: oc.triu(x, 1), lambda a: np.triu(a, 1)),
    "where": (lambda x: oc.where(x, x, x), lambda a: a),
    "take along": (
        lambda x: oc.take_along_axis(x, ids(IDS[:, None], "bb"), 1),
        lambda a: np.take_along_axis(a, IDS[:, None], 1),
    ),
    "gather": (lambda x: oc.gather("v, d |; t | => t, d |", x, ids(IDS), at="v"), lambda a: a[IDS]),
    "clamped": (
        lambda x: oc.gather("v, d |; t | => t, d |", x, ids(IDS), at="v", out_of_range="clamp"),
        lambda a: a[IDS],
    ),
    "meshgrid": (lambda x: oc.meshgrid(x[0], x[1])[0], lambda a: np.meshgrid(a[0], a[1], indexing="ij")[0]),
    "abs": (lambda x: oc.abs(x), np.abs),
    "clip": (lambda x: oc.clip(x, False, True), lambda a: np.clip(a, False, True)),
    "clip by tensors": (lambda x: oc.clip(x, x[:1], x), lambda a: np.clip(a, a[:1], a)),
    "maximum": (lambda x: oc.maximum(x, x), lambda a: a),
    "moved twice": (lambda x: oc.rearrange(x, "a b -> b a")[ids(IDS)][:, None], lambda a: a.T[IDS][:, None]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_types_and_values(dtype: type[np.generic]) -> None:
    a = RNG.integers(0, 2, (4, 6)).astype(dtype)
    x = oc.data(a, axes="bb")
    for name, (move, expected) in MOVES.items():
        found, wanted = CTX[move(x)], expected(a)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
        np.testing.assert_array_equal(found, wanted, err_msg=name)


SUMS: dict[str, tuple[Callable[[oc.Tensor], oc.Tensor], Callable[[Array], Array]]] = {
    "axis": (lambda x: oc.einsum("i j | => j |", x), lambda a: a.sum(0)),
    "parts": (lambda x: oc.einsum("i, a^b | => i |", x, a=2), lambda a: a.sum(1)),
    "any axis": (lambda x: oc.einsum("i _ | => i |", x), lambda a: a.sum(1)),
    "row": (lambda x: oc.einsum("... | => |", x), lambda a: np.asarray(a.sum())),
    "gathered": (lambda x: oc.gather("v, d |; t | => t |", x, ids(IDS), at="v"), lambda a: a[IDS].sum(1)),
    "scattered": (
        lambda x: oc.scatter("t, d |; t | => v, d |", x, ids(IDS), at="v", v=4),
        lambda a: np.stack([a[v == IDS].sum(0) for v in range(4)]),
    ),
    "overlap": (
        lambda x: oc.einsum("o, k | => o + k |", x),
        lambda a: np.array([np.fliplr(a).trace(5 - n) for n in range(9)]),
    ),
    "two operands": (lambda x: oc.outer_sum("i j |; i j | => i j |", x, x), lambda a: 2 * a),
    "product": (lambda x: oc.einsum("i j |; i j | => i j |", x, x), lambda a: a * a),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_added_is_counted(dtype: type[np.generic]) -> None:
    a = RNG.integers(0, 2, (4, 6)).astype(dtype)
    x, counted = oc.data(a, axes="bb"), a.astype(np.int32 if dtype is np.bool_ else dtype)
    for name, (add, expected) in SUMS.items():
        found = CTX[add(x)]
        assert found.dtype == counted.dtype, name
        np.testing.assert_array_equal(found, expected(counted), err_msg=name)


def test_eager_and_in_scans() -> None:
    a = RNG.integers(0, 2, (4, 6)).astype(np.bool_)
    with oc.eager():
        x = oc.data(a, axes="bb")
        found = np.asarray(oc.rearrange(x[ids(IDS)], "a b -> b a"))
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, a[IDS].T)


def test_ids_cost_what_they_choose() -> None:
    """Not what there is to choose from."""
    table = oc.data(np.zeros((4096, 64), np.bool_), axes="bb")
    text = table[ids(IDS)].ir("index-by-comparison")
    nest = text[text.index('nest "gather"') :]
    assert "loops.position" in nest
    assert "loops.reduce" not in nest


def test_gradients_pass_what_masks_choose() -> None:
    a, mask = RNG.normal(size=(4, 6)), RNG.integers(0, 2, (4, 6)).astype(np.bool_)
    x = oc.data(a, axes="bb")
    chosen = oc.where(oc.data(mask, axes="bb")[ids(IDS)], x[ids(IDS)], 0.0)
    wanted = np.zeros_like(a)
    np.add.at(wanted, IDS, mask[IDS].astype(float))
    np.testing.assert_array_equal(CTX[oc.grad(chosen.sum(), x)], wanted)


@pytest.mark.parametrize("backend", ["emulated_gpu"])
def test_on_gpus(backend: str) -> None:
    a = RNG.integers(0, 2, (4, 6)).astype(np.bool_)
    ctx, x = getattr(oc.Context, backend)(), oc.data(a, axes="bb")
    for name in ("ids", "concat", "pad", "sort", "abs", "unfold", "reshape"):
        move, expected = MOVES[name]
        np.testing.assert_array_equal(ctx[move(x)], expected(a), err_msg=name)
