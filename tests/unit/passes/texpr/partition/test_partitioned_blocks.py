"""Blocks that the tables of blocks do not have by themselves, under random placements: parts of others, those
with memory, and blocks made of blocks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from support.nn.check import weighted_sum
from support.placed_programs import Placed

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import OcannlError

MESHES = ({"data": 2}, {"data": 3}, {"data": 2, "model": 2}, {"data": 4}, {"data": 8})
N = oc.index("n", 5)


def rows(*sizes: int) -> oc.Tensor:
    array = np.random.default_rng(len(sizes)).normal(size=sizes)
    return oc.data(array, axes="b" * (len(sizes) - 1) + "o", label="x")


def attention(cache: nn.KVCache | nn.PagedCache) -> oc.Block[..., oc.Tensor]:
    return nn.multi_head_attention(num_heads=4, num_kv_heads=2, d_k=4, d_v=6, out_dim=8, cache=cache)


def with_lora() -> oc.Tensor:
    model = nn.lora(nn.mlp(hid_dims=[8], out_dim=6), rank=2)
    return model(rows(4, 8))


def quantized() -> oc.Tensor:
    layer = nn.linear(in_dim=64, out_dim=6)
    oc.default_context().init_params(layer.w)
    return nn.quantized(layer, "q8_0")(rows(4, 64))


@dataclass(frozen=True)
class Case:
    """A block that is applied; whether it is trained, and whether it has memory that is written at positions,
    along which it cannot be split.
    """

    make: Callable[[], oc.Tensor]
    is_trained: bool = True
    has_positions: bool = False


CASES = {
    "encoder layer": Case(lambda: nn.encoder_layer(num_heads=2, d_k=4, d_v=4, d_ff=12)(rows(2, 6, 8))),
    "decoder layer": Case(
        lambda: nn.decoder_layer(num_heads=2, d_k=4, d_v=4, d_ff=12)(
            rows(2, 6, 8), rows(2, 5, 8), nn.causal_mask(6)
        )
    ),
    "feed forward": Case(lambda: (x := rows(2, 6, 8)) + nn.feed_forward(d_ff=12)(x)),
    "dropout": Case(lambda: nn.dropout(0.3)(oc.tanh(nn.linear(out_dim=6)(rows(4, 8))), train_step=N)),
    "cache, one position": Case(lambda: attention(nn.kv_cache(length=8))(rows(2, 1, 8)), False, True),
    "cache, positions": Case(lambda: attention(nn.kv_cache(length=8))(rows(2, 3, 8)), False, True),
    "lora": Case(with_lora),
    "quantized": Case(quantized, False),
}


def check(name: str, mesh: dict[str, int], seed: int) -> None:
    case = CASES[name]
    with oc.code(name) as code, oc.precision(np.float64):
        result = case.make()
        if case.is_trained:
            train.grad_update(weighted_sum(result))
        oc.forward(result)
    placed = Placed.of(code, **({"n": 1} if name == "dropout" else {}))
    try:
        placed.check(mesh, random.Random(seed))
    except OcannlError as error:
        if not case.has_positions or "this needs whole what is split in memory" not in str(error):
            raise


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", CASES)
def test_a_placement(name: str):
    check(name, {"data": 2, "model": 2}, 3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_all_placements(name: str, mesh: dict[str, int], seed: int):
    check(name, mesh, seed)
