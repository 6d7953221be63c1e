"""Scans against the same programs unrolled, in float64: values, derivatives, shapes, errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.tensors import Array

import ocannl as oc

H, B, N = 3, 2, 2


def unrolled(cell: Any, carry: Any, xs: Sequence[Any], reverse: bool = False) -> tuple[list[Any], Any]:
    """The result of each iteration, at its position, and the last carry."""
    ys: list[Any] = [None] * len(xs)
    order = range(len(xs))
    for at in reversed(order) if reverse else order:
        carry, ys[at] = cell(carry, xs[at])
    return ys, carry


def at_positions(x: oc.Tensor, length: int) -> list[oc.Tensor]:
    return [oc.einsum(f"b {at} | i => b | i", x) for at in range(length)]


def values_of(tensors: Sequence[oc.Tensor]) -> list[Array]:
    """The values of tensors, by one routine."""
    ctx = oc.Context()
    code = sum((tensor.forward for tensor in tensors), oc.Code())
    ctx.init_params(code)
    ctx.compile(code)()
    return [np.array(ctx[tensor]) for tensor in tensors]


def agree(found: Sequence[oc.Tensor], wanted: Sequence[oc.Tensor]) -> None:
    values = values_of([*found, *wanted])
    for one, other in zip(values[: len(found)], values[len(found) :], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def parameters(rng: np.random.Generator, **shapes: tuple[int, ...]) -> dict[str, oc.Tensor]:
    return {name: oc.param(name, rng.normal(size=shape)) for name, shape in shapes.items()}


def tanh_cell(p: dict[str, oc.Tensor]) -> Callable[[Any, Any], tuple[Any, Any]]:
    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        new = oc.tanh(p["w"] @ h + p["u"] @ x + p["b"])
        return new, new * h

    return cell


def gru_cell(p: dict[str, oc.Tensor]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Two carries, one of which is set to the other; and products behind the carry."""

    def cell(carry: Any, x: oc.Tensor) -> tuple[Any, Any]:
        h, before = carry["h"], carry["before"]
        gate = oc.sigmoid(p["w"] @ h + p["u"] @ x + p["b"])
        new = gate * h + (1 - gate) * oc.tanh(p["v"] @ (gate * before) + x.sum(-1, True))
        return {"h": new, "before": h}, (p["o"] @ oc.relu(new), before)

    return cell


def sum_cell(p: dict[str, oc.Tensor]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """A carry that only adds up, and one that turns."""

    def cell(carry: Any, x: oc.Tensor) -> tuple[Any, Any]:
        total, turned = carry
        return (total + p["u"] @ x, oc.sin(turned * p["b"])), None

    return cell


SHAPES: dict[str, tuple[int, ...]] = {"w": (H, H), "v": (H, H), "u": (H, N), "b": (H,), "o": (2, H)}
CELLS: dict[str, tuple[Callable[[dict[str, oc.Tensor]], Any], Callable[[oc.Tensor], Any]]] = {
    "tanh": (tanh_cell, lambda h: h),
    "gru": (gru_cell, lambda h: {"h": h, "before": h * h}),
    "sum": (sum_cell, lambda h: (h, h + 1)),
}


def loss_of(trees: Sequence[Any]) -> oc.Tensor:
    """A number that all tensors of trees change, some of them twice."""
    total = oc.constant(0.0)
    for tree in trees:
        if isinstance(tree, dict):
            tree = list(tree.values())
        if isinstance(tree, list | tuple):
            total = total + loss_of(tree)
        elif tree is not None:
            total = total + (tree * oc.cos(tree)).sum()
    return total


CASES = [("sum", 2, False), ("gru", 3, True), ("tanh", 1, True), ("gru", 0, False)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "length", "reverse"), CASES)
def test_values_and_gradients_are_those_of_the_unrolled_program(
    rng: np.random.Generator, name: str, length: int, reverse: bool
) -> None:
    p = parameters(rng, **SHAPES)
    x = oc.data(rng.normal(size=(B, length, N)), label="x")
    h = oc.param("h", rng.normal(size=(H,)))
    cell, begin = CELLS[name][0](p), CELLS[name][1](h * oc.data(np.ones((B, 1)), axes="bo"))
    ys, last = oc.scan(cell, begin, x, reverse=reverse)
    parts, end = unrolled(cell, begin, at_positions(x, length), reverse)
    wrt = {**p, "h": h, **({"x": x} if length else {})}
    scanned, straight = loss_of([ys, last] if length else [last]), loss_of([*parts, end])
    found, wanted = oc.grad(scanned, wrt), oc.grad(straight, wrt)
    tangents = {name: oc.cos(t) for name, t in wrt.items()}
    along = [oc.jvp(loss, wrt, tangents) for loss in (scanned, straight)]
    agree([scanned, along[0], *found.values()], [straight, along[1], *wanted.values()])


