"""Which dtypes data have on the device, and initial values of parameters."""

from array import array as flat_array
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import ocannl as oc
from ocannl import nn, train

DTYPES = [
    *(np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64),
    *(np.float16, oc.bfloat16, oc.float8_e5m2, oc.float8_e4m3fn, np.float32, np.float64),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_kept_and_computed_with(dtype: type[np.generic]):
    x = oc.data(np.array([[1, 0, 1]], dtype), label="x")
    context = oc.Context.cpu()
    assert context[x].dtype == dtype
    assert context[x * 3].dtype == (np.int32 if dtype == np.bool_ else dtype)
    np.testing.assert_array_equal(context[x * 3], [[3, 0, 3]])


def test_lists_and_buffers_have_the_dtype_of_what_is_in_them():
    lists: list[tuple[ArrayLike, type[np.generic]]] = [
        ([1, -2], np.int32),
        ([2**31], np.int64),
        ([True, False], np.bool_),
        ([1, 2.5], np.float32),
        ([], np.float32),
        (np.array([1], np.uint64), np.int64),
        ([np.float64(1), 2.0], np.float64),
        ([np.int64(1)], np.int64),
        (memoryview(flat_array("d", [1, 2])), np.float64),
        (flat_array("d", [0.5]), np.float64),
    ]
    for given, dtype in lists:
        assert oc.Context.cpu()[oc.data(given)].dtype == dtype


def test_full_has_the_dtype_of_its_number():
    numbers: list[tuple[float, type[np.generic]]] = [(2, np.int32), (True, np.bool_), (2.0, np.float32)]
    for number, dtype in numbers:
        filled = oc.full((2, 3), number)
        assert (filled.dtype, tuple(filled.shape)) == (dtype, (2, 3))
    with pytest.raises(oc.OcannlError, match=r"\(2,\) does not fill an array of \(3,\)"):
        oc.full(3, [1, 2])


@pytest.mark.parametrize(
    ("given", "dtype", "lost"),
    [
        ([300], "int8", "300"),
        ([-1], "uint8", "-1"),
        ([1, np.nan], "int32", "nan"),
        ([1e30], "int64", r"1e\+30"),
    ],
)
def test_integers_of_a_dtype_have_a_range(given: ArrayLike, dtype: str, lost: str):
    with pytest.raises(oc.OcannlError, match=f"{lost} is no {dtype}"):
        oc.tensor(given, dtype)
    assert oc.tensor([1.5, -2.5], "int8").numpy().tolist() == [1, -2]


def test_what_is_done_to_an_array_later_changes_no_program():
    array = np.ones(3)
    x, w = oc.data(array), oc.param("w", array)
    array[:] = 7
    context = oc.Context.cpu()
    context.init_params(w)
    np.testing.assert_array_equal(context[x * w], np.ones(3))
    with oc.eager():
        doubled = oc.data(array) * 2
        array[:] = 9
        np.testing.assert_array_equal(doubled.numpy(), [14, 14, 14])


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", "bfloat16", "float8_e5m2", "int64", "uint8", "bool"]
)
def test_arrays_of_other_libraries_keep_their_dtype(name: str):
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    ctx, p, double = oc.Context.cpu(), oc.param("p", 0.0, output=2), oc.function(lambda x: x + x)
    known = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "int64": np.int64}
    dtype = np.dtype({"uint8": np.uint8, "bool": np.bool_, **known}.get(name) or getattr(oc, name))
    given = [torch.tensor([1, 0]).to(getattr(torch, name))]
    if dtype.kind not in "fi" or dtype.itemsize < 8:
        given.append(jnp.array([1, 0], dtype))
    else:
        given.append(torch.tensor([1, 0], dtype=getattr(torch, name), requires_grad=dtype.kind == "f"))
    for array in given:
        assert ctx[oc.data(array)].dtype == dtype
        assert ctx[oc.data(array)].tolist() == [1, 0]
        assert double(array).dtype == (np.int32 if name == "bool" else dtype)
        ctx[p] = array
        assert ctx[p].tolist() == [1, 0]
        ctx.init_params(oc.param("q", array), reinit=True)


def test_masked_values_are_no_numbers():
    masked, ctx, p = np.ma.array([1.0, 2.0], mask=[False, True]), oc.Context.cpu(), oc.param("p", output=2)
    double = oc.function(lambda x: 2 * x)
    np.testing.assert_array_equal(double(np.ma.array([1.0, 2.0])), [2, 4])

    def write() -> None:
        ctx[p] = masked

    for use in (write, lambda: oc.data(masked), lambda: oc.param("q", masked), lambda: double(masked)):
        with pytest.raises(oc.ArgumentError, match=r"a masked array: .* gets a value by \.filled"):
            use()
    np.testing.assert_array_equal(ctx[oc.data(masked.filled(0))], [1, 0])


