"""Gathers and scatters against NumPy, PyTorch and finite differences; ids of any value; errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Array = NDArray[Any]
SIZES = {"v": 5, "w": 3, "b": 4, "t": 2, "d": 3}
EXTREMES = [-(2**31), -5, -1, 0, 1, 2, 4, 5, 2**24 + 1, 2**31 - 1]
ACCUMULATE = {"add": (np.add, 0.0), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf)}


def value(tensor: oc.Tensor) -> Array:
    return np.asarray(oc.Context.cpu(threads=1)[tensor])


def tensor(array: Array, batch: int = 0) -> oc.Tensor:
    """An array with so many batch axes; the others are output axes."""
    return oc.data(array, axes="b" * batch + "o" * (array.ndim - batch))


def ids_of(draw: st.DrawFn, axes: str, mode: str) -> Array:
    """Ids of some dtype, of any value unless out of range is an error."""
    shape = tuple(SIZES[a] for a in axes)
    values = st.integers(0, 2) if mode == "error" else st.sampled_from(EXTREMES)
    found = draw(st.lists(values, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return np.array(found).reshape(shape).astype(draw(st.sampled_from([np.int32, np.int64, np.float64])))


def numbers(draw: st.DrawFn, axes: str) -> Array:
    seed = draw(st.integers(0, 99))
    return np.random.default_rng(seed).normal(size=tuple(SIZES[a] for a in axes))


def positions(ids: Array, size: int, mode: str) -> tuple[Array, Array]:
    """The positions that ids name, and which of them count."""
    if mode == "clamp":
        return np.clip(ids, 0, size - 1).astype(int), np.full(ids.shape, True)
    inside = (ids >= 0) & (ids < size)
    return np.where(inside, ids, 0).astype(int), inside


@st.composite
def gathers(draw: st.DrawFn) -> tuple[str, Array, list[Array], str, str]:
    """Spec, array, ids, chosen axes and mode."""
    mode = draw(st.sampled_from(["drop", "clamp", "error"]))
    at = draw(st.sampled_from(["v", "w", "vw"]))
    own = "".join(draw(st.permutations(at + draw(st.sampled_from(["", "d", "db"])))))
    slots = [draw(st.sampled_from(["b", "t", "bt", ""])) for _ in at]
    named = dict.fromkeys("".join([own, *slots]))
    kept = [a for a in named if a not in at and draw(st.integers(0, 4))]
    result = "".join(draw(st.permutations(kept)))
    spec = f"{' '.join(own)}; {'; '.join(' '.join(s) for s in slots)} => {' '.join(result)}"
    ids = [ids_of(draw, slot, mode) for slot in slots]
    return spec, numbers(draw, own), ids, at, mode


@settings(max_examples=24, deadline=None)
@given(gathers())
def test_gather(case: tuple[str, Array, list[Array], str, str]):
    spec, x, ids, at, mode = case
    found = oc.gather(spec, tensor(x), *map(tensor, ids), at=tuple(at), out_of_range=mode)
    np.testing.assert_allclose(value(found), gathered(*case), rtol=1e-12, atol=1e-12)


def gathered(spec: str, x: Array, ids: list[Array], at: str, mode: str) -> Array:
    """By one-hot vectors in NumPy."""
    operands, result = spec.replace(" ", "").split("=>")
    own, *slots = operands.split(";")
    hot = [one_hot(i, SIZES[name], mode) for i, name in zip(ids, at, strict=True)]
    hot_slots = [slot + name for slot, name in zip(slots, at, strict=True)]
    return np.einsum(f"{','.join([own, *hot_slots])}->{result}", x, *hot)


def one_hot(ids: Array, size: int, mode: str) -> Array:
    places, inside = positions(ids, size, mode)
    return np.eye(size)[places] * inside[..., None]


@st.composite
def scatters(draw: st.DrawFn) -> tuple[str, Array, Array, str, str]:
    """Spec, values, ids, accumulation and mode."""
    mode = draw(st.sampled_from(["drop", "clamp", "error"]))
    own = "".join(draw(st.permutations(draw(st.sampled_from(["b", "bt", "btd", "bd"])))))
    slot = "".join(a for a in "bt" if a in own)
    kept = draw(st.sampled_from(["", "d", "b"]))
    result = "".join(draw(st.permutations("v" + "".join(a for a in kept if a in own))))
    spec = f"{' '.join(own)}; {' '.join(slot)} => {' '.join(result)}"
    return spec, numbers(draw, own), ids_of(draw, slot, mode), draw(st.sampled_from([*ACCUMULATE])), mode


@settings(max_examples=24, deadline=None)
@given(scatters())
def test_scatter(case: tuple[str, Array, Array, str, str]):
    spec, values, ids, accum, mode = case
    found = oc.scatter(spec, tensor(values), tensor(ids), at="v", accum=accum, out_of_range=mode, v=5)
    np.testing.assert_allclose(value(found), scattered(*case), rtol=1e-12, atol=1e-12)


def scattered(spec: str, values: Array, ids: Array, accum: str, mode: str) -> Array:
    operands, result = spec.replace(" ", "").split("=>")
    own, slot = operands.split(";")
    combine, neutral = ACCUMULATE[accum]
    array = np.full([SIZES[a] for a in result], neutral)
    places, inside = positions(ids, SIZES["v"], mode)
    for point in np.ndindex(*values.shape):
        at = dict(zip(own, point, strict=True))
        chosen = tuple(at[a] for a in slot)
        if inside[chosen]:
            cell = tuple(places[chosen] if a == "v" else at[a] for a in result)
            array[cell] = combine(array[cell], values[point])
    return array


def check_gradient(loss: oc.Tensor, param: oc.Tensor) -> None:
    """Against central differences."""
    ctx = oc.Context.cpu(threads=1)
    step = ctx.compile(train.grad_update(loss))
    ctx.init_params(loss)
    step()
    found, start, numeric = ctx[param.grad], np.array(ctx[param]), np.zeros(ctx[param].shape)
    for point in np.ndindex(*start.shape):
        for sign in (1, -1):
            moved = start.copy()
            moved[point] += sign * 1e-4
            ctx[param] = moved
            step()
            numeric[point] += sign * float(ctx[loss.value][0]) / 2e-4
    np.testing.assert_allclose(found, numeric, atol=1e-6)


def squares(x: oc.Tensor) -> oc.Tensor:
    loss = oc.einsum("...|...->... => 0", x * x * x)
    _ = loss.value
    return loss


@pytest.mark.parametrize("mode", ["drop", "clamp"])
def test_gradient_of_a_gather(mode: str):
    x = oc.param("x", np.random.default_rng(0).normal(size=(5, 3, 2)), output=[5, 3, 2])
    rows, columns = (oc.data(np.array(i, np.int32), axes="b") for i in ([4, 0, 7, -1], [2, 2, 1, 0]))
    check_gradient(
        squares(oc.gather("v w d; b|; b| => b| d", x, rows, columns, at=("v", "w"), out_of_range=mode)), x
    )


@pytest.mark.parametrize("accum", ["add", "max"])
def test_gradient_of_a_scatter(accum: str):
    x = oc.param("x", np.random.default_rng(0).normal(size=(6, 2)), batch=6, output=2)
    ids = oc.data(np.array([3, 1, 3, -1, 1, 0], np.int32), axes="b")
    reached = oc.data(np.array([1.0, 1, 0, 1])[:, None])
    total = oc.scatter("b | d; b | => v | d", x, ids, at="v", accum=accum, out_of_range="drop")
    check_gradient(squares(oc.where(reached, total, 0)), x)


def test_second_derivatives_of_a_gather():
    x = oc.param("x", np.array([1.0, 2.0, 3.0]), output=3)
    ids = oc.data(np.array([2, 0, 2], np.int32), axes="b")
    first = oc.vjp(squares(oc.gather("v; b| => b|", x, ids, at="v")), x, 1.0)
    check_gradient(squares(first), x)


MISUSES = [
    (
        'oc.gather("v d; b | => b | d", X, I, at="w")',
        "`w` is no axis of the first slot of 'v d; b | => b | d', to be chosen by ids",
    ),
    (
        'oc.gather("v d; b | => b | v d", X, I, at="v")',
        "`v` is chosen by ids in the first slot of 'v d; b | => b | v d', so no other slot has it",
    ),
    (
        'oc.gather("v d; b | => b | d", X, I, at=("v", "d"))',
        "`at` names an axis for each tensor of ids: ['v', 'd'] for 1 in 'v d; b | => b | d'",
    ),
    (
        'oc.gather("v d; b |; b | => b |", X, I, I, at=["v", "v"])',
        "`v` is chosen twice in 'v d; b |; b | => b |'",
    ),
    (
        'oc.gather("v d; b | => b | d", X, I, at="v", out_of_range="wrap")',
        "ids out of range are treated by error, drop or clamp, found 'wrap'",
    ),
    (
        'oc.scatter("b; b | => d", X, I, at="v")',
        "`v` is no axis of the result of 'b; b | => d', to be chosen by ids",
    ),
    (
        'oc.scatter("b; b | => v", X, I, at="v", accum="sub")',
        "a scatter accumulates by add, mul, max or min, found 'sub'",
    ),
    (
        'oc.gather("v d; o =+ k | => o | d", X, I, at="v", k=3)',
        "`o =+ k` in 'v d; o =+ k | => o | d' reads beyond the ends, where there are no ids",
    ),
    (
        'oc.scatter("p^q d; p | => v d", X, I, at="v", v=5)',
        "in 'p^q d; p | => v d', ids are left out of a part in which the first slot is read",
    ),
]


def test_a_scatter_into_a_part():
    values = oc.data(np.arange(6.0).reshape(2, 3), axes="bo")
    found = oc.Context.cpu()[oc.scatter("b|d; b| => v|1^d", values, oc.data([1, 0], axes="b"), at="v", v=3)]
    np.testing.assert_array_equal(found, [[0, 3, 4, 5], [0, 0, 1, 2], [0, 0, 0, 0]])


@pytest.mark.parametrize(("code", "message"), MISUSES)
def test_misuse(code: str, message: str):
    names = {"oc": oc, "X": oc.data(np.zeros((5, 3)), axes="oo"), "I": oc.data([1.0, 2.0], axes="b")}
    with pytest.raises(oc.SpecError) as caught:
        eval(code, names)
    assert str(caught.value).split(": ", 1)[1] == message


def test_at_is_a_name():
    x = oc.data([1.0])
    with pytest.raises(TypeError, match="`at` is the name of an axis, or a tuple of names, found 3"):
        oc.gather("v; b => b", x, x, at=3)  # pyright: ignore[reportArgumentType]


def test_the_size_of_a_scatter_is_needed():
    ids = oc.data(np.array([1], np.int32), axes="b")
    total = oc.scatter("b |; b | => v", oc.data([1.0], axes="b"), ids, at="v")
    with pytest.raises(oc.ShapeError, match=r"the size of `v`, an axis of `scatter.*give it, as in v=16"):
        oc.infer(total)


@pytest.mark.parametrize("wrong", [5, -1, 0.5, np.nan, np.inf])
def test_ids_that_are_errors(wrong: float):
    ids = oc.data(np.array([1.0, 0.0, 0.0]), axes="b", label="ids")
    x = oc.data(np.arange(5.0), label="x")
    found = oc.gather("v; b | => b |", x, ids, at="v")
    ctx = oc.Context.cpu(threads=1)
    step = ctx.compile(found)
    step()
    ctx[ids] = [wrong, wrong, 4]
    error = re.escape(f"the id {wrong:g} in `ids` is outside of 0 to 4")
    with pytest.raises(oc.OcannlError, match=rf"test_indexing.py:[0-9]+: {error}"):
        step()
    np.testing.assert_array_equal(ctx[found], [0, 0, 4])
    with pytest.raises(oc.OcannlError, match=error):
        step.run_loop(epochs=3, record=[found])
    ctx[ids] = [0, 1, 2]
    np.testing.assert_array_equal(step.run_loop(epochs=2, record=[found])[found], [[0, 1, 2]] * 2)


def test_ids_are_checked_in_training_too():
    ids = oc.data(np.array([1, 7], np.int32), axes="b")
    w = oc.param("w", 1.0, output=5)
    loss = squares(oc.gather("v; b | => b |", w, ids, at="v"))
    ctx = oc.Context.cpu(threads=1)
    step = ctx.compile(train.grad_update(loss))
    ctx.init_params(loss)
    with pytest.raises(oc.OcannlError, match="the id 7 in `data` is outside of 0 to 4"):
        step()


def test_ids_of_losses_and_tables_are_checked():
    """-100, by which PyTorch ignores targets, and the id after the last one; what is run is named."""
    logits = oc.data(np.zeros((3, 10), np.float32), axes="bo", label="logits")
    classes = oc.data(np.array([1, -100, 2], np.int32), axes="b", label="classes")
    words = oc.data(np.array([[0, 64, 65]], np.int32), axes="bb", label="words")
    ctx = oc.Context.cpu(threads=1)
    with pytest.raises(oc.OcannlError, match=r"the id -100 in `classes` is outside of 0 to 9"):
        _ = ctx[nn.cross_entropy(logits, classes)]
    rows = nn.embedding(num=65, dim=4)(words)
    ctx.init_params(rows)
    with pytest.raises(oc.OcannlError, match=r"the id 65 in `words` is outside of 0 to 64"):
        _ = ctx[rows]


def test_ids_of_a_scatter_are_checked():
    ids = oc.data(np.array([1, 3, 0, -1], np.int32), axes="b", label="ids")
    total = oc.scatter("b | ; b | => v", oc.data(np.ones(4), axes="b"), ids, at="v", v=3)
    with pytest.raises(oc.OcannlError, match="the id -1 in `ids` is outside of 0 to 2"):
        _ = oc.Context.cpu(threads=1)[total]


@pytest.mark.filterwarnings("ignore:.*is computed again here")
def test_ids_that_code_changes_are_checked_each_time():
    """Whether the first or the second of them are wrong; the part that they choose is one expression."""
    ctx = oc.Context.cpu(threads=1)
    ids, next_ids = (oc.node(name, output=2, init=0.0, dtype=np.int32) for name in ("ids", "next_ids"))
    found = [oc.node(name, output=2, init=0.0) for name in ("first", "second")]
    chosen = oc.data(np.arange(4.0, dtype=np.float32), axes="o", label="x")[ids]
    with oc.code("twice") as code:
        found[0][...] = chosen
        ids[...] = next_ids
        found[1][...] = chosen
    step = ctx.compile(code)
    for first, second, wrong in ((1, 2, None), (300, 2, 300), (1, -7, -7)):
        ctx[ids], ctx[next_ids] = np.full(2, first), np.full(2, second)
        if wrong is None:
            step()
            assert [ctx[each][0] for each in found] == [first, second]
            continue
        with pytest.raises(oc.OcannlError, match=f"the id {wrong} in `ids` is outside of 0 to 3"):
            step()


def test_each_tensor_of_ids_is_checked_with_its_axis():
    x = oc.data(np.ones((2, 3)), axes="oo")
    rows, columns = (oc.data(np.array(ids), axes="b", label=name) for name, ids in (("r", [1]), ("c", [3])))
    found = oc.gather("v w; b|; b| => b|", x, rows, columns + 0.0, at=("v", "w"))
    with pytest.raises(oc.OcannlError, match="the id 3 in `add` is outside of 0 to 2"):
        oc.Context.cpu(threads=1).compile(found)()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_ids_of_any_value(dtype: type):
    limits = [0, 4, -1, 5, 2**31 - 1, -(2**31)]
    limits += [2**63 - 1, -(2**63)] if dtype == np.int64 else []
    limits += [0.5, np.nan, np.inf, -np.inf, 3e38] if dtype in (np.float32, np.float64) else []
    ids = oc.data(np.array(limits, dtype), axes="b")
    w = oc.param("w", np.random.default_rng(0).normal(size=(5, 16)), output=[5, 16])
    rows = oc.gather("v d; b | => b | d", w, ids, at="v", out_of_range="drop")
    loss = oc.einsum("...|... => 0", rows)
    ctx = oc.Context.cpu(threads=1)
    step = ctx.compile(oc.forward(rows) + train.grad_update(loss))
    ctx.init_params(loss)
    step()
    np.testing.assert_array_equal(ctx[rows][:2], ctx[w][[0, 4]])
    np.testing.assert_array_equal(ctx[rows][2:], 0)
    np.testing.assert_array_equal(ctx[w.grad], np.repeat([[1.0], [0], [0], [0], [1]], 16, 1))


@pytest.mark.parametrize("size", [2, 65])
def test_no_loop_over_the_positions_remains(size: int):
    ids = oc.data(np.zeros((4, 6), np.int32), axes="bb")
    w = oc.param("w", output=[], input=[])
    for hidden in (
        nn.embedding(num=size, dim=16)(ids),
        oc.param("table", input=size, output=16) @ oc.one_hot(ids, size),
    ):
        code = train.grad_update(nn.mse(hidden, w))
        text = code.ir("loops")
        assert "loops.index" not in text
        assert text.count("loops.position") == 2
    logits = oc.param("logits", batch=[4, 6], output=size)
    text = nn.cross_entropy(logits, ids).ir("loops")
    assert "loops.index" not in text


def test_against_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, values = rng.normal(size=(7, 4)), rng.normal(size=(3, 4))
    index, chosen = rng.integers(0, 7, (3, 4)), rng.integers(0, 7, 3)
    as_torch = torch.tensor(x)
    t_index, t_chosen, t_values = (torch.tensor(array) for array in (index, chosen, values))
    index, chosen, values = tensor(index), tensor(chosen), tensor(values)
    pairs = [
        (oc.gather("v d; b d => b d", tensor(x), index, at="v"), torch.gather(as_torch, 0, t_index)),
        (oc.gather("v d; b => b d", tensor(x), chosen, at="v"), torch.index_select(as_torch, 0, t_chosen)),
        (
            tensor(x) + oc.scatter("b d; b d => v d", values, index, at="v"),
            torch.scatter_add(as_torch, 0, t_index, t_values),
        ),
        (
            tensor(x) + oc.scatter("b d; b => v d", values, chosen, at="v"),
            torch.index_add(as_torch, 0, t_chosen, t_values),
        ),
    ]
    for found, expected in pairs:
        np.testing.assert_allclose(value(found), expected.numpy(), rtol=1e-12)


def test_tangents_of_a_gather():
    x, tangent = oc.data(np.arange(6.0)), oc.data(np.arange(6.0) * 10)
    ids = oc.data(np.array([5, 1, 9], np.int32), axes="b")
    found = oc.jvp(oc.gather("v; b | => b |", x * x, ids, at="v", out_of_range="drop"), x, tangent)
    np.testing.assert_array_equal(value(found), [500, 20, 0])


def test_empty_axes():
    none, some = (oc.data(np.array(ids, np.int32), axes="b") for ids in ([], [0, 1]))
    empty = oc.data(np.zeros((0, 3)), axes="oo")
    rows = oc.gather("v d; b | => b | d", empty, some, at="v", out_of_range="drop")
    np.testing.assert_array_equal(value(rows), np.zeros((2, 3)))
    assert value(oc.gather("v; b | => b |", oc.data([1.0]), none, at="v")).shape == (0,)
    total = oc.scatter("b |; b | => v", oc.data(np.zeros(0), axes="b"), none, at="v", v=3)
    np.testing.assert_array_equal(value(total), [0, 0, 0])
