"""Sorting, running sums, norms and their like along one axis, and gradients, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tensors import Array
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

import ocannl as oc
from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.dialects.texpr import TEXPR
from ocannl.passes.analysis.costs.work import flops
from ocannl.program.tensor_functions import sorting

CTX = oc.Context.cpu(1)
NAN = np.array([[2.0, np.nan, 1.0, 2.0], [np.nan, np.nan, -np.inf, 0.0], [3.0, 3.0, 3.0, 3.0]])


def array_of(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(2).normal(size=shape))


def norms(a: Array, axis: int) -> Array:
    return np.linalg.norm(a, axis=axis)


FUNCTIONS: dict[str, tuple[Callable[..., oc.Tensor], Callable[..., Array]]] = {
    "sort": (oc.sort, np.sort),
    "argsort": (oc.argsort, lambda a, axis: np.argsort(a, axis, kind="stable")),
    "cumsum": (oc.cumsum, np.cumsum),
    "cumprod": (oc.cumprod, np.cumprod),
    "cummax": (oc.cummax, np.maximum.accumulate),
    "cummin": (oc.cummin, np.minimum.accumulate),
    "logcumsumexp": (oc.logcumsumexp, lambda a, axis: np.logaddexp.accumulate(a, axis)),
    "unfold": (lambda t, axis: oc.unfold(t, axis, 1), lambda a, axis: a[..., None]),
    "flip": (oc.flip, np.flip),
    "roll": (lambda t, axis: oc.roll(t, 2, axis), lambda a, axis: np.roll(a, 2, axis)),
    "roll back": (lambda t, axis: oc.roll(t, -1, axis), lambda a, axis: np.roll(a, -1, axis)),
    "norm": (oc.norm, norms),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str):
    function, reference = FUNCTIONS[name]
    for array in (array_of(2, 3, 5), NAN, np.round(array_of(3, 7)), array_of(4, 1)):
        x = oc.data(array, label="x")
        for axis in (0, -1):
            found = function(x, axis)
            wanted = reference(array, axis=axis)
            assert tuple(found.shape) == wanted.shape
            np.testing.assert_allclose(CTX[found], wanted, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "argsort"])
def test_gradients(name: str):
    function, reference = FUNCTIONS[name]
    array = array_of(3, 5)
    array[0, 1] = 0
    x = oc.data(array, label="x")
    for axis in (0, -1):
        shape = reference(array, axis=axis).shape
        weights = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        axes = "boo" if name == "unfold" else "b" if axis == -1 and name == "norm" else None
        loss = (function(x, axis) * oc.data(weights, axes=axes)).sum()
        wanted = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            step = np.zeros_like(array)
            step[at] = 1e-6
            change = reference(array + step, axis=axis) - reference(array - step, axis=axis)
            wanted[at] = np.sum(change * weights) / 2e-6
        np.testing.assert_allclose(CTX[oc.grad(loss, x)], wanted, rtol=1e-6, atol=1e-7)


def test_the_greatest():
    x = oc.data(array_of(4, 6), label="x")
    for axis in (0, 1):
        values, ids = oc.topk(x, 3, axis)
        order = np.argsort(-array_of(4, 6), axis, kind="stable")
        kept = order[:3] if axis == 0 else order[:, :3]
        np.testing.assert_array_equal(CTX[ids], kept)
        np.testing.assert_array_equal(CTX[values], np.take_along_axis(array_of(4, 6), kept, axis))
    np.testing.assert_array_equal(CTX[oc.sort(x, descending=True)], -np.sort(-array_of(4, 6)))
    gradient = CTX[oc.grad(oc.topk(x, 2)[0].sum(), x)]
    np.testing.assert_array_equal(gradient, array_of(4, 6) >= np.sort(array_of(4, 6))[:, -2:-1])
    with pytest.raises(oc.ArgumentError, match="k=7"):
        oc.topk(x, 7)


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [0, 6, 40])
def test_none_are_found(size: int):
    x = oc.data(np.ones((3, size), np.float32), label="x")
    values, ids = oc.topk(x, 0)
    assert values.numpy().shape == ids.numpy().shape == (3, 0)
    assert oc.argsort(x[:, :0]).numpy().shape == oc.sort(x[:, :0]).numpy().shape == (3, 0)


def ties(dtype: type) -> Array:
    """13 elements in each of three rows, many of them equal, with the extremes of their type."""
    array = np.round(2 * array_of(3, 13))
    if np.dtype(dtype).kind == "f":
        array[0, [0, 3, 7, 9]] = [np.nan, np.inf, np.nan, np.inf]
        array[1, [2, 5, 6]] = [-np.inf, -0.0, 0.0]
        array[2] = np.nan
        return array.astype(dtype)
    found, limits = np.abs(array).astype(dtype), np.iinfo(dtype)
    found[:2, [4, 11]] = [limits.max, limits.min]
    return found


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch):
    """Few elements are ordered as many are, which compiles sooner."""
    monkeypatch.setattr(sorting, "SHORT", 4)
    monkeypatch.setattr(sorting, "FEW", 0)


@pytest.mark.usefixtures("networks")
@pytest.mark.sampled(13)
@pytest.mark.parametrize(("axis", "descending"), [(0, False), (1, True), (1, False)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8])
def test_networks_keep_the_order_of_equal_elements(dtype: type, axis: int, descending: bool):
    """Elements added up to a power of two come behind infinity and NaN."""
    array = ties(dtype) if axis else ties(dtype).T.copy()
    x = oc.data(array, label="x")
    wide = array.astype(np.float64) if array.dtype.kind == "f" else array.astype(object)
    wanted = np.argsort(-wide if descending else wide, axis, kind="stable")
    order, ordered = oc.argsort(x, axis, descending=descending), oc.sort(x, axis, descending=descending)
    CTX.compile(oc.forward(order) + oc.forward(ordered))()
    np.testing.assert_array_equal(CTX[order], wanted)
    np.testing.assert_array_equal(CTX[ordered], np.take_along_axis(array, wanted, axis))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize("k", [1, 3])
def test_the_greatest_of_many(k: int):
    """Runs of 1 or 4 elements are ordered, of which pairs are halved until one is left."""
    array = ties(np.float32)
    x = oc.data(array, label="x")
    values, ids = oc.topk(x, k)
    wanted = np.argsort(-array, 1, kind="stable")[:, :k]
    weights = np.arange(1.0, k + 1)
    found = oc.grad((values * oc.data(weights)).sum(), x)
    CTX.compile(oc.forward(ids) + oc.forward(values) + oc.forward(found))()
    np.testing.assert_array_equal(CTX[ids], wanted)
    np.testing.assert_array_equal(CTX[values], np.take_along_axis(array, wanted, 1))
    gradient = np.zeros_like(array)
    np.put_along_axis(gradient, wanted, np.broadcast_to(weights, wanted.shape), 1)
    np.testing.assert_array_equal(CTX[found], gradient)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
def test_few_elements_are_selected_in_order(dtype: type, axis: int):
    """Equal ones by their positions, infinity before NaN, and more NaN than one."""
    array = ties(dtype) if axis else ties(dtype).T.copy()
    wide = array.astype(np.float64)
    wanted = np.argsort(-wide, axis, kind="stable")
    wanted = wanted[:, :3] if axis else wanted[:3]
    values, ids = oc.topk(oc.data(array, label="x"), 3, axis)
    CTX.compile(oc.forward(ids) + oc.forward(values))()
    np.testing.assert_array_equal(CTX[ids], wanted)
    np.testing.assert_array_equal(CTX[values], np.take_along_axis(array, wanted, axis))


def test_few_elements_take_two_passes_each():
    """Not as many as the elements in order have bits."""
    order = oc.topk(oc.data(np.zeros((4, 1024), np.float32)), 2)[1]
    steps = CTX.compile(order.forward).step_seconds(1)
    assert sum(flops(step) for step in steps if isinstance(step, NestOp | GroupOp)) < 4 * 1024 * 40


def test_long_axes_take_no_comparison_of_all_pairs():
    order = oc.topk(oc.data(np.zeros(256, np.float32)), 1)[1]
    steps = CTX.compile(order.forward).step_seconds(1)
    assert sum(flops(step) for step in steps if isinstance(step, NestOp | GroupOp)) < 256**2 / 4


def test_both_orders_of_one_tensor():
    """Their texts differ, by which routines are found again, though they read the same tensor twice."""
    x = oc.data(array_of(4, 6), label="x")
    texts = {oc.argsort(x, descending=descending).ir() for descending in (True, False)}
    assert len(texts) == 2
    for text in texts:
        context = Context()
        context.load_dialect(Builtin)
        context.load_dialect(TEXPR)
        module = Parser(context, text).parse_module()
        module.verify()
        assert str(module).strip() == text.strip()
    for descending in (True, False, True):
        wanted = np.sort(array_of(4, 6))[:, :: -1 if descending else 1]
        np.testing.assert_array_equal(CTX[oc.sort(x, descending=descending)], wanted)


def test_norms():
    x = oc.data(NAN[[0, 2]], label="x")
    np.testing.assert_array_equal(CTX[oc.norm(x)], [np.nan, 6])
    y = oc.data(np.array([[3.0, -4.0], [0.0, 0.0]]), label="y")
    assert CTX[oc.norm(y, None)] == 5
    np.testing.assert_array_equal(CTX[oc.norm(y, ord=1, keep=True)], [[7], [0]])
    np.testing.assert_array_equal(CTX[oc.norm(y, ord=np.inf)], [4, 0])
    np.testing.assert_allclose(CTX[oc.grad(oc.norm(y).sum(), y)], [[0.6, -0.8], [0, 0]], rtol=1e-15)
    for order in (3, 0, -1, -np.inf, 0.5):
        z = oc.data(array_of(3, 4), label="z")
        np.testing.assert_allclose(CTX[oc.norm(z, ord=order)], np.linalg.norm(array_of(3, 4), order, 1))
    wrong: Any
    for wrong in ("fro", np.nan):
        with pytest.raises(oc.ArgumentError, match="order"):
            oc.norm(y, ord=wrong)


def last_attained(a: Array, axis: int, extreme: Array) -> Array:
    """The last position up to each one of an element that is the extreme there, or NaN."""
    shape = [1] * a.ndim
    shape[axis] = -1
    numbers = np.arange(a.shape[axis]).reshape(shape)
    return np.maximum.accumulate(np.where((a == extreme) | np.isnan(a), numbers, 0), axis)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_positions_of_running_extremes(name: str):
    function, reference = FUNCTIONS[name]
    for array in (NAN, np.round(array_of(3, 7)), array_of(2, 1), np.array([[3, 1, 3], [1, 3, 0]], np.int32)):
        for axis in (0, -1):
            values, ids = function(oc.data(array, label="x"), axis, return_indices=True)
            wanted = reference(array, axis=axis)
            np.testing.assert_array_equal(CTX[values], wanted)
            np.testing.assert_array_equal(CTX[ids], last_attained(array, axis, wanted))
            assert CTX[ids].dtype.kind == "i"
    with pytest.raises(oc.ArgumentError, match="`return_indices` is True or False, found 'no'"):
        function(oc.data(NAN), return_indices="no")


def test_positions_of_running_extremes_are_those_of_pytorch():
    torch: Any = pytest.importorskip("torch")
    for array in (NAN, np.round(array_of(3, 7))):
        for name in ("cummax", "cummin"):
            wanted = getattr(torch, name)(torch.tensor(array), 1)
            values, ids = FUNCTIONS[name][0](oc.data(array, label="x"), 1, return_indices=True)
            np.testing.assert_array_equal(CTX[values], wanted.values)
            np.testing.assert_array_equal(CTX[ids], wanted.indices)


def test_large_logarithms_of_running_sums():
    array = np.array([[1000.0, 1001.0, -1000.0, np.inf, 2.0], [-np.inf, 0.0, 1.0, np.nan, 3.0]])
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp.accumulate(array, 1)
    np.testing.assert_allclose(CTX[oc.logcumsumexp(oc.data(array))], wanted, rtol=1e-15)


@pytest.mark.parametrize(("axis", "size", "step"), [(0, 3, 1), (1, 2, 2), (-1, 3, 4), (1, 4, 3), (-1, 7, 1)])
def test_windows_of_an_axis(axis: int, size: int, step: int):
    array = array_of(5, 4, 7)
    x = oc.data(array, label="x")
    windows = np.lib.stride_tricks.sliding_window_view(array, size, axis)
    every: list[Any] = [slice(None)] * 3
    every[axis] = slice(None, None, step)
    wanted = windows[tuple(every)]
    found = oc.unfold(x, axis, size, step)
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_array_equal(CTX[found], wanted)
    count = np.zeros_like(array)
    np.add.at(np.lib.stride_tricks.sliding_window_view(count, size, axis, writeable=True), tuple(every), 1.0)
    np.testing.assert_array_equal(CTX[oc.grad(found.sum(), x)], count)
    with pytest.raises(oc.ArgumentError, match="found windows of 8"):
        oc.unfold(x, axis, 8)


def test_an_expression_and_an_axis_that_there_is_not():
    x = oc.data(array_of(2, 3), label="x")
    np.testing.assert_allclose(CTX[oc.cumsum(x * 2, 0)], np.cumsum(array_of(2, 3) * 2, 0))
    functions: list[Any] = [oc.sort, oc.cumsum, oc.flip, oc.norm, lambda t, axis: oc.roll(t, 1, axis)]
    for function in functions:
        with pytest.raises(IndexError, match="`x`"):
            function(x, 2)
        with pytest.raises(oc.ArgumentError):
            function(x, 0.5)
    with pytest.raises(oc.ShapeError, match="`w`"):
        oc.sort(oc.param("w"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("diagonal", [-7, -1, 0, 2, 7])
def test_triangles(diagonal: int):
    for array in (array_of(3, 5), array_of(2, 4, 3), array_of(4, 4) > 0, np.arange(6).reshape(3, 2)):
        x = oc.data(array, label="x")
        for found, wanted in ((oc.tril, np.tril), (oc.triu, np.triu)):
            value = CTX[found(x, diagonal)]
            np.testing.assert_array_equal(value, wanted(array, diagonal))
            assert value.dtype == array.dtype


def test_logarithms_of_sums():
    """Without overflow, and of infinities as they are."""
    array = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [0.0, np.inf], [1.0, np.nan], [-1e9, 2.0]])
    x = oc.data(array, label="x")
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp.reduce(array, 1)
    np.testing.assert_allclose(CTX[oc.logsumexp(x, -1)], wanted, rtol=1e-15)
    np.testing.assert_allclose(CTX[oc.logsumexp(x, 1, keep=True)], wanted[:, None], rtol=1e-15)
    np.testing.assert_allclose(
        CTX[oc.logsumexp(oc.data(array_of(3, 4)))], np.log(np.exp(array_of(3, 4)).sum())
    )


RUNNING = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate,
}


@pytest.mark.exhaustive
@pytest.mark.sampled(17)
@pytest.mark.parametrize("size", [64, 65, 67, 70, 96, 257, 1009, 1024, 4097])
@pytest.mark.parametrize("name", RUNNING)
def test_long_axes_are_accumulated_in_blocks(name: str, size: int):
    for axis, shape in ((0, (size,)), (1, (2, size, 3))):
        array = np.exp(0.01 * array_of(*shape)) * np.sign(array_of(*shape) + 0.3)
        wanted = RUNNING[name](array, axis)
        np.testing.assert_allclose(CTX[getattr(oc, name)(oc.data(array), axis)], wanted, rtol=1e-11)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [200, 211])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "logcumsumexp"])
def test_gradients_of_long_axes_are_those_of_pytorch(name: str, size: int):
    torch: Any = pytest.importorskip("torch")
    array, seed = 1 + 0.01 * array_of(2, size), array_of(2, size)
    x = oc.data(array, axes="bb", label="x")
    slope = oc.grad((getattr(oc, name)(x, 1) * oc.data(seed, axes="bb")).sum(), x)
    t = torch.tensor(array, requires_grad=True)
    found = getattr(torch, name)(t, 1)
    ((found if name != "cummax" else found[0]) * torch.tensor(seed)).sum().backward()
    np.testing.assert_allclose(CTX[slope], t.grad.numpy(), rtol=1e-9, atol=1e-9)


def test_running_sums_keep_infinities_behind_their_place_and_integers_their_dtype():
    array = np.ones(1000)
    array[500] = np.inf
    np.testing.assert_array_equal(CTX[oc.cumsum(oc.data(array))], np.cumsum(array))
    counts = np.arange(1000, dtype=np.int32)
    found = CTX[oc.cumsum(oc.data(counts))]
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.cumsum(counts))


@pytest.mark.parametrize(("name", "accum"), [("cumsum", "add"), ("cumprod", "mul")])
def test_blocks_of_running_sums_are_made_by_one_nest(name: str, accum: str):
    """Steps by elements 1, 2, 4 and 8 apart write each block five times."""
    text = FUNCTIONS[name][0](oc.data(array_of(2, 128)), 1).forward.ir("inline-nodes")
    assert text.count("loops.nest") < 12
    assert f"loops.reduce {accum} (place = 16)" in text


def test_each_row_is_accumulated_at_once():
    sums = oc.cumsum(oc.data(np.ones((1024, 1000), np.float32)), 1)
    text = sums.forward.ir("tile-and-fuse", target="x86-64-v3")
    _, group = text.split("loops.group")
    assert text.count("loops.nest") == group.count("loops.nest") > 1
    assert "memref<1x125x8xf32>" in group


def test_blocks_of_many_rows_are_in_memory_for_one_row_only():
    """Between the first nest and the last are as many that join the group only all together."""
    sums = oc.cumsum(oc.data(np.ones((4096, 1024), np.float32)), 1)
    text = sums.forward.ir("tile-and-fuse", target="x86-64-v3")
    _, group = text.split("loops.group")
    assert "memref<1x64x16xf32>" in group


@pytest.mark.exhaustive
def test_the_additions_of_running_sums_grow_with_their_number_alone():
    counts: list[float] = []
    for size in (2**12, 2**16):
        sums = oc.cumsum(oc.data(np.ones(size, np.float32))).named("y")
        steps = CTX.compile(sums.forward).step_seconds(1)
        counts.append(sum(flops(step) for step in steps if isinstance(step, NestOp | GroupOp)) / size)
    assert counts[1] < 1.05 * counts[0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [1, 2, 5])
def test_truth_values_move_as_such_and_count_in_sums(size: int):
    """Whatever the size of the axis: one of a single element had sums of another dtype."""
    array = np.arange(size) % 2 == 0
    t = oc.data(array)
    for found, wanted in (
        (oc.sort(t), np.sort(array)),
        (oc.topk(t, 1)[0], array[:1]),
        (oc.roll(t, 1), np.roll(array, 1)),
        (oc.flip(t), array[::-1]),
        (oc.cummax(t), np.maximum.accumulate(array)),
        (oc.cumsum(t), np.cumsum(array, dtype=np.int32)),
        (oc.cumprod(t), np.cumprod(array, dtype=np.int32)),
    ):
        value = found.numpy()
        assert value.dtype == wanted.dtype
        np.testing.assert_array_equal(value, wanted)


def test_along_several_axes():
    a = np.arange(24.0).reshape(2, 3, 4)
    t = oc.data(a)
    np.testing.assert_array_equal(oc.flip(t, (0, -1)).numpy(), np.flip(a, (0, -1)))
    with pytest.raises(oc.ArgumentError, match=r"an axis is flipped once, found \(0, -2\)"):
        oc.flip(oc.data(np.ones((2, 3)), axes="bo"), (0, -2))
    np.testing.assert_array_equal(oc.roll(t, (1, -2), (1, 2)).numpy(), np.roll(a, (1, -2), (1, 2)))
    np.testing.assert_array_equal(oc.roll(t, 1, [0, 1]).numpy(), np.roll(a, 1, (0, 1)))
    with pytest.raises(oc.ArgumentError, match="each axis has a shift: 1 axes, found 2 shifts"):
        oc.roll(t, (1, 2))