def test_integers_of_65_bits_do_not_wrap_around():
    large = np.array([2**63 + 5], np.uint64)
    for use in (oc.data, oc.function(lambda x: x * 1)):
        with pytest.raises(
            oc.ArgumentError, match="integers are of 64 bits with a sign, found 92233720368547"
        ):
            use(large)


@pytest.mark.parametrize("given", [np.complex64, object])
def test_what_no_target_stores_is_refused(given: type[object]):
    with pytest.raises(TypeError, match=r"complex64|object"):
        oc.data(np.array([1, 2], given))


def test_objects_that_are_numbers_are_told():
    with pytest.raises(oc.ArgumentError, match=r"dtype object: array.astype\(np.float32\) has numbers"):
        oc.data(np.array([1, 2.5], object))


class TestFlatData:
    numbers = np.arange(12.0)

    def test_the_demanded_size_is_taken_and_the_rest_is_batch(self):
        x, w = oc.data(self.numbers, flat=True), np.arange(6.0).reshape(2, 3)
        y = oc.param("w", w) @ x
        context = oc.Context.cpu()
        context.init_params(y)
        np.testing.assert_array_equal(context[y], self.numbers.reshape(4, 3) @ w.T)

    def test_pointwise(self):
        y = oc.data(self.numbers, flat=True) + oc.data(np.zeros((3, 4)))
        np.testing.assert_array_equal(oc.Context.cpu()[y], self.numbers.reshape(3, 4))

    def test_a_spec_gives_all_but_one_size(self):
        y = oc.einsum("h, w | c => c | h, w", oc.data(self.numbers, flat=True), h=2, c=3)
        expected = self.numbers.reshape(2, 2, 3).transpose(2, 0, 1)
        np.testing.assert_array_equal(oc.Context.cpu()[y], expected)

    def test_alone_it_is_one_output_axis(self):
        x = oc.data(self.numbers.reshape(3, 4), flat=True)
        assert oc.Context.cpu()[x].shape == (12,)

    def test_the_number_of_elements_must_fit(self):
        x = oc.data(self.numbers, flat=True, label="x")
        with pytest.raises(oc.ShapeError, match="12 elements are given, the axes have 15"):
            oc.einsum("b | o => b", x, b=3, o=5)

    def test_axes_are_not_given(self):
        with pytest.raises(oc.SpecError, match="axes='bo' is not given"):
            oc.data(self.numbers, flat=True, axes="bo")


def test_an_array_of_no_axes_keeps_its_dtype():
    """Its number was rounded to f32, which an array of one axis is not, nor are data."""
    third = np.array(1 / 3)
    one, within = oc.param("one", third), oc.param("within", third, output=3)
    assert one.dtype == within.dtype == oc.data(third).dtype == np.float64
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(one)
    assert ctx[one] == third
    assert oc.param("number", np.float64(1 / 3)).dtype == oc.param("plain", 1 / 3).dtype == np.float32
    assert oc.param("single", third.astype(np.float32)).dtype == np.float32
    assert oc.param("given", third, dtype=np.float32).dtype == np.float32


def test_an_array_of_no_axes_is_one_number():
    """A number has the shape that its use needs: a temperature would be one for each column."""
    scores = oc.data(np.ones((2, 3), np.float32))
    one, many = oc.param("one", np.array(2.0)), oc.param("many", 2.0)
    oc.infer(one * many * scores)
    assert (str(one.shape), str(many.shape)) == ("()", "3")


def test_a_parameter_is_initialized_by_an_expression():
    """It has the expression's rows, and its value in the context that initializes it, for the seed there."""
    base = oc.param("base", oc.init.normal(), output=3, input=2)
    scaled = oc.param("scaled", 2 * base + 1)
    part = oc.param("part", base[0] - 1, output=[], input=2)
    spread = oc.param("spread", oc.sum(base), output=[2, 2], input=[])
    x = oc.data(np.ones((4, 2), np.float32))
    loss = oc.sum(scaled @ x) + oc.sum(part @ x) + oc.sum(spread)
    contexts = [oc.Context.cpu(1), oc.Context.cpu(1)]
    for seed, ctx in enumerate(contexts):
        ctx.init_params(loss, seed=seed)
        np.testing.assert_allclose(ctx[scaled], 2 * ctx[base] + 1)
        np.testing.assert_allclose(ctx[part], ctx[base][0] - 1)
        np.testing.assert_allclose(ctx[spread], np.full((2, 2), ctx[base].sum()), rtol=1e-6)
    assert not np.array_equal(contexts[0][scaled], contexts[1][scaled])
    assert str(scaled.shape) == "2->3"
    assert set(oc.params(loss)) == {"part", "scaled", "spread"}


