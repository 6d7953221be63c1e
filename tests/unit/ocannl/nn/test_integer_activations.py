"""Products of quantized weights with activations in integers: against their definition in NumPy, in f64."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn
from ocannl.nn.weights.quantized_weights import FORMATS
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.host.processor import missing_features

Array = NDArray[Any]
LEVELS = ["x86-64", "x86-64-v3", "x86-64-v4"]
RUNNABLE = [name for name in LEVELS if not missing_features(processor(name))]
RNG = np.random.default_rng(0)


def rounded(kind: str, x: Array) -> Array:
    """Activations, batch, lead, in, to the nearest of 127 steps each way: of a block, or of a row."""
    block = FORMATS[kind].block if kind != "int8" else x.shape[-1]
    blocks = x.astype(np.float64).reshape(*x.shape[:-1], -1, block)
    steps = abs(blocks).max(-1, keepdims=True) / 127
    codes = np.round(np.divide(blocks, steps, out=np.zeros_like(blocks), where=steps > 0))
    return (codes * steps).reshape(x.shape)


def weights_of(layer: oc.Block[..., Any], quantized: oc.Block[..., Any]) -> Array:
    """The decoded weights, by products with a basis."""
    inputs = layer.params["linear.w"].shape.array
    size = int(np.prod(inputs[-2:]))
    basis = np.eye(size, dtype=np.float32).reshape(size, *inputs[-2:])
    return oc.function(quantized, axes={"x": "boo"})(basis)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize("inputs", [(2, 256), (8, 64)], ids=str)
@pytest.mark.parametrize("kind", FORMATS)
def test_products_are_those_of_rounded_activations(kind: str, inputs: tuple[int, int], rows: int):
    layer = nn.linear(in_dim=[*inputs], out_dim=[3, 5], bias=False)
    oc.default_context().init_params(layer.w)
    exact, quantized = nn.quantized(layer, kind), nn.quantized(layer, kind, activations="int8")
    x = RNG.normal(size=(rows, *inputs)).astype(np.float32)
    x[0, 0, :32] = 0
    weights = weights_of(layer, exact).astype(np.float64)
    found = oc.function(quantized, axes={"x": "boo"})(x)
    # Blocks of q4_k go from one row of the inputs into the next.
    flat = x.reshape(rows, 1, -1) if kind == "q4_k" else x
    expected = np.tensordot(rounded(kind, flat).reshape(rows, -1), weights.reshape(x[0].size, 3, 5), 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
    plain = oc.function(exact, axes={"x": "boo"})(x)
    assert 1e-4 < abs(found - plain).max() < 0.05 * abs(plain).max()


@pytest.mark.parametrize("kind", FORMATS)
def test_gradients_pass_by_the_rounding(kind: str):
    layer = nn.linear(in_dim=256, out_dim=5, bias=False)
    oc.default_context().init_params(layer.w)
    x, seed = (
        oc.data(RNG.normal(size=(1, size)).astype(np.float32), axes="bo", label=f"x{size}")
        for size in (256, 5)
    )
    found: list[Array] = []
    for quantized in (nn.quantized(layer, kind), nn.quantized(layer, kind, activations="int8")):
        slope = oc.grad((quantized(x) * seed).sum(), x)
        ctx = oc.default_context()
        ctx.compile(slope.forward)()
        found.append(ctx[slope])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [7, 36, 100])
def test_inputs_that_are_no_whole_vectors_or_words_are_rounded_too(size: int):
    layer = nn.linear(in_dim=size, out_dim=3, bias=False)
    oc.default_context().init_params(layer.w)
    quantized = nn.quantized(layer, "int8", activations="int8")
    x = RNG.normal(size=(1, size)).astype(np.float32)
    weights = oc.function(nn.quantized(layer, "int8"), axes={"x": "bo"})(np.eye(size, dtype=np.float32))
    found = oc.function(quantized, axes={"x": "bo"})(x)
    np.testing.assert_allclose(found, rounded("int8", x) @ weights, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("kind", FORMATS)
def test_every_way_to_multiply_bytes_gives_the_same_sums(kind: str, target: str):
    """Of weights that are whole numbers, and activations that are 127 steps, all sums are exact."""
    layer = nn.linear(in_dim=512, out_dim=24, bias=False)
    ctx = oc.Context.cpu(1, target=target)
    codes = RNG.integers(-127, 128, (24, 512)).astype(np.float32)
    codes[:, ::32] = 127
    x = RNG.integers(-127, 128, (1, 512)).astype(np.float32)
    x[:, ::32] = -127
    ctx[layer.w] = codes
    quantized = nn.quantized(layer, kind, activations="int8", ctx=ctx)
    exact = nn.quantized(layer, kind, ctx=ctx)
    found = oc.function(quantized, ctx, axes={"x": "bo"})(x)
    expected = oc.function(exact, ctx, axes={"x": "bo"})(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.05 if kind == "q4_k" else 0)


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("most", [15, 127, 255])
def test_the_greatest_bytes_do_not_overflow(most: int, target: str):
    """Two products of 127 and -128 fit 16 bits, two of 255 do not."""
    ctx = oc.Context.cpu(1, target=target)
    left, right = np.full((24, 16, 8, 4), most, np.uint8), np.full((16, 8, 4), -128, np.int8)
    left[1], right[::2] = 1, 127
    x, y = (oc.cast(oc.data(each, axes="o" * each.ndim), np.int32) for each in (left, right))
    words = oc.einsum("| b, k, l, i; | k, l, i => b, k, l", oc.virtual(x & most), oc.virtual(y))
    total = oc.einsum("b, k, l => b", oc.virtual(words))
    if target in RUNNABLE:
        np.testing.assert_array_equal(ctx[total], (left.astype(int) * right).sum((1, 2, 3)))
    text = ctx.compile(total.forward).ir("llvm")
    assert ("pmadd.ub" in text or "pmaddubs" in text) == (most < 255 and target != "x86-64")


def test_activations_are_floats_or_integers_of_8_bits():
    with pytest.raises(oc.ArgumentError, match="activations are None, as they are, or 'int8', found 'int4'"):
        nn.quantized(nn.linear(in_dim=32, out_dim=2), activations="int4")


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_no_number_is_not_hidden_by_rounding(kind: str, rows: int):
    """NaN and infinities beside numbers, in one row of each batch; zeros and denormal numbers stay finite."""
    layer = nn.linear(in_dim=512, out_dim=7, bias=False)
    oc.default_context().init_params(layer.w)
    product = oc.function(nn.quantized(layer, kind, activations="int8"))
    for value in (np.nan, np.inf, -np.inf, 0.0, 1e-42):
        x = np.zeros((rows, 512), np.float32)
        x[:-1] = RNG.normal(size=(rows - 1, 512))
        x[-1, 300] = value
        found = product(x)
        assert np.isfinite(found[:-1]).all()
        assert np.isfinite(found[-1]).all() == np.isfinite(value)
