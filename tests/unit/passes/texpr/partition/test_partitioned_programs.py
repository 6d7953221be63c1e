"""Partitioned programs mean what they mean on one rank: on all ranks at once, interpreted in f64."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest
from support.nn.check import weighted_sum
from support.nn.tables import NAMES, fresh_cases
from support.placed_programs import Placed

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.shapes.shape import RowKind
from ocannl.program.meshes.sharding import Shard

MESHES: tuple[dict[str, int], ...] = (
    {"data": 1},
    {"data": 2},
    {"data": 3},
    {"data": 2, "model": 2},
    {"data": 4},
    {"data": 8},
)


def collectives(text: str) -> Counter[str]:
    kinds = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    return Counter({kind: count for kind in kinds if (count := text.count(f"texpr.{kind} "))})


def data(*sizes: int, shard: Shard | None = None, label: str = "x") -> oc.Tensor:
    array = np.random.default_rng(len(sizes)).standard_normal(sizes).astype(np.float32)
    return oc.data(array, label=label, shard=shard)


def two_layers(x: oc.Tensor, target: oc.Tensor, shard: Shard | None = None) -> oc.Tensor:
    w1, b1 = oc.param("w1", output=8, shard=shard), oc.param("b1", 0.0, output=8)
    w2, b2 = oc.param("w2", output=3), oc.param("b2", 0.0, output=3)
    return nn.mse(w2 @ oc.relu(w1 @ x + b1) + b2, target)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_a_batch_is_divided_by_what_data_say(mesh: dict[str, int]):
    """Of 6 rows in steps of 2 batches; each parameter's gradient is summed, and the loss."""
    at = oc.index("at", 2)
    x, y = (data(2, 6, n, shard={"batch": "data"}, label="xy"[n < 4])[at] for n in (5, 3))
    loss = two_layers(x, y)
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)
    module = Placed.of(code, at=1).check(mesh)
    assert collectives(str(module)) == Counter(all_reduce=5 if mesh["data"] > 1 else 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ranks", [3, 2, 4])
def test_two_layers_of_a_divided_weight_sum_once(ranks: int):
    x, y = data(6, 5), data(6, 3, label="y")
    loss = two_layers(x, y, shard={"output": "model"})
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    module = Placed.of(code).check({"model": ranks})
    assert collectives(str(module)) == Counter(all_reduce=1)
    text = str(module)
    assert 'texpr.param "b1" split 0 of 8' in text
    assert 'texpr.param "w2" split 1 of 8' in text


def test_heads_of_attention_sum_once_a_direction():
    """As Megatron's: one all-reduce of values, one of their gradients."""
    x, y = data(2, 6, 8), data(2, 6, 8, label="y")
    out = nn.multi_head_attention(num_heads=4, d_k=4, d_v=4)(nn.linear(out_dim=8)(x), nn.causal_mask(6))
    loss = nn.mse(out, y)
    for name, p in oc.params(loss).items():
        if name.endswith(("w_q", "w_k", "w_v")):
            oc.shard(p, {("output", 0): "model"})
    module = Placed.of(train.grad_update(loss)).check({"model": 2})
    assert collectives(str(module)) == Counter(all_reduce=2)


def test_parameters_moments_and_gradients_in_parts():
    """ZeRO: a parameter is gathered where it is used, the sum of its gradient scattered."""
    x, y = data(8, 5, shard={"batch": "data"}), data(8, 3, label="y", shard={"batch": "data"})
    w = oc.param("w", output=3, shard={"input": "data"})
    loss = nn.mse(w @ x, y)
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)
    module = Placed.of(code).check({"data": 2})
    found = collectives(str(module))
    assert found == Counter(all_gather=1, reduce_scatter=1, all_reduce=1)
    assert str(module).count('split 1 of 5 over "data"') == 3


@pytest.mark.parametrize("row", ["input", "output"])
def test_layers_whose_parameters_are_in_parts(row: RowKind):
    """ZeRO-3: parameters move, however few rows there are, each for what reads it; the first one once."""
    x, y = data(4, 8, shard={"batch": "data"}), data(4, 6, shard={"batch": "data"}, label="y")
    weights = [oc.param(f"w{k}", output=6, shard={row: "data"}) for k in range(3)]
    hidden = x
    for weight in weights:
        hidden = oc.tanh(weight @ hidden)
    module = Placed.of(train.grad_update(nn.mse(hidden, y))).check({"data": 2})
    assert collectives(str(module)) == Counter(all_gather=5, reduce_scatter=3, all_reduce=1)


def test_a_weight_in_parts_is_converted_before_it_is_gathered():
    x = oc.data(np.ones((8, 4), np.float32), label="x", shard={"batch": "data"})
    with oc.precision("float32", compute="bfloat16"):
        w = oc.param("w", output=6)
    (kept,) = oc.params(result := w @ x).values()
    oc.shard(kept, {"input": "data"})
    text = str(Placed.of(oc.forward(result)).check({"data": 2}))
    assert re.search(r"all_gather .* at 1 of 4 .*<4 -> 6, bf16>", text)


def test_a_recurrence_over_a_divided_batch_moves_nothing_on_the_way():
    """The three weights' gradients are summed, and the loss."""
    x = oc.data(np.random.default_rng(1).standard_normal((3, 4, 5)), label="x", shard={0: "data"})
    with oc.precision(np.float64):
        y = nn.rnn(hid_dim=3)(x)
    module = Placed.of(train.grad_update(nn.mse(y, 0 * y))).check({"data": 2})
    assert collectives(str(module)) == Counter(all_reduce=4)


def check_block(name: str, mesh: dict[str, int], seed: int) -> None:
    """A block with its gradients, under random placements of memory and of some expressions."""
    case = fresh_cases()[name]
    axes = case.axes or [None] * len(case.inputs)
    tensors = [oc.data(a, axes=x, label="x") for a, x in zip(case.inputs, axes, strict=True)]
    with oc.precision(np.float64):
        result = case.block(*tensors)
    loss = weighted_sum(result)
    gradients = [t.grad for t, a in zip(tensors, case.inputs, strict=True) if a.dtype.kind == "f"]
    code = train.grad_update(loss) + result.forward
    Placed.of(code).check(mesh, random.Random(seed))
    del gradients


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "mesh"),
    [
        ("layers: norm: layer, 1 batch axes", {"data": 3}),
        ("layers: embedding: 1 batch axes", {"data": 2, "model": 2}),
        ("attention: attention, causal", {"data": 2, "model": 2}),
    ],
    ids=str,
)
def test_blocks_under_random_placements(name: str, mesh: dict[str, int]):
    check_block(name, mesh, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_all_blocks_under_random_placements(name: str, mesh: dict[str, int]):
    check_block(name, mesh, 0)
