"""Reshapes and einops' notation, against NumPy: the elements stay in the order of memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tensors import Array

import ocannl as oc
from ocannl import nn

CTX = oc.Context.cpu(1)


def array_of(*shape: int) -> Array:
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


SHAPES = [(2, 3, 4), (24,), (4, 6), (6, 4), (8, 3), (1, 24, 1), (3, 8), (2, 2, 6), (2, 1, 12), (4, 3, 2)]


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(SHAPES), st.sampled_from(SHAPES))
def test_by_sizes(before: tuple[int, ...], after: tuple[int, ...]):
    x = oc.data(array_of(*before), label="x")
    y = x.reshape(after)
    assert tuple(y.shape) == after
    np.testing.assert_array_equal(CTX[y], array_of(*before).reshape(after))
    gradient = oc.grad((y * oc.data(array_of(*after))).sum(), x)
    np.testing.assert_array_equal(CTX[gradient], array_of(*before))


def test_batch_axes_that_become_one_stay_batch_axes():
    """Ids do, so that losses of all positions are means of rows."""
    ids, scores = oc.data(np.arange(8).reshape(2, 4), axes="bb"), oc.data(array_of(2, 4, 9))
    assert [str(ids.reshape(*sizes).shape) for sizes in ((-1,), (8,), (4, 2))] == ["8|", "8|", "4|2"]
    assert str(scores.reshape(-1).shape) == "72"
    loss, flat = nn.cross_entropy(scores, ids), nn.cross_entropy(scores.reshape(-1, 9), ids.reshape(-1))
    np.testing.assert_allclose(CTX[flat], CTX[loss], rtol=1e-12)


def test_no_elements():
    for before, after in (((2, 0, 3), (0,)), ((0,), (2, 0, 3)), ((0, 5), (5, 1, 0))):
        x = oc.data(array_of(*before), label="x")
        assert CTX[x.reshape(after)].shape == after


SLOTS: list[tuple[str, dict[str, int], str, tuple[int, ...]]] = [
    ("b | h, w -> ...", {"h": 4}, "4|4,2->6", (4, 6, 4, 2)),
    ("... | ... -> 2, k", {}, "4|8->2,3", (4, 2, 3, 8)),
    ("n, 2 | ... -> ...", {}, "2,2|8->6", (2, 2, 6, 8)),
    ("n |", {}, "192|", (192,)),
    ("3 | -> 1, k", {}, "3|1,64", (3, 1, 64)),
    ("a, b | 2 -> c", {"a": 6, "c": 4}, "6,4|2->4", (6, 4, 4, 2)),
]


@pytest.mark.parametrize(("slot", "sizes", "shape", "sizes_of_array"), SLOTS)
def test_by_a_slot(slot: str, sizes: dict[str, int], shape: str, sizes_of_array: tuple[int, ...]):
    x = oc.data(array_of(4, 6, 8), axes="boi", label="x")
    y = (x * 1).reshape(slot, **sizes)
    assert str(y.shape) == shape
    np.testing.assert_array_equal(CTX[y], array_of(4, 6, 8).reshape(sizes_of_array))


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((5, -1), {}),
        ((-1, -1), {}),
        ((7,), {}),
        (("a, b | ...",), {}),
        (("h | w |",), {}),
        (("a&b",), {"a": 2}),
    ],
)
def test_what_does_not_fit(shape: tuple[Any, ...], sizes: dict[str, int]):
    with pytest.raises((oc.ShapeError, oc.SpecError)):
        oc.data(array_of(4, 6), label="x").reshape(*shape, **sizes)


def test_the_notation_of_einops_in_a_reshape():
    with pytest.raises(oc.SpecError, match=r"(?s)  a b -> \(a b\)\n +\^\n.*oc.rearrange"):
        oc.data(array_of(4, 6)).reshape("a b -> (a b)")


def test_rearranging():
    a = array_of(2, 6, 5)
    x = oc.data(a, axes="boi", label="x")
    cases: list[tuple[oc.Tensor, Array]] = [
        (oc.rearrange(x, "b h w -> b (h w)"), a.reshape(2, 30)),
        (
            oc.rearrange(x, "b (h k) w -> w (k b) h", k=2),
            a.reshape(2, 3, 2, 5).transpose(3, 2, 0, 1).reshape(5, 4, 3),
        ),
        (oc.rearrange(x, "... w -> w ..."), a.transpose(2, 0, 1)),
        (oc.rearrange(x, "b ... -> (...) b"), a.transpose(1, 2, 0).reshape(30, 2)),
        (oc.rearrange(x, "b h w -> b 1 h w"), a[:, None]),
        (oc.rearrange(x, "b h w -> () b w h"), a.transpose(0, 2, 1)[None]),
        (oc.repeat(x, "b h w -> b h (w c)", c=3), a.repeat(3, axis=2)),
        (oc.repeat(x, "b h w -> c b h w", c=2), np.stack([a, a])),
        (oc.reduce(x, "b (h k) w -> w h", "max", k=3), a.reshape(2, 2, 3, 5).max((0, 2)).T),
        (oc.reduce(x, "b h w -> ", "mean"), np.array(a.mean())),
        (oc.reduce(x, "b h w -> b () w", "sum"), a.sum(1, keepdims=True)),
    ]
    for found, wanted in cases:
        assert tuple(found.shape) == wanted.shape
        np.testing.assert_allclose(CTX[found], wanted, rtol=1e-14)
    assert str(oc.rearrange(x, "b h w -> b w h", axes="boi").shape) == "2|6->5"


def test_names_are_free():
    """Those of axes that `...` and `()` stand for are others."""
    x = oc.data(array_of(2, 6, 5))
    found = oc.rearrange(x, "e0 ... e1 -> e1 () ... e0")
    np.testing.assert_array_equal(CTX[found], array_of(2, 6, 5).transpose(2, 1, 0)[:, None])
    found = oc.rearrange(x, "unit3 unit4 e -> () e unit4 unit3")
    np.testing.assert_array_equal(CTX[found], array_of(2, 6, 5).transpose(2, 1, 0)[None])
    truths = array_of(2, 6, 5) % 3 == 0
    for how in ("any", "all"):
        found = CTX[oc.reduce(oc.data(truths), "a b c -> b", how)]
        np.testing.assert_array_equal(found, getattr(np, how)(truths, (0, 2)))
        assert found.dtype == np.bool_


@pytest.mark.parametrize(
    ("pattern", "sizes"),
    [
        *(("b h -> h b", {}), ("b h w -> b h", {}), ("b (h k l) w -> b", {}), ("b h w -> b h w)", {})),
        *(("b (h k) w -> b h k w", {"k": 4}), ("b h w", {}), ("b b w -> b w", {}), ("b h w -> b h (w", {})),
        *(
            ("b h w -> b h w c", {}),
            ("b h w -> b h w c", {"c": 2}),
            ("... ... w -> w ...", {}),
            ("b | h -> b", {}),
            ("b h w -> b h w w", {}),
        ),
    ],
)
def test_patterns_that_do_not_fit(pattern: str, sizes: dict[str, Any]):
    with pytest.raises((oc.ShapeError, oc.SpecError)):
        oc.rearrange(oc.data(array_of(2, 6, 5)), pattern, **sizes)


def test_sizes_as_numbers_in_patterns():
    a = np.arange(24.0).reshape(4, 6)
    x = oc.data(a)
    np.testing.assert_array_equal(oc.repeat(x, "h w -> (h 2) (w 3)").numpy(), a.repeat(2, 0).repeat(3, 1))
    np.testing.assert_array_equal(oc.repeat(x, "h w -> h 2 w").numpy(), a[:, None].repeat(2, 1))
    pooled = oc.reduce(x, "(h 2) (w 2) -> h w", "max")
    np.testing.assert_array_equal(pooled.numpy(), a.reshape(2, 2, 3, 2).max((1, 3)))
    with pytest.raises(oc.SpecError, match="_of_2` is on one side of"):
        oc.rearrange(x, "(h 2) w -> h (w 2)")
    with pytest.raises(oc.SpecError, match=re.escape("is no pattern: see `0")):
        oc.repeat(x, "h w -> h w 0")


@pytest.mark.parametrize("size", ["-2", "2.5"])
def test_a_wrong_size_in_a_pattern_is_shown_as_written(size: str):
    with pytest.raises(oc.SpecError, match=re.escape(f"see `{size})`")):
        oc.repeat(oc.data(np.ones((2, 3)), axes="bo"), f"h w -> h (w {size})")
