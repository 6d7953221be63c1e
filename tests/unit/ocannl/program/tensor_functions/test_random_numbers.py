"""Random numbers in programs, bit for bit against NumPy, and their statistics."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import random_reference

import ocannl as oc
from ocannl import train

STEP = oc.index("step_n")
EVERY_ROW: dict[str, Any] = {"batch": [3], "output": [5, 2], "input": [7]}


def value(tensor: oc.Tensor) -> NDArray[Any]:
    return oc.Context.cpu()[tensor]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("counter", [0, 7, -1, 2**31, 2**32 + 5, 2**53 + 1, 2**64 + 3])
def test_uniform_is_the_reference(counter: int, dtype: type[np.floating]):
    found = value(oc.uniform(counter, key="a key", dtype=dtype, **EVERY_ROW))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, random_reference.uniform("a key", counter, (3, 5, 2, 7), dtype))


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 5), (2, 0)])
def test_uniform_of_any_shape(shape: tuple[int, ...]):
    found = value(oc.uniform(3, key="k", batch=shape, output=[], input=[]))
    np.testing.assert_array_equal(found, random_reference.uniform("k", 3, shape))


def test_an_index_counts_exactly():
    ctx, u = oc.Context.cpu(), oc.uniform(STEP, key="k", output=20)
    step = ctx.compile(u)
    for count in (0, 1, 2**24 + 1, 2**40 + 1):
        step(step_n=count)
        np.testing.assert_array_equal(ctx[u], random_reference.uniform("k", count, (20,)))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("rows", [[], [1]])
def test_memory_counts(dtype: type[np.number], rows: list[int]):
    count = oc.node("count", output=rows, init=-3.0, dtype=dtype)
    drawn = oc.node("drawn", output=20)
    with oc.code("draw") as draw:
        count += 1
        drawn[...] = oc.uniform(count, key="k", output=20)
    ctx = oc.Context.cpu()
    routine = ctx.compile(draw)
    for expected in (-2, -1, 0, 1):
        routine()
        np.testing.assert_array_equal(ctx[drawn], random_reference.uniform("k", expected, (20,)))


def test_an_expression_counts():
    ctx, u = oc.Context.cpu(), oc.uniform(2 * STEP + 1, key="k", output=20)
    ctx.compile(u)(step_n=10)
    np.testing.assert_array_equal(ctx[u], random_reference.uniform("k", 21, (20,)))


def test_a_new_count_in_one_routine_gives_new_numbers():
    count = oc.node("count", output=[], init=0.0)
    u = oc.uniform(count, key="k", output=20)
    first, second = oc.node("first", like=u), oc.node("second", like=u)
    with oc.code("draw twice") as draw:
        first[...] = u
        count += 1
        second[...] = u
    ctx = oc.Context.cpu()
    ctx.compile(draw)()
    np.testing.assert_array_equal(ctx[first], random_reference.uniform("k", 0, (20,)))
    np.testing.assert_array_equal(ctx[second], random_reference.uniform("k", 1, (20,)))


def test_ranges():
    unit = random_reference.uniform("k", 0, (100,), np.float64)
    found = value(oc.uniform(0, key="k", low=-2.0, high=3.0, output=100, dtype=np.float64))
    np.testing.assert_allclose(found, -2 + 5 * unit, atol=1e-15)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-13)])
def test_normal_is_box_and_muller(dtype: type[np.floating], tolerance: float):
    u, v = (random_reference.uniform("k", 5, (7, 9), dtype, j).astype(np.float64) for j in (False, True))
    expected = 1 + 2 * np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)
    found = value(oc.normal(5, key="k", mean=1.0, std=2.0, batch=7, output=9, input=[], dtype=dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def kolmogorov_smirnov(values: NDArray[Any], distribution: Callable[[NDArray[Any]], Any]) -> float:
    """The distance of the empirical distribution, times the root of the count: above 1.95 in one of 1000."""
    expected = distribution(np.sort(values.reshape(-1).astype(np.float64)))
    count = expected.size
    steps = np.arange(count + 1) / count
    return float(max((steps[1:] - expected).max(), (expected - steps[:-1]).max()) * np.sqrt(count))


def normal_distribution(x: NDArray[Any]) -> Any:
    torch = pytest.importorskip("torch")
    return (0.5 * (1 + torch.erf(torch.tensor(x) / 2**0.5))).numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_is_uniform(dtype: type[np.floating]):
    found = value(oc.uniform(1, key="statistics", output=[300, 300], dtype=dtype))
    assert found.min() >= 0
    assert found.max() < 1
    assert kolmogorov_smirnov(found, lambda x: x) < 1.95
    assert abs(found.mean() - 0.5) < 0.004
    assert abs(found.var() - 1 / 12) < 0.001
    assert abs(np.corrcoef(found[:, :-1].ravel(), found[:, 1:].ravel())[0, 1]) < 0.015


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_is_normal(dtype: type[np.floating]):
    found = value(oc.normal(1, key="statistics", output=[300, 300], dtype=dtype))
    assert kolmogorov_smirnov(found, normal_distribution) < 1.95
    assert abs(found.mean()) < 0.014
    assert abs(found.std() - 1) < 0.01
    assert abs((found**4).mean() - 3) < 0.15


@pytest.mark.exhaustive
def test_counters_keys_and_calls_differ():
    tensors = [
        oc.uniform(1, key="a", output=64),
        oc.uniform(2, key="a", output=64),
        oc.uniform(1, key="b", output=64),
        oc.uniform(1, key=0, output=64),
        oc.uniform(1, key=1, output=64),
    ]
    found = [value(t) for t in tensors]
    ctx = oc.Context.cpu()
    calls = [oc.uniform(1, output=64) for _ in range(3)]
    ctx.compile(sum((oc.forward(c) for c in calls), oc.Code()))()
    found += [ctx[c] for c in calls]
    correlations = np.corrcoef(np.stack(found)) - np.eye(len(found))
    assert abs(correlations).max() < 0.5
    np.testing.assert_array_equal(value(oc.uniform(1, key="a", output=64)), found[0])
    np.testing.assert_array_equal(value(oc.uniform(1, key=1, output=64)), found[4])


def keyed(name: str) -> NDArray[Any]:
    return random_reference.uniform(name, 1, (8,))


def test_calls_without_a_key_are_numbered_by_label_and_scope():
    ctx = oc.Context.cpu()
    with oc.scope("model"):
        first, noise = oc.uniform(1, output=8), oc.uniform(1, output=8, label="noise")
    second = oc.uniform(1, output=8)
    third = oc.uniform(1, output=8)
    ctx.compile(oc.forward(first) + oc.forward(noise) + oc.forward(second) + oc.forward(third))()
    names = ("model.uniform#1", "model.noise#1", "uniform#1", "uniform#2")
    for tensor, name in zip((first, noise, second, third), names, strict=True):
        np.testing.assert_array_equal(ctx[tensor], keyed(name))


def test_a_call_keeps_its_key_in_all_routines_of_a_context():
    """Parts compiled apart, such as the forward and the backward pass, draw the same numbers."""
    ctx = oc.Context.cpu()
    first, second = oc.uniform(1, output=8), oc.uniform(1, output=8)
    ctx.compile(first)()
    ctx.compile(second)()
    total = first + 2 * second
    ctx.compile(total)()
    np.testing.assert_array_equal(ctx[second], keyed("uniform#2"))
    np.testing.assert_allclose(ctx[total], keyed("uniform#1") + 2 * keyed("uniform#2"), rtol=1e-6)
    routine = ctx.compile(second)
    assert '"uniform#2"' in routine.ir()


def test_looking_changes_no_key():
    def program(look: bool) -> NDArray[Any]:
        ctx = oc.Context.cpu()
        first, second = oc.uniform(1, output=8), oc.uniform(1, output=8)
        if look:
            assert (ctx[second] == keyed("uniform#1")).all()
            second.ir("loops")
        ctx.compile(oc.forward(first) + oc.forward(second))()
        return ctx[second]

    np.testing.assert_array_equal(program(look=True), program(look=False))


def test_the_same_program_has_the_same_text_and_bits():
    def program() -> tuple[str, NDArray[Any]]:
        x = oc.data(np.ones((4, 6), np.float32), label="x")
        y = (x * oc.uniform(STEP) + oc.normal(STEP)).named("y")
        ctx = oc.Context.cpu()
        routine = ctx.compile(y)
        routine(step_n=3)
        return routine.ir("loops"), ctx[y]

    (text, found), (again, bits) = program(), program()
    assert text == again
    np.testing.assert_array_equal(found, bits)


def test_a_loop_draws_as_steps_do():
    total = oc.node("total", output=6)
    with oc.code("add") as add:
        total += oc.uniform(STEP, key="k")
    found = list[NDArray[Any]]()
    for in_loop in (True, False):
        ctx = oc.Context.cpu()
        routine = ctx.compile(add)
        if in_loop:
            routine.run_loop(epochs=5, advance=[STEP])
        else:
            for n in range(5):
                routine(step_n=n)
        found.append(ctx[total])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], sum(random_reference.uniform("k", n, (6,)) for n in range(5)))


def test_shapes_are_inferred_from_uses():
    x = oc.data(np.ones((3, 4), np.float32), label="x")
    u = oc.uniform(0)
    oc.infer(x * oc.where(u < 0.5, 1.0, 0.0))
    assert u.shape == "3|4"
    alone = oc.uniform(0)
    assert value(alone).shape == ()
    row = oc.uniform(0, batch=[], input=[])
    oc.infer(x + row)
    assert row.shape == "4"


def test_numbers_like_a_tensor_do_not_broadcast_it():
    one = oc.data(np.ones((1, 4), np.float32), label="one")
    u = oc.uniform(0, like=one)
    result = one * u + oc.data(np.ones((3, 4), np.float32), label="three")
    oc.infer(result)
    assert u.shape == "1|4"
    assert result.shape == "3|4"


def test_precision_is_that_of_the_uses():
    double = oc.data(np.ones(5), label="double")
    u = oc.uniform(2, key="k")
    ctx = oc.Context.cpu()
    ctx.compile(oc.forward(double * u) + oc.forward(u))()
    np.testing.assert_array_equal(ctx[u], random_reference.uniform("k", 2, (5,), np.float64))


def test_gradients_go_through_products_with_them():
    w = oc.param("w", np.ones((3, 4)), batch=3, output=4)
    u = oc.uniform(STEP, key="k")
    loss = (w * u).einsum("...|... => 0")
    ctx = oc.Context.cpu()
    step = ctx.compile(train.grad_update(loss))
    ctx.init_params(loss)
    step(step_n=4)
    np.testing.assert_array_equal(ctx[w.grad], random_reference.uniform("k", 4, (3, 4), np.float64))


def test_no_gradient_goes_to_the_counter():
    count = oc.param("count", 3.0, output=[])
    loss = (oc.uniform(count, key="k", output=4) * count).einsum("...|... => 0")
    ctx = oc.Context.cpu()
    ctx.init_params(loss)
    train.update_once(ctx, loss)
    np.testing.assert_allclose(ctx[count.grad], random_reference.uniform("k", 3, (4,)).sum(), rtol=1e-6)


@pytest.mark.parametrize("draw", [oc.uniform, oc.normal])
class TestMistakes:
    def test_a_counter_of_no_number(self, draw: Callable[..., oc.Tensor]):
        with pytest.raises(TypeError, match=r"a counter is an integer, an oc.index or a tensor, found 1.5"):
            draw(1.5)
        with pytest.raises(TypeError, match="expected a tensor or a number, found 'step'"):
            draw("step")

    def test_a_counter_of_many_numbers(self, draw: Callable[..., oc.Tensor]):
        many = oc.data(np.arange(4), label="many")
        with pytest.raises(
            oc.ShapeError, match=r"test_random_numbers.*: a counter is one number, found shape 4"
        ):
            value(draw(many, output=3))

    def test_a_constant_that_is_no_whole_number(self, draw: Callable[..., oc.Tensor]):
        with pytest.raises(oc.OcannlError, match=r"a counter is a whole number, found 0.5"):
            value(draw(oc.constant(0.5), output=3))

    def test_a_key_of_another_type(self, draw: Callable[..., oc.Tensor]):
        with pytest.raises(TypeError, match=r"a key is a string or an integer, found 1.5"):
            draw(1, key=1.5)

    def test_a_dtype_of_integers(self, draw: Callable[..., oc.Tensor]):
        with pytest.raises(TypeError, match="random numbers are of a floating dtype, found int32"):
            draw(1, dtype=np.int32)

    def test_like_and_rows(self, draw: Callable[..., oc.Tensor]):
        with pytest.raises(TypeError, match="the rows of `like`, or those given, not both"):
            draw(1, like=oc.range(3), output=3)
