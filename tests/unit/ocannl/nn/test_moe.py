"""Mixtures of experts: against PyTorch, what is dropped, what it costs, and wrong settings."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.nn.check import Case, check_all
from support.nn.experts import CASES, capacity_of, taken

import ocannl as oc
from ocannl import nn, train
from ocannl.nn.experts.expert_buffers import AllTokens, Blocks, block_sizes, without_drops
from ocannl.nn.experts.routing import Routing, route

rng = np.random.default_rng(11)
TOKENS, TARGETS = rng.normal(size=(3, 10, 5)), rng.normal(size=(3, 10, 5))

SETTINGS: dict[str, dict[str, Any]] = {
    "blocks": {"num_experts": 40, "d_ff": 3},
    "dropless": {"num_experts": 4, "d_ff": 7},
    "capacity": {"num_experts": 4, "d_ff": 7, "capacity_factor": 0.8},
    "three of five": {"num_experts": 5, "d_ff": 4, "capacity_factor": 1.0, "top_k": 3},
    "switch": {"num_experts": 6, "d_ff": 4, "capacity_factor": 1.25, "top_k": 1},
}


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@pytest.mark.sampled(2)
@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def trained(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters, and the loss with its gradients."""
    with oc.precision(np.float64):
        x, y = oc.data(TOKENS, axes="bbo", label="x"), oc.data(TARGETS, axes="bbo", label="y")
        found, balance = nn.moe(**settings)(x, balance=True)
        loss = oc.sum((found - y) ** 2) + 0.1 * balance
    ctx = oc.Context.cpu(1)
    params = oc.params(loss)
    step = ctx.compile(train.grad_update(loss) + x.grad.forward + balance.forward)
    ctx.init_params(loss)
    step()
    slopes = {name: ctx[p.grad] for name, p in params.items()}
    values = {"loss": ctx[loss], "balance": ctx[balance], "x": ctx[x.grad]}
    return {name: np.asarray(ctx[p]) for name, p in params.items()}, values | slopes


def by_torch(params: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """All experts for all tokens, by masks of what is taken."""
    torch: Any = pytest.importorskip("torch")
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in params.items()}
    x = torch.tensor(TOKENS, requires_grad=True)
    experts, top_k = settings["num_experts"], settings.get("top_k", 2)
    probs = (x @ leaves["moe.router"].T).softmax(-1)
    capacity = capacity_of(settings.get("capacity_factor"), TOKENS.shape[1], experts, top_k)
    mask, chosen = torch.zeros_like(probs), torch.zeros_like(probs)
    for group, own in enumerate(probs.detach().numpy()):
        for _, token, expert in taken(own, top_k, capacity):
            mask[group, token, expert] = 1
        for _, token, expert in taken(own, top_k, None):
            chosen[group, token, expert] = 1
    gates = probs / (probs * chosen).sum(-1, keepdim=True) if top_k > 1 else probs
    hidden = torch.einsum("ehm,gsm->gseh", leaves["moe.w_in"], x).relu()
    given = torch.einsum("emh,gseh->gsem", leaves["moe.w_out"], hidden)
    found = ((gates * mask)[..., None] * given).sum(2)
    shares = chosen.sum((0, 1)) / chosen.sum()
    balance = experts * (shares * probs.mean((0, 1))).sum()
    loss = ((found - torch.tensor(TARGETS)) ** 2).sum() + 0.1 * balance
    loss.backward()
    values = {"loss": loss.detach(), "balance": balance.detach(), "x": x.grad}
    return values | {name: leaf.grad for name, leaf in leaves.items()}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
def test_values_and_gradients_are_those_of_torch(settings: dict[str, Any]):
    params, found = trained(settings)
    wanted = by_torch(params, settings)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value.numpy(), rtol=1e-12, atol=1e-12, err_msg=name)