def test_second_derivatives(rng: np.random.Generator) -> None:
    p = parameters(rng, **SHAPES)
    x = oc.data(rng.normal(size=(B, 2, N)), label="x")
    begin, cell = oc.data(rng.normal(size=(B, H))), tanh_cell(p)
    losses = [loss_of([*oc.scan(cell, begin, x)]), loss_of([*unrolled(cell, begin, at_positions(x, 2))])]
    seconds: list[list[oc.Tensor]] = []
    for loss in losses:
        norm = loss_of([oc.grad(loss, [p["w"], p["u"]])])
        seconds.append([oc.grad(norm, p["w"]), oc.jvp(norm, p["u"], oc.cos(p["u"]))])
    agree(*seconds)


def test_a_carry_chooses_between_values_without_gradients(rng: np.random.Generator) -> None:
    """The choice depends on the carry, and has an adjoint that leads nowhere."""
    x, begin = (oc.data(rng.normal(size=(B, *size))) for size in ((2, H), (H,)))

    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, None]:
        return oc.tanh(oc.where(h > 0, x, 2 * x) * h), None

    ends = oc.scan(cell, begin, x)[1], unrolled(cell, begin, at_positions(x, 2))[1]
    agree(*([oc.grad(loss_of([end]), begin)] for end in ends))


@pytest.mark.parametrize("kind", ["scan", "while", "cond"])
def test_what_is_to_be_in_memory_may_be_inside_a_loop(rng: np.random.Generator, kind: str) -> None:
    x = oc.data(rng.normal(size=(2, H)))

    def step(h: oc.Tensor, keep: Callable[[oc.Tensor], oc.Tensor]) -> oc.Tensor:
        kept = keep(oc.sin(h))
        return kept * 2 + kept.sum(-1, True)

    def ends(keep: Callable[[oc.Tensor], oc.Tensor]) -> oc.Tensor:
        match kind:
            case "scan":
                return oc.scan(lambda h, _: (step(h, keep), None), x, None, length=3)[1]
            case "while":
                return oc.while_loop(lambda h: h.sum() < 100, lambda h: step(h, keep), x, most=3)
            case _:
                return oc.cond(x.sum() < 100, lambda h: step(h, keep), lambda h: h, x)

    agree([ends(oc.materialize)], [ends(lambda t: t)])


