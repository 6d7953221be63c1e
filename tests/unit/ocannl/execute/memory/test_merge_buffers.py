"""Merge buffers: values of memory in other contexts of this process."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np
import pytest

import ocannl as oc
from ocannl import train

rng = np.random.default_rng(3)
POINTS = rng.normal(size=(4, 8))


def cpu() -> oc.Context:
    return oc.Context.cpu(threads=1)


CONTEXTS = [cpu, oc.Context.emulated_gpu, lambda: oc.Context.cpu(mesh=oc.Mesh({"data": 2}, engine="threads"))]


@pytest.mark.parametrize("make", CONTEXTS)
@pytest.mark.parametrize("other", CONTEXTS)
def test_gradients_of_two_contexts(make: Callable[[], oc.Context], other: Callable[[], oc.Context]) -> None:
    """Each pair of devices, with memory in place, in copies and in parts."""
    ctx, ctx2 = make(), other()
    w = oc.param("w", rng.normal(size=(3, 8)), shard={"output": "data"})
    x = oc.data(POINTS, label="x")
    loss = oc.sum((w @ x) ** 2)
    with oc.code("merge") as merge:
        w.grad += w.grad.merge(ctx2)
    steps = [each.compile(train.grad_update(loss)) for each in (ctx, ctx2)]
    merged = ctx.compile(merge)
    for each, step in zip((ctx, ctx2), steps, strict=True):
        each.init_params(loss)
        each[x] = POINTS if each is ctx else 2 * POINTS
        step()
    wanted = ctx[w.grad] + ctx2[w.grad]
    merged()
    assert np.array_equal(ctx[w.grad], wanted)
    steps[1]()
    merged()
    assert np.array_equal(ctx[w.grad], wanted + ctx2[w.grad])


@pytest.mark.parametrize("dtype", ["bool", "int32", "bfloat16", "float64"])
def test_dtypes(dtype: str) -> None:
    ctx, ctx2 = cpu(), cpu()
    source, target = (oc.node(name, output=3, dtype=dtype, init=0) for name in ("source", "target"))
    routine = ctx.compile(oc.set(target, source.merge(ctx2)))
    ctx2[source] = [1, 0, 1]
    routine()
    assert ctx[target].dtype == ctx2[source].dtype
    assert ctx[target].tolist() == [1, 0, 1]


def test_open_types_are_those_of_the_memory() -> None:
    ctx, ctx2 = cpu(), cpu()
    w = oc.param("w", oc.init.constant(1.0))
    add = oc.set(w, w + w.merge(ctx2))
    loss = oc.sum(w * oc.data(POINTS[0]))
    ctx2.init_params(loss)
    routine = ctx.compile(add)
    ctx.init_params(loss)
    routine()
    assert np.array_equal(ctx[w], np.full(8, 2.0))


def test_twelve_layers_that_are_folded() -> None:
    ctx, ctx2 = cpu(), cpu()
    ws = [oc.param(f"w{k}", input=8, output=8, dtype="float64") for k in range(12)]
    h: oc.Tensor = oc.data(POINTS)
    for w in ws:
        h = oc.tanh(w @ h)
    loss = oc.mean(h**2)
    with oc.code("update") as update:
        for w in ws:
            w -= w.grad + w.grad.merge(ctx2)
    gradients = [each.compile(train.grad_update(loss)) for each in (ctx, ctx2)]
    step = ctx.compile(train.grad_update(loss) + update)
    for each, routine in zip((ctx, ctx2), gradients, strict=True):
        each.init_params(loss, seed=1 + (each is ctx))
        routine()
    wanted = [ctx[w] - (ctx[w.grad] + ctx2[w.grad]) for w in ws]
    step()
    for w, value in zip(ws, wanted, strict=True):
        np.testing.assert_allclose(ctx[w], value, rtol=0, atol=1e-15)


def test_a_context_merges_its_own_value_as_the_run_begins() -> None:
    ctx = cpu()
    w = oc.param("w", [1.0, 2.0])
    twice = ctx.compile(oc.set(w, w + w.merge(ctx)) + oc.set(w, w + w.merge(ctx)))
    ctx.init_params(w)
    twice()
    assert ctx[w].tolist() == [3.0, 6.0]


def test_an_expression_is_merged_by_its_last_value() -> None:
    ctx, ctx2 = cpu(), cpu()
    w = oc.param("w", [1.0, 2.0])
    squares = (w**2).named("squares")
    merged = squares.merge(ctx2)
    for each in (ctx, ctx2):
        each.init_params(w)
    ctx2[w] = [3.0, 4.0]
    ctx2.compile(squares)()
    total = oc.node("total", output=2)
    ctx.compile(oc.set(total, squares + merged))()
    assert ctx[total].tolist() == [10.0, 20.0]


@pytest.mark.parametrize("make", CONTEXTS[:2])
def test_loops_read_the_value_as_they_begin(make: Callable[[], oc.Context]) -> None:
    ctx, ctx2 = make(), cpu()
    i, total = oc.index("i", 3), oc.node("total", output=[], init=0)
    t = oc.param("t", [1.0, 2.0, 3.0])
    with oc.code("adds") as adds:
        total += t.merge(ctx2)[i]
    ctx2.init_params(t)
    found = ctx.compile(adds).run_loop(epochs=2, record=[total])
    assert found[total].tolist() == [1, 3, 6, 7, 9, 12]


def test_present_values_and_eager_mode() -> None:
    ctx, ctx2 = cpu(), cpu()
    w = oc.param("w", [1.0, 2.0])
    ctx.init_params(w)
    ctx2[w] = [3.0, 4.0]
    assert ctx[w.merge(ctx2)].tolist() == [3.0, 4.0]
    assert ctx[w + w.merge(ctx2)].tolist() == [4.0, 6.0]
    with ctx, oc.eager():
        w += w.merge(ctx2)
        w += w.merge(ctx2)
    assert ctx[w].tolist() == [7.0, 10.0]


def test_it_is_no_state() -> None:
    ctx2 = cpu()
    w = oc.param("w", [1.0, 2.0])
    assert list(oc.state(oc.set(w, w + w.merge(ctx2)))) == ["w"]


def test_contexts_have_numbers_in_the_text() -> None:
    ctx2, ctx3 = cpu(), cpu()
    w = oc.param("w", [1.0, 2.0])
    text = oc.set(w, w.merge(ctx2) + w.merge(ctx3) + w.merge(ctx2)).ir("texpr")
    assert re.findall(r"texpr.merge .* from (\d)", text) == ["0", "1", "0"]


def test_memory_without_a_value_is_an_error_with_the_line() -> None:
    ctx, ctx2 = cpu(), cpu()
    w = oc.param("w", [1.0, 2.0])
    loss = oc.sum(w**2)
    merge = oc.set(w, w.grad.merge(ctx2))
    routine = ctx.compile(merge)
    with pytest.raises(oc.UninitializedError, match=r"`w.grad.merge` .made at .*merge_buffers.py:\d+"):
        routine()
    ctx2.init_params(loss)
    ctx2.compile(train.grad_update(loss))()
    routine()
    assert ctx[w].tolist() == [2.0, 4.0]


def test_what_cannot_be_merged() -> None:
    ctx2 = cpu()
    w = oc.param("w", [1.0, 2.0])
    with pytest.raises(oc.ArgumentError, match=r"test_merge_buffers.py:\d+: `w.merge` takes the context"):
        w.merge("ctx2")  # pyright: ignore[reportArgumentType]
    with pytest.raises(oc.ArgumentError, match="has the value of a context already"):
        w.merge(ctx2).merge(ctx2)
    with pytest.raises(oc.OcannlError, match="is a merge buffer, with the value of another"):
        oc.set(w.merge(ctx2), 1.0)
    with pytest.raises(oc.OcannlError, match="it is set, and shared, there"):
        ctx2[w.merge(ctx2)] = [1.0, 2.0]
    with pytest.raises(oc.ShapeError, match=r"test_merge_buffers.py:\d+"):
        oc.set(oc.node("m", output=3), w.merge(ctx2))


@contextmanager
def again_and_again(action: Callable[[], None]) -> Generator[None]:
    """A context beside which another thread does something until it ends."""
    ends = threading.Event()

    def run() -> None:
        while not ends.is_set():
            action()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_a_merge_never_sees_half_a_run() -> None:
    """A routine that writes in one thread, and one that reads it elsewhere in another."""
    ctx, ctx2 = cpu(), cpu()
    numbers, seen = oc.node("numbers", output=200_000, init=0), oc.node("seen", output=200_000, init=0)
    with oc.code("count") as count:
        numbers += 1
    counted = ctx2.compile(count)
    merged = ctx.compile(oc.set(seen, numbers.merge(ctx2)))
    counted()
    with again_and_again(counted):
        for _ in range(100):
            merged()
            found = ctx[seen]
            assert (found == found[0]).all()


@pytest.mark.parametrize("is_part", [False, True])
def test_a_merge_never_sees_half_of_what_is_set(is_part: bool) -> None:
    """Memory that one thread sets from outside, and a routine that reads it elsewhere in another."""
    ctx, ctx2 = cpu(), cpu()
    numbers, seen = oc.node("numbers", output=400_000, init=0), oc.node("seen", output=400_000, init=0)
    merged = ctx.compile(oc.set(seen, numbers.merge(ctx2)))
    arrays = [np.full(400_000, n, np.int32) for n in range(2)]
    ctx2[numbers] = arrays[0]

    def write() -> None:
        for array in arrays:
            ctx2[numbers.at[:] if is_part else numbers] = array

    with again_and_again(write):
        for _ in range(200):
            merged()
            found = ctx[seen]
            assert (found == found[0]).all()


def test_setting_waits_for_who_merges() -> None:
    ctx, ctx2 = cpu(), cpu()
    w = oc.param("w", np.ones(2))
    ctx2.init_params(w)
    ctx.compile(oc.set(w, w.merge(ctx2)))
    order: list[str] = []
    begun = threading.Event()

    def write() -> None:
        begun.set()
        ctx2[w] = [2.0, 2.0]
        order.append("set")

    thread = threading.Thread(target=write)
    with ctx2.turn.held():
        thread.start()
        begun.wait()
        order.append("merged")
    thread.join()
    assert order == ["merged", "set"]
    assert ctx2[w].tolist() == [2.0, 2.0]


def test_two_contexts_that_merge_each_other_do_not_wait_for_ever() -> None:
    places = [cpu(), cpu()]
    w = oc.param("w", np.ones(1000))
    routines = [ctx.compile(oc.set(w, 0.5 * (w + w.merge(other)))) for ctx, other in (places, places[::-1])]
    for ctx in places:
        ctx.init_params(w)

    def run(routine: oc.Routine) -> None:
        for _ in range(300):
            routine()

    threads = [threading.Thread(target=run, args=(routine,), daemon=True) for routine in routines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert (places[0][w] == 1).all()