def test_choices_that_come_late_are_dropped():
    """Two experts with a place each; both tokens prefer the first expert."""
    x = oc.data(np.array([[1.0, 0.0], [2.0, 0.0]]), axes="bo", label="x")
    with oc.precision(np.float64):
        found = nn.moe(num_experts=2, d_ff=2, top_k=1, capacity_factor=1.0)(x) + 0 * x
    ctx = oc.Context.cpu(1)
    step = ctx.compile(found.forward)
    router, w_in, w_out = (oc.params(found)[f"moe.{name}"] for name in ("router", "w_in", "w_out"))
    ctx.init_params(found)
    ctx[router] = np.array([[1.0, 0.0], [0.0, 0.0]])
    ctx[w_in] = ctx[w_out] = np.stack([np.eye(2)] * 2)
    step()
    gate = np.e / (1 + np.e)
    np.testing.assert_allclose(ctx[found], [[gate, 0.0], [0.0, 0.0]], rtol=1e-15)


@pytest.mark.exhaustive
def test_dropless_ways_are_the_same():
    x = oc.data(TOKENS[0], axes="bo", label="x")
    with oc.precision(np.float64):
        router = oc.param("router", rng.normal(size=(6, 5)))
        w = oc.param("w", rng.normal(size=(6, 4, 5)), batch=6, output=4, input=5)
        routing = route(x, router, 6, 2, normalize=True)
        ways = [Blocks.of(routing), AllTokens(routing, None)]
        first, second = (way.combined(way.applied(w, None, way.dispatched(x))) for way in ways)
    ctx = oc.Context.cpu(1)
    step = ctx.compile(oc.forward(first) + oc.forward(second))
    ctx.init_params(first)
    step()
    np.testing.assert_allclose(ctx[first], ctx[second], rtol=1e-12)


