"""Weights in few bits: against their definition in NumPy, and against the package of GGUF."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn
from ocannl.nn.weights import quantized_weights
from ocannl.nn.weights.quantized_weights import FORMATS
from ocannl.passes.loops import fuse_operands

Array = NDArray[Any]
RNG = np.random.default_rng(0)


def decoded(kind: str, kept: Mapping[str, Array]) -> Array:
    """The weights, out, in, in f64."""
    codes, *rest = (array.astype(np.float64) for array in kept.values())
    if kind == "q4_k":
        scale, min_scale, scales, mins = rest
        halves = np.stack([kept["codes"] % 16, kept["codes"] // 16], -2)
        step = scale[..., None, None] * scales
        low = min_scale[..., None, None] * mins
        found = halves * step[..., None] - low[..., None]
    else:
        found = codes * rest[0][..., None]
    return found.reshape(*codes.shape[: codes.ndim - len(FORMATS[kind].kept["codes"][0])], -1)


def arrays(block: oc.Block[..., Any]) -> dict[str, Array]:
    """The arrays that a quantized layer keeps of its weights."""
    ctx = oc.default_context()
    return {name.rpartition(".")[2]: ctx[node] for name, node in block.state.items() if ".w." in name}


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_that_are_encoded_one_after_the_other_are_as_all_at_once(
    monkeypatch: pytest.MonkeyPatch, kind: str
):
    weights = RNG.normal(size=(5, 3, 512)).astype(np.float32)
    together = FORMATS[kind].encoded(weights)
    monkeypatch.setattr(quantized_weights, "ENCODED_AT_ONCE", 2 * 3 * 512)
    for label, array in FORMATS[kind].encoded(weights).items():
        np.testing.assert_array_equal(array, together[label], strict=True)


@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("kind", FORMATS)
def test_products_are_those_of_the_decoded_weights(kind: str, rows: int):
    layer = nn.linear(in_dim=[2, 256], out_dim=[3, 5])
    oc.default_context().init_params(layer.w)
    quantized = nn.quantized(layer, kind)
    x = RNG.normal(size=(rows, 2, 256)).astype(np.float32)
    weights = decoded(kind, arrays(quantized))
    found = oc.function(quantized, axes={"x": "boo"})(x)
    np.testing.assert_allclose(found, np.einsum("opki,bki->bop", weights, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("out", "panels"), [([37], ["2"]), ([3, 17], ["3", "3"])])
def test_panels_of_weights_are_decoded_beside_their_product(
    monkeypatch: pytest.MonkeyPatch, out: list[int], panels: list[str]
):
    monkeypatch.setattr(fuse_operands, "is_far", lambda *_: True)
    monkeypatch.setattr(fuse_operands, "PANEL_BYTES", 2**14)
    layer = nn.linear(in_dim=256, out_dim=out)
    oc.default_context().init_params(layer.w)
    quantized = nn.quantized(layer, "q4_k")
    x = RNG.normal(size=(5, 256)).astype(np.float32)
    weights = decoded("q4_k", arrays(quantized))
    step = oc.function(quantized, axes={"x": "bo"})
    text = step.lower(x).ir("loops")
    assert re.findall(r"loops.group .*= (\d+)\)", text) == panels, text
    np.testing.assert_allclose(step(x), np.einsum("...i,bi->b...", weights, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "error"), [("q8_0", 0.6 / 127), ("int8", 0.6 / 127), ("q4_k", 1.2 / 15)])
def test_weights_are_near_to_what_they_were(kind: str, error: float):
    layer = nn.linear(in_dim=512, out_dim=8, bias=False)
    weights = RNG.normal(size=(8, 512)).astype(np.float32)
    weights[3] = 0
    oc.default_context()[layer.w] = weights
    found = decoded(kind, arrays(nn.quantized(layer, kind)))
    assert abs(found - weights).max() < error * abs(weights).max()
    assert not found[3].any()


@pytest.mark.parametrize("kind", FORMATS)
def test_vectors_of_ids_are_rows(kind: str):
    table = nn.embedding(num=7, dim=256)
    oc.default_context().init_params(table.w)
    quantized = nn.quantized(table, kind)
    ids = np.array([[1, 6], [0, 1]])
    found = oc.function(quantized, axes={"ids": "bb"})(ids)
    np.testing.assert_allclose(found, decoded(kind, arrays(quantized))[ids], rtol=1e-6)


HOLDERS: dict[str, tuple[Callable[[], oc.Block[..., Any]], int]] = {
    "mlp": (lambda: nn.mlp(hid_dims=[64, 32], out_dim=5), 3),
    "attention": (lambda: nn.multi_head_attention(num_heads=2, d_k=32, d_v=32, out_dim=32, bias=True), 4),
    "lstm": (lambda: nn.lstm(32, proj_dim=32), 3),
    "gru": (lambda: nn.gru(32), 2),
    "rnn": (lambda: nn.rnn(32), 2),
    "selective_ssm": (lambda: nn.selective_ssm(32, states=4, rank=32), 4),
}
"""Blocks that have parameters of their own, and how many weights of products."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", HOLDERS)
def test_blocks_compute_with_the_decoded_weights(kind: str):
    make, count = HOLDERS[kind]
    with oc.precision(np.float64):
        block = make()
    ctx, x = oc.default_context(), RNG.normal(size=(1, 3, 32))
    whole = oc.function(lambda x: block(x), axes={"x": "bbo"})
    whole(x)
    quantized = nn.quantized(block)
    names = [name for name in block.params if name not in quantized.params]
    assert len(names) == count
    found = oc.function(lambda x: quantized(x), axes={"x": "bbo"})(x)
    for name in names:
        kept = {label: ctx[quantized.state[f"{name}.{label}"]] for label in FORMATS["q8_0"].kept}
        ctx[block.params[name]] = decoded("q8_0", kept).reshape(ctx[block.params[name]].shape)
    np.testing.assert_allclose(found, whole(x), rtol=1e-6, atol=1e-6)


