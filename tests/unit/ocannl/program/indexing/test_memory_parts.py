"""Parts of memory: written by code and from outside, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tensors import Array, param

import ocannl as oc

ROWS, COLUMNS = 5, 4


def array_of(*shape: int) -> Array:
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


def memory(label: str = "m") -> oc.Tensor:
    return oc.data(array_of(ROWS, COLUMNS), axes="oo", label=label)


def keys() -> st.SearchStrategy[Any]:
    rows = st.one_of(st.integers(-ROWS, ROWS - 1), st.slices(ROWS))
    columns = st.one_of(st.integers(-COLUMNS, COLUMNS - 1), st.slices(COLUMNS))
    some = st.one_of(rows, st.tuples(rows, columns), columns.map(lambda key: (..., key)))
    return some.filter(lambda key: 0 not in array_of(ROWS, COLUMNS)[key].shape)


STATEMENTS = st.lists(st.tuples(st.sampled_from(["set", "add", "whole", "max"]), keys(), keys()), max_size=5)


@settings(max_examples=6, deadline=None)
@given(STATEMENTS)
def test_any_statements(statements: list[tuple[str, Any, Any]]):
    """Parts are set to sums over other parts, updated in place, and read in between."""
    m, wanted = memory(), array_of(ROWS, COLUMNS)
    seen = oc.node("seen", output=[], dtype=np.float64, init=0.0)
    total = 0.0
    with oc.code("statements") as code:
        for what, key, other in statements:
            source, value = m[other].sum(), wanted[other].sum()
            if what == "set":
                m[key] = source
                wanted[key] = value
            elif what == "add":
                m[key] += source
                wanted[key] += value
            elif what == "max":
                oc.accumulate(m.at[key], "max", source / 2)
                wanted[key] = np.maximum(wanted[key], value / 2)
            else:
                m *= 0.5
                wanted *= 0.5
            seen += m[other].sum()
            total += wanted[other].sum()
    ctx = oc.Context.cpu(1)
    ctx.compile(code)()
    np.testing.assert_allclose(ctx[m], wanted, rtol=1e-12)
    np.testing.assert_allclose(ctx[seen], total, rtol=1e-12)


def test_values_are_broadcast_to_the_part():
    m = oc.node("m", output=[3, 4], init=0.0)
    with oc.code("write") as code:
        m[1:, ::2] = oc.tensor([[1.0], [2.0]], axes="oo")
        oc.set(m.at[0], oc.tensor([1.0, 2.0, 3.0, 4.0]))
        oc.set(m.at[...], m - 1)
    ctx = oc.Context.cpu(1)
    ctx.compile(code)()
    np.testing.assert_array_equal(ctx[m], [[0, 1, 2, 3], [0, -1, 0, -1], [1, -1, 1, -1]])


def test_static_indices():
    """Also two of them, in any order of declaration; checked against the ends of the memory."""
    m, i, j = memory(), oc.index("i"), oc.index("j", COLUMNS)
    with oc.code("write") as code:
        m[i, j] += 100.0
    ctx = oc.Context.cpu(1)
    step = ctx.compile(code)
    wanted = array_of(ROWS, COLUMNS)
    for n in (0, 4):
        step(i=n, j=2)
        wanted[n, 2] += 100
    np.testing.assert_array_equal(ctx[m], wanted)
    with pytest.raises(oc.OcannlError, match="i=5"):
        step(i=5)


def test_the_text_says_the_part():
    m = memory()
    with oc.code("write") as code:
        m[1, 2:] = 3.0
    assert "texpr.assign %m at [... | ... -> 1, 2 to 4, ...] = " in code.ir()
    assert "assign.accum %m[1, o + 2] = 3.0 over (o = 2)" in code.ir("assign")


def test_in_place_operators_work_on_views_as_in_numpy():
    m = memory()
    with oc.code("write") as code:
        row = m[1]
        row -= m[0]
    ctx = oc.Context.cpu(1)
    ctx.compile(code)()
    np.testing.assert_array_equal(ctx[m][1], np.full(COLUMNS, 4))


BEHIND_ELLIPSIS = np.arange(2000), np.where(np.arange(2000) == 1000, 0, np.arange(2000))


@pytest.mark.parametrize(
    ("target", "source"),
    [
        pytest.param(np.array([0, 1]), np.array([3, 2]), id="small arrays"),
        pytest.param(*BEHIND_ELLIPSIS, id="arrays that print alike"),
        pytest.param([0, 1], [3, 2], id="lists"),
        pytest.param(slice(0, 2), slice(2, 4), id="slices"),
        pytest.param(0, 3, id="integers"),
    ],
)
@pytest.mark.parametrize("in_tensors", [False, True], ids=["", "in tensors"])
def test_one_part_is_set_to_another(target: Any, source: Any, in_tensors: bool):
    """Also where their positions look alike in text."""
    m, wanted = oc.data(array_of(2000)), array_of(2000)
    to, of = (oc.data(key) if in_tensors and np.ndim(key) else key for key in (target, source))
    with oc.code("move") as code:
        m[to] = m[of]
    ctx = oc.Context.cpu(1)
    ctx.compile(code)()
    wanted[target] = wanted[source]
    np.testing.assert_array_equal(ctx[m], wanted)


@pytest.mark.parametrize("how", ["function", "eager"])
def test_a_part_is_set_back(how: str):
    """To what it was before another write."""

    def swapped_back(m: oc.Tensor) -> oc.Tensor:
        before = m[1]
        m[1] = 9.0
        m[1] = before
        return m

    if how == "function":
        result = oc.function(swapped_back)(array_of(3))
    else:
        with oc.Context.cpu(1), oc.eager():
            result = swapped_back(oc.data(array_of(3))).numpy()
    np.testing.assert_array_equal(result, array_of(3))


def test_an_updated_part_has_its_new_value():
    @oc.function
    def updated(m: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        part = m[1:]
        part += 10.0
        m[1:] = 0.0
        m[1:] = part
        return m, part

    whole, part = updated(array_of(3))
    np.testing.assert_array_equal(whole, [1, 12, 13])
    np.testing.assert_array_equal(part, [12, 13])


@pytest.mark.parametrize("key", [1, slice(1, 3), (0, slice(1, 3)), np.array([0, 2]), oc.data([0, 2]), ...])
def test_an_update_in_place_is_one_statement(key: Any):
    m = memory()
    with oc.code("update") as code:
        m[key] += 1.0
    assert code.ir().count("texpr.assign") == 1


def test_what_code_cannot_write():
    m, ctx = memory(), oc.Context.cpu(1)
    with oc.code("write"):
        with pytest.raises(oc.ShapeError, match=r"m\["):
            m[:2] = oc.zeros(3)
        with pytest.raises(oc.OcannlError, match="is computed, and only memory"):
            (m + 1)[0] = 1.0
        with pytest.raises(oc.PositionError):
            m[7] = 1.0
    with pytest.raises(oc.OcannlError, match="block"):
        m[0] = 1.0
    p = oc.param("p", 1.0, output=3, input=[])
    with pytest.raises(oc.UninitializedError, match="`p`"):
        ctx.compile(oc.set(p.at[0], 1.0))()


def test_two_parts_that_fill_memory_initialize_it():
    p, ctx = oc.param("p", 1.0, output=4, input=[]), oc.Context.cpu(1)
    ctx.compile(oc.set(p.at[:2], 1.0) + oc.set(p.at[2:], 2.0))()
    np.testing.assert_array_equal(ctx[p], [1, 1, 2, 2])


@settings(max_examples=8, deadline=None)
@given(keys())
def test_from_outside(key: Any):
    m, wanted, ctx = memory(), array_of(ROWS, COLUMNS), oc.Context.cpu(1)
    np.testing.assert_array_equal(ctx[m.at[key]], wanted[key])
    ctx[m.at[key]] = wanted[key] * 2
    wanted[key] *= 2
    np.testing.assert_array_equal(ctx[m], wanted)
    ctx[m.at[key]] = -1
    wanted[key] = -1
    np.testing.assert_array_equal(ctx[m * 1], wanted)


def test_errors_from_outside():
    m, ctx = memory(), oc.Context.cpu(1)
    with pytest.raises(oc.PositionError, match="`m`"):
        ctx[m.at[9]] = 1
    with pytest.raises(oc.ShapeError, match="`m`"):
        ctx[m.at[:2]] = [1, 2]
    with pytest.raises(oc.OcannlError, match="expression"):
        ctx[(m + 1).at[0]] = 1
    with pytest.raises(oc.UninitializedError, match="`p`"):
        ctx[param("p", np.ones(3)).at[0]] = 1


def test_views():
    m, ctx = memory(), oc.Context.cpu(1)
    view = ctx.view(m)
    ctx[m.at[0, 0]] = 9
    assert view[0, 0] == 9
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1
    ctx.view(m, writable=True)[1] = 0
    np.testing.assert_array_equal(ctx[(m * 2)[1]], np.zeros(COLUMNS))
    with pytest.raises(oc.UninitializedError):
        ctx.view(param("p", np.ones(3)))
    with pytest.raises(oc.OcannlError, match="expression"):
        ctx.view(m + 1)


def test_a_gpu_has_its_own_memory():
    m, ctx = memory(), oc.Context.emulated_gpu(check=True)
    with oc.code("write") as code:
        m[1:3, ::-1] = m[2:4]
    ctx.compile(code)
    ctx[m.at[0, 1:]] = 7
    np.testing.assert_array_equal(ctx[m.at[0]], [1, 7, 7, 7])


def test_an_index_takes_the_first_axis_of_memory_without_batch_axes():
    """Of a node, a parameter and a gradient; data are sliced along batch axes only."""
    i, at = oc.index("i", 3), oc.node("at", output=[], init=1, dtype="int32")
    w = oc.param("w", array_of(3, 2), input=[], output=[3, 2])
    m = oc.node("m", output=[3, 2], dtype=np.float64, init=0.0)
    loss = (w[i] * w[i]).sum()
    with oc.code("rows") as code:
        m[i] += w[i]
        m[i, at] *= 10.0
        m[i] += w.grad[i]
    ctx = oc.Context.cpu(1)
    ctx.init_params(loss)
    step = ctx.compile(loss.forward + loss.zero_grads + oc.set(loss.grad, 1) + loss.backprop + code)
    step(i=1)
    np.testing.assert_array_equal(ctx[w.grad], [[0, 0], [6, 8], [0, 0]])
    np.testing.assert_array_equal(ctx[m], [[0, 0], [3 + 6, 40 + 8], [0, 0]])
    with pytest.raises(oc.ShapeError, match=r"`x` has no batch axis to slice; `x\[i, ...\]` takes"):
        oc.data(array_of(3), label="x")[i]
    with pytest.raises(oc.ShapeError, match=r"size 2 in `x`, and the index `j` takes 7 values\n.*\n.*\^$"):
        oc.data(array_of(3, 2), label="x")[:, oc.index("j", 7)]
    assert ctx[oc.data(array_of(3), label="x")[2, ...]] == 3.0