def test_random_numbers_of_initial_expressions():
    """Two calls draw others, of one call both parameters are made."""
    drawn = oc.normal(0)
    first, twice = (oc.param(n, k * drawn, output=3, input=[]) for n, k in (("first", 1), ("twice", 2)))
    other = oc.param("other", oc.normal(0), output=3, input=[])
    found: list[list[float]] = []
    for _ in range(2):
        ctx = oc.Context.cpu(threads=1)
        ctx.init_params(first + twice + other)
        np.testing.assert_array_equal(ctx[twice], 2 * ctx[first])
        assert not np.isin(ctx[other], ctx[first]).any()
        found.append([*ctx[first], *ctx[other]])
    assert found[0] == found[1]


TABLE = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        ({"output": 2}, "3->2"),
        ({"input": 3}, "3->2"),
        ({"batch": [5]}, "5|3->2"),
        ({"batch": [5], "output": 2, "input": 3}, "5|3->2"),
        ({"output": [4, 2], "input": [1, 3]}, "1,3->4,2"),
        ({"output": oc.Dim("rows"), "input": oc.Dim("columns")}, "3->2"),
    ],
)
def test_an_initial_expression_is_broadcast_by_rows(rows: Any, shape: str):
    """Rows that are not given are its own."""
    table = oc.data(TABLE, axes="oi")
    p, ctx = oc.param("p", 1 * table, **rows), oc.Context.cpu(1)
    ctx.init_params(p)
    assert str(p.shape) == shape
    sizes = {"5|3->2": (5, 2, 3), "1,3->4,2": (4, 2, 1, 3)}.get(shape, (2, 3))
    np.testing.assert_array_equal(
        ctx[p], np.broadcast_to(TABLE.reshape(2, *[1] * (len(sizes) - 3), 3), sizes)
    )


def test_an_initial_expression_may_leave_rows_to_uses():
    """Of one number, as of anything without axes there."""
    w = oc.param("w", oc.sum(oc.data(TABLE)), output=2)
    y, ctx = w @ oc.data(np.ones((4, 3))), oc.Context.cpu(1)
    ctx.init_params(y)
    np.testing.assert_array_equal(ctx[w], np.full((2, 3), 15.0))


@pytest.mark.parametrize("rows", [{"output": 3, "input": 2}, {"output": 3}, {"output": [3, 2], "input": []}])
@pytest.mark.parametrize("kind", ["array", "expression"])
def test_an_initial_value_that_does_not_fit(kind: str, rows: Any):
    """Also of as many numbers, at the line of the parameter."""
    init = TABLE if kind == "array" else oc.data(TABLE, axes="oi")
    with pytest.raises(oc.ShapeError, match=r"test_leaves.py:\d+: .*`p"):
        oc.param("p", init, **rows)


def test_an_initial_array_tells_dimensions():
    rows, columns = oc.Dim("rows"), oc.Dim("columns")
    oc.param("p", TABLE, batch=None, output=[rows], input=[columns])
    assert (int(rows), int(columns)) == TABLE.shape


def test_an_initial_array_may_be_flat():
    p, ctx = oc.param("p", TABLE.ravel(), batch=1, output=2, input=3), oc.Context.cpu(1)
    ctx.init_params(p)
    np.testing.assert_array_equal(ctx[p], TABLE[None])


def test_a_layer_starts_at_an_expression():
    """Training changes the parameter, and not what it was initialized by."""
    start = oc.data(np.eye(3, dtype=np.float32), axes="oi")
    layer = nn.linear(out_dim=3, bias=False, init=start * 2)
    loss = nn.mse(layer(oc.data(np.ones((2, 3), np.float32))), oc.constant(0.0))
    step = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    ctx = oc.Context.cpu(1)
    ctx.init_params(loss)
    np.testing.assert_array_equal(ctx[layer.w], 2 * np.eye(3))
    ctx.compile(step)()
    assert ctx[layer.w][0, 0] < 2
    np.testing.assert_array_equal(ctx[start], np.eye(3))


def test_a_number_leaves_rows_to_layers_and_to_inference():
    """An array of one number is a parameter of one number only where it is all that is said of that."""
    x = oc.data(np.ones((4, 3)), axes="bo")
    y = nn.layer_norm(init=np.array(1.0))(nn.linear(out_dim=2, init=np.array(0.5))(x))
    oc.infer(y)
    params = oc.params(y)
    assert [str(params[name].shape) for name in ("linear.w", "layer_norm.gain")] == ["3->2", "2"]