def test_blocks_with_quantized_weights_are_frozen_and_quantized_again():
    block = nn.mlp(hid_dims=[32], out_dim=5)
    oc.function(block, axes={"x": "bo"})(np.ones((1, 32), np.float32))
    first = nn.quantized(block.freeze(), only="*layer1*")
    assert first.frozen
    both = nn.quantized(first.freeze(), only="*w_out")
    assert [*both.params] == ["mlp.layer1.b"]
    found = oc.function(both, axes={"x": "bo"})(np.ones((1, 32), np.float32))
    assert found.shape == (1, 5)


def test_q8_0_is_that_of_gguf():
    gguf = pytest.importorskip("gguf")
    weights = RNG.normal(size=(4, 96)).astype(np.float32)
    blocks = gguf.quants.quantize(weights, gguf.GGMLQuantizationType.Q8_0).reshape(4, 3, 34)
    kept = FORMATS["q8_0"].encoded(weights)
    assert (kept["codes"] == blocks[..., 2:].view(np.int8)).all()
    assert (kept["scales"].astype(np.float16) == blocks[..., :2].copy().view(np.float16)[..., 0]).all()


def test_weights_that_do_not_fit_stay():
    sizes = [(32, 64), (64, 20), (20, 3)]
    layers = [nn.linear(in_dim=into, out_dim=out) for into, out in sizes]

    def apply(x: oc.Tensor) -> oc.Tensor:
        for each in layers:
            x = each(x)
        return x

    layer = oc.Block(apply)
    for each in layers:
        oc.default_context().init_params(each.w)
    quantized = nn.quantized(layer)
    names = ["linear.b", "linear_1.b", "linear_2.w", "linear_2.b"]
    assert [*quantized.params] == names
    assert len(quantized.state) == len(names) + 4
    assert {*layer.params} - {*nn.quantized(layer, only="linear_1.*").params} == {"linear_1.w"}
    with pytest.raises(oc.ArgumentError, match="no weights called 'head"):
        nn.quantized(layer, only="head*")
    with pytest.raises(oc.ArgumentError, match=re.escape("q8_0 or q4_k or int8, found 'q2'")):
        nn.quantized(layer, "q2")
    with pytest.raises(oc.ArgumentError, match="of a block, found Tensor"):
        nn.quantized(oc.param("w", 1.0))  # pyright: ignore[reportArgumentType]