@pytest.mark.exhaustive
def test_scans_in_scans(rng: np.random.Generator) -> None:
    p = parameters(rng, **SHAPES)
    x = oc.data(rng.normal(size=(B, 2, 3, N)), label="x")
    begin = oc.data(rng.normal(size=(B, H)))
    cell = tanh_cell(p)

    def outer(h: oc.Tensor, rows: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        ys, last = oc.scan(cell, h, rows)
        return last + oc.tanh(h), ys

    def straight(h: oc.Tensor, rows: Sequence[oc.Tensor]) -> tuple[oc.Tensor, list[oc.Tensor]]:
        ys, last = unrolled(cell, h, rows)
        return last + oc.tanh(h), ys

    rows = [[oc.einsum(f"b {i} {j} | i => b | i", x) for j in range(3)] for i in range(2)]
    wanted_ys, wanted = unrolled(straight, begin, rows)
    ys, last = oc.scan(outer, begin, x, axis=1)
    losses = loss_of([ys, last]), loss_of([*wanted_ys, wanted])
    found, expected = (oc.grad(loss, p) for loss in losses)
    agree([losses[0], *found.values()], [losses[1], *expected.values()])


def test_positions_along_other_axes(rng: np.random.Generator) -> None:
    array = rng.normal(size=(3, 2, 4))
    for axis in (0, 1, 2, -1):
        ys, last = oc.scan(lambda s, x: (s + x, s * x), 0.0, oc.data(array), axis=axis)
        sums = np.cumsum(array, axis)
        before = np.concatenate(
            [np.zeros_like(np.take(array, [0], axis)), sums.take(range(sums.shape[axis] - 1), axis)], axis
        )
        found = values_of([ys, last])
        np.testing.assert_allclose(found[0], before * array, atol=1e-12)
        np.testing.assert_allclose(found[1], sums.take(-1, axis), atol=1e-12)


def test_a_length_without_sequences() -> None:
    ys, (count, twice) = oc.scan(lambda c, _: ((c[0] + 1, c[1] * 2), c[0]), (0, 1.5), length=5)
    found = values_of([ys, count, twice])
    np.testing.assert_array_equal(found[0], range(5))
    assert found[1] == 5
    assert found[2] == 1.5 * 2**5
    assert ys.dtype == np.int32


@pytest.mark.parametrize("is_inferred", [False, True])
def test_a_carry_that_begins_with_a_number_is_as_wide_as_what_is_yielded(is_inferred: bool) -> None:
    w, x = np.full((N, N), 1 / 3, np.float32), np.full((4, N), 1 / 3)
    weights = oc.data(w, axes="oi")

    def cell(c: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        new = oc.tanh(weights @ c + x)
        return new, new

    ys, last = oc.scan(cell, 0.0, oc.data(x) * 1.0)
    if is_inferred:
        oc.infer(ys)
    wanted = np.zeros(N)
    for part in x:
        wanted = np.tanh(w.astype(np.float64) @ wanted + part)
    stacked, end = values_of([ys * 1.0, last])
    assert (stacked.dtype, end.dtype) == (np.float64, np.float64)
    np.testing.assert_array_equal(stacked[-1], end)
    np.testing.assert_allclose(end, wanted, rtol=1e-15)


@pytest.mark.parametrize("dtype", [oc.bfloat16, np.float64])
@pytest.mark.parametrize("kind", ["scan", "cond", "while"])
def test_what_is_carried_has_the_type_of_what_is_yielded_whatever_reads_it(
    kind: str, dtype: type[Any]
) -> None:
    """Each time that it is compiled: after the first one, the number at the beginning is known as f32."""
    x = oc.data(np.linspace(-1, 1, 8).reshape(4, 2).astype(dtype), axes="bo")
    match kind:
        case "scan":
            carried = oc.scan(lambda c, x: (oc.tanh(c) + x, None), 0.0, x)[1]
        case "cond":
            carried = oc.cond(oc.sum(x) > 0, lambda x: x * 2.0, lambda x: x - 1.0, x)
        case _:
            carried = oc.while_loop(lambda c: oc.sum(c) < 9, lambda c: c + x * x, 0.0, most=9)
    total = oc.sum(oc.cast(carried, oc.float32))
    first, second = (oc.Context().compile(total.forward, "total").ir("assign") for _ in range(2))
    assert first == second
    assert carried.dtype == dtype


@pytest.mark.parametrize("dtype", [oc.bfloat16, np.float64])
def test_a_loop_that_begins_with_a_node_carries_f32_at_least(dtype: type[Any]) -> None:
    n, x = oc.node("n", output=[3], init=0.0), oc.data(np.ones((4, 3)).astype(dtype), axes="bo")
    last = oc.scan(lambda h, x: (0.5 * h + x, None), n, x)[1]
    for target in (last, last.sum()):
        oc.Context().compile(target.forward)
    assert last.dtype == (np.float64 if dtype is np.float64 else np.float32)


def test_a_number_that_a_loop_reads_has_the_type_that_it_got_before() -> None:
    half, x = oc.as_tensor(2.0) * 0.25, oc.data(np.ones((4, 3)), axes="bo")
    last = oc.scan(lambda h, x: (0.5 * h + x * half, None), oc.data(np.zeros(3), axes="o"), x)[1]
    ctx = oc.Context()
    ctx.compile(half.forward)()
    ctx.compile(last.forward)()
    np.testing.assert_array_equal(ctx[last], np.full(3, 0.9375))


def test_random_numbers_are_others_in_each_iteration() -> None:
    step_n = oc.index("step_n")
    x = oc.data(np.ones((6, 40), np.float32))
    ys, _ = oc.scan(lambda c, x: (c, x * oc.uniform(step_n, like=x)), 0.0, x)
    ctx = oc.Context()
    step = ctx.compile(ys.forward)
    draws = []
    for number in range(2):
        step(step_n=number)
        draws.append(np.array(ctx[ys]))
    rows = np.concatenate(draws)
    assert len(np.unique(rows)) > 0.99 * rows.size
    step(step_n=0)
    np.testing.assert_array_equal(ctx[ys], draws[0])


def test_the_program_does_not_grow_with_the_length() -> None:
    def lines(length: int) -> list[int]:
        p = oc.param("w", input=4, output=4)
        x = oc.data(np.ones((2, length, 4)))
        _, last = oc.scan(lambda h, x: (oc.tanh(p @ h + x), None), 0.0, x)
        code = oc.grad(last.sum(), p).forward
        return [code.ir(stage).count("\n") for stage in ("texpr", "assign", "order-nests")]

    assert lines(64) == lines(1000)


def test_the_input_half_is_one_product() -> None:
    w, u = oc.param("w", input=4, output=4), oc.param("u", input=3, output=4)
    x = oc.data(np.ones((2, 7, 3)))
    _, last = oc.scan(lambda h, x: (oc.tanh(w @ h + u @ x), None), 0.0, x)
    text = sum((g.forward for g in oc.grad(last.sum(), [w, u])), oc.Code()).ir("distribute-scans")
    bodies = [line for line in text.splitlines() if line.startswith("      ") and "add=" in line]
    # The recurrent product, and that with its transpose.
    assert len(bodies) == 2


def test_a_carry_keeps_its_form() -> None:
    x = oc.data(np.ones((2, 3, 4)))
    with pytest.raises(oc.ArgumentError, match=r"begins as carry.0, carry.1, and then carry is returned"):
        oc.scan(lambda c, x: (c[0], x), (0.0, 0.0), x)
    with pytest.raises(oc.ArgumentError, match=r"returns \(carry, y\), found Tensor"):
        oc.scan(lambda c, x: c + x, 0.0, x)
    with pytest.raises(oc.ArgumentError, match="needs its length"):
        oc.scan(lambda c, x: (c, None), 0.0, None)


def test_a_carry_keeps_its_shape() -> None:
    h, w = oc.data(np.ones((2, 3))), oc.data(np.ones((4, 3)), axes="oi")
    with pytest.raises(oc.ShapeError, match="test_scan") as error:
        oc.scan(lambda h, _: (w @ h, None), h, None, length=3)
    assert "has to keep its shape: the step takes it with 2|3 and returns it with 2|4, as `" in str(
        error.value
    )
    assert str(error.value).endswith("hint: return a carry of the shape 2|3")


def test_a_carry_keeps_its_number_of_axes() -> None:
    h, numbers = oc.data(np.ones(2), label="h"), oc.data(np.ones(2))

    def message(run: Callable[[], object]) -> str:
        with pytest.raises(oc.ShapeError, match="test_scan") as error:
            run()
        return str(error.value).partition(" has to keep its shape: ")[2].partition(", as ")[0]

    def stacked(h: oc.Tensor) -> oc.Tensor:
        return oc.stack([h, h], axis="output")

    def of_scan(step: Callable[[oc.Tensor], oc.Tensor], init: oc.TensorLike) -> str:
        return message(lambda: oc.scan(lambda h, _: (step(h), None), init, None, length=3))

    more = "each step gives it 1 output axis more"
    assert of_scan(stacked, h) == of_scan(stacked, 0.0) == more
    assert of_scan(lambda h: h.einsum("..., i => ..."), 0.0) == "each step gives it 1 output axis less"
    assert message(lambda: oc.while_loop(lambda h: h.sum() < 3, stacked, 0.0, most=3)) == more
    pairs = of_scan(lambda h: oc.einsum("i; j => i | j", h, numbers), h)
    assert pairs == "the step takes it with 2 and returns it with 2|2"


def test_sequences_have_one_length() -> None:
    x, y = oc.data(np.ones((2, 3, 4))), oc.data(np.ones((2, 5, 4)))
    with pytest.raises(oc.ShapeError, match=r"3 and 5 differ|5 and 3 differ"):
        oc.scan(lambda c, xs: (c + xs[0] + xs[1], None), 0.0, (x, y))


def test_a_tensor_of_one_iteration_has_no_value_outside() -> None:
    kept: list[oc.Tensor] = []

    def cell(carry: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, None]:
        kept.append(x)
        return carry + x, None

    _, last = oc.scan(cell, 0.0, oc.data(np.ones((2, 3, 4)), label="x"))
    with pytest.raises(oc.OcannlError, match="`x` has a value only inside of the cell of a scan"):
        oc.Context().compile((last + kept[0]).forward)


def test_ids_in_a_cell_are_checked() -> None:
    table = oc.data(np.arange(8.0).reshape(4, 2), axes="bo")
    ids = oc.data(np.array([[0, 3, 1]]), axes="bb")
    ys, _ = oc.scan(lambda c, i: (c, oc.gather("v | d; b | => b | d", table, i, at="v")), 0.0, ids)
    ctx = oc.Context()
    step = ctx.compile(ys.forward)
    step()
    np.testing.assert_array_equal(ctx[ys][0], [[0, 1], [6, 7], [2, 3]])
    ctx[ids] = np.array([[0, 7, 1]])
    with pytest.raises(oc.OcannlError, match="id 7"):
        step()


def test_threads_share_the_nests_of_a_body(rng: np.random.Generator) -> None:
    w, x = oc.param("w", rng.normal(size=(256, 256)) / 16), oc.data(rng.normal(size=(32, 2, 256)), label="x")
    losses: list[Array] = []
    for threads in (1, 2):
        _, last = oc.scan(lambda h, x: (oc.tanh(w @ h + x), None), 0.0, x)
        gradient = oc.grad(last.sum(), w)
        ctx = oc.Context.cpu(threads=threads)
        ctx.init_params(gradient.forward)
        ctx.compile(gradient.forward)()
        losses.append(np.array(ctx[gradient]))
    np.testing.assert_array_equal(losses[0], losses[1])


def test_what_a_scan_captures_is_trained() -> None:
    w, u = oc.param("w", input=4, output=4), oc.param("u", output=4)
    ys, last = oc.scan(lambda h, x: (oc.tanh(w @ h + x), h + u), 0.0, oc.data(np.ones((2, 3, 4))))
    assert oc.params(ys.sum() + last.sum(), trained=True).keys() == {"w", "u"}
    assert oc.params(oc.stop_gradient(ys.sum()), trained=True).keys() == set()


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("length", "every", "reverse"), [(7, 3, False), (7, 2, True), (6, 3, False)])
def test_checkpoints_change_no_gradients(
    rng: np.random.Generator, length: int, every: int, reverse: bool
) -> None:
    p = parameters(rng, **SHAPES)
    x = oc.data(rng.normal(size=(B, length, N)), label="x")
    begin, cell = oc.data(rng.normal(size=(B, H))), tanh_cell(p)
    found: list[list[oc.Tensor]] = []
    for k in (None, every):
        loss = loss_of([*oc.scan(cell, begin, x, reverse=reverse, checkpoint_every=k)])
        found.append([loss, *oc.grad(loss, {**p, "x": x}).values()])
    agree(*found)


def test_directions_of_a_scan_before_those_of_its_gradient(rng: np.random.Generator) -> None:
    """The gradient makes the scan save what no direction of its results was asked for."""
    p, x = parameters(rng, **SHAPES), oc.data(rng.normal(size=(B, 3, N)), label="x")
    _, last = oc.scan(tanh_cell(p), oc.data(rng.normal(size=(B, H))), x)
    loss = loss_of([last])
    u, along = p["u"], oc.cos(p["u"])
    slope = oc.grad(loss, u)
    change, second = oc.jvp(loss, u, along), oc.jvp(slope, u, along)
    agree([change, second], [(slope * along).sum(), oc.grad((slope * oc.stop_gradient(along)).sum(), u)])


def test_checkpoints_save_memory() -> None:
    def arena(every: int | None) -> int:
        w = oc.param("w", input=32, output=32)
        h = oc.data(np.ones((2, 32)))
        _, last = oc.scan(lambda h, _: (oc.tanh(w @ h), None), h, None, length=256, checkpoint_every=every)
        text = oc.grad(last.sum(), w).forward.ir("loops")
        return int(re.findall(r"arena = (\d+)", text)[-1])

    assert arena(16) < arena(None) / 4


def test_a_parameter_has_the_widest_type_inside_and_outside() -> None:
    w = oc.param("w", np.array([0.5, 2.0]).tolist(), output=2)
    ys, _ = oc.scan(lambda carry, x: (carry, w * x), 0.0, oc.data(np.array([1.0, 1 / 3]), axes="b"))
    y = ys + (w + oc.data(np.ones(2, np.float32), axes="o"))
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(y)
    assert (w.dtype, ctx[y].dtype) == (np.float64, np.float64)
    expected = np.array([[1], [1 / 3]]) * [0.5, 2.0] + np.array([1.5, 3.0])
    np.testing.assert_allclose(ctx[y], expected, rtol=1e-15)