@pytest.mark.parametrize("tokens", [1, 7, 64, 1000])
@pytest.mark.parametrize(("experts", "top_k"), [(1, 1), (8, 2), (64, 2), (64, 8)])
def test_blocks_have_room_for_all_choices(tokens: int, experts: int, top_k: int):
    """However they are shared."""
    routing = routing_of(tokens, experts, top_k)
    rows, count = block_sizes(routing)
    assert count <= 2 * experts or rows == 1
    choices = tokens * top_k
    shares = [np.eye(experts)[0], np.ones(experts)]
    shares += [rng.dirichlet(np.full(experts, alpha)) for alpha in (0.01, 0.1, 1.0, 10.0) for _ in range(20)]
    for share in shares:
        counts = rng.multinomial(choices, share / np.sum(share))
        assert sum(-(-int(own) // rows) for own in counts) <= count


def routing_of(tokens: int, experts: int, top_k: int) -> Routing:
    x = oc.data(np.zeros((tokens, 2)), axes="bo")
    return route(x, oc.param("r", output=experts), experts, top_k, normalize=False)


def test_few_tokens_read_the_weights_of_their_experts_alone():
    routing = routing_of(1, 8, 2)
    assert isinstance(without_drops(routing, None, is_divided=False), Blocks)
    assert isinstance(without_drops(routing, "data", is_divided=True), AllTokens)


@pytest.mark.exhaustive
def test_tokens_are_moved_in_as_many_steps_as_there_are_choices():
    """No nest goes through all experts, or all of their places, for each token."""
    x = oc.data(rng.normal(size=(64, 16)).astype(np.float32), axes="bo", label="x")
    y = nn.moe(num_experts=8, d_ff=32, capacity_factor=1.0)(x) + 0 * x
    text = train.grad_update(oc.sum(y * y)).ir("loops")
    nests = dict(re.findall(r'loops.nest "(.*?)" \((.*?)\)', text))
    moving = [space for name, space in nests.items() if "dispatched" in name or "gather" in name]
    assert any("scatter" in name for name in nests)
    for space in moving:
        sizes = [int(size) for size in re.findall(r"= (\d+)", space)]
        assert np.prod(sizes) <= 64 * 2 * 16, space


def test_groups_have_capacities_of_their_own():
    x = oc.data(TOKENS, axes="bbo", label="x")
    apart = oc.data(TOKENS.reshape(6, 5, 5), axes="bbo", label="apart")
    with oc.precision(np.float64):
        whole, parts = (
            nn.moe(num_experts=4, d_ff=3, capacity_factor=0.5, groups=groups)(tokens) + 0 * tokens
            for groups, tokens in ((2, x), (1, apart))
        )
    ctx = oc.Context.cpu(1)
    step = ctx.compile(oc.forward(whole) + oc.forward(parts))
    ctx.init_params(oc.sum(whole) + oc.sum(parts))
    for own, other in zip(oc.params(whole).values(), oc.params(parts).values(), strict=True):
        ctx[other] = ctx[own]
    step()
    np.testing.assert_array_equal(ctx[whole].ravel(), ctx[parts].ravel())


def test_balance_of_equal_shares_is_one():
    x = oc.data(np.eye(4), axes="bo", label="x")
    with oc.precision(np.float64):
        _, balance = nn.moe(num_experts=4, d_ff=2, top_k=1)(x, balance=True)
    ctx = oc.Context.cpu(1)
    step = ctx.compile(balance.forward)
    ctx.init_params(balance)
    ctx[oc.params(balance)["moe.router"]] = 3 * np.eye(4)
    step()
    assert float(ctx[balance]) == pytest.approx(1, rel=1e-15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_experts": 0}, "num_experts is at least 1, found 0"),
        ({"top_k": 5}, "a token has at most 4 experts, found top_k=5"),
        ({"top_k": 0}, "top_k is at least 1, found 0"),
        ({"d_ff": 0}, "d_ff is at least 1, found 0"),
        ({"capacity_factor": 0.0}, "capacity_factor is more than 0"),
        ({"capacity_factor": float("nan")}, "capacity_factor is not negative"),
        ({"groups": 0}, "groups is at least 1, found 0"),
        ({"groups": 3}, "10 tokens are no 3 groups of one size"),
        ({"shard": {"output": "data"}}, 'by shard={"experts": "data"}'),
        ({"shard": "data"}, 'by shard={"experts": "data"}'),
        ({"shard": {"experts": 1}}, "an axis of a mesh has a name, found 1"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str):
    given: dict[str, Any] = {"num_experts": 4, "d_ff": 3, **settings}
    with pytest.raises(oc.ArgumentError, match=re.escape(message)):
        nn.moe(**given)(oc.data(TOKENS, axes="bbo"))


def test_tokens_are_an_axis():
    with pytest.raises(oc.ShapeError, match=r"test_moe.py:\d+: tokens are the last batch axis, and `x`"):
        nn.moe(num_experts=4, d_ff=3)(oc.data(TOKENS[0, 0], label="x"))


def test_tokens_behind_a_layer_of_open_rows():
    """Their number follows from what is known now."""
    hidden = nn.linear(out_dim=5)(oc.data(TOKENS, axes="bbo"))
    y = nn.moe(num_experts=4, d_ff=3, capacity_factor=1.0)(hidden) + 0 * hidden
    oc.infer(y)
    assert y.shape.array == (3, 10, 5)


@pytest.mark.parametrize(
    ("block", "axes"),
    [
        (lambda: nn.moe(num_experts=4, d_ff=8), "bbo"),
        (lambda: nn.linear(), "bbo"),
        (lambda: nn.conv1d(), "bbo"),
    ],
)
def test_a_result_that_nothing_sizes_is_told_of_the_argument(block: Any, axes: str):
    with pytest.raises(oc.ShapeError, match=r"as in out_dim=16 of a block, out_channels=16"):
        oc.Context.cpu().init_params(block()(oc.data(TOKENS, axes=axes)))
