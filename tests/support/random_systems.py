"""Random programs that run alone: on meshes and in stages against one device, layers with caches against all
positions at once, weights of few bits against their numbers, kernels on an emulated GPU against NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train
from ocannl.runtime.cuda.ptx import DEFAULT_ARCH

from .random_arithmetic import features
from .random_features import Features
from .random_routines import COUNT, Routine
from .random_updates import updates

Array = NDArray[Any]
TIMEOUT = 300.0
"""Seconds that ranks wait for each other; other processes may take the machine's time."""


class Model:
    """Layers and sizes by chance, built anew for each context."""

    def __init__(self, chance: Generator, stages: int = 0) -> None:
        self.stages = stages
        self.rows = int(chance.integers(1, 5)) * 4 if stages else int(chance.integers(2, 14))
        self.features, self.out = (int(n) for n in chance.integers(1, 7, 2))
        self.positions = int(chance.integers(0, 5))
        self.kinds = [int(k) for k in chance.integers(0, 6, stages or chance.integers(1, 4))]
        self.width = 2 * int(chance.integers(1, 5))
        self.update, self.seed = int(chance.integers(3)), int(chance.integers(100))
        self.clips = bool(chance.random() < 0.2)
        shape = (self.rows, *[self.positions] * bool(self.positions))
        self.x, self.y = chance.normal(size=(*shape, self.features)), chance.normal(size=(*shape, self.out))

    def layer(self, kind: int, number: int, h: oc.Tensor, placed: Any) -> oc.Tensor:
        own = f"layer{number}"
        match kind:
            case 0:
                return nn.mlp_layer(hid_dim=self.width, label=own)(h)
            case 1:
                return oc.tanh(nn.layer_norm(label=own)(nn.linear(out_dim=self.width, label=f"{own}.in")(h)))
            case 2 if self.positions:
                attention = nn.multi_head_attention(num_heads=2, d_k=3, d_v=2, out_dim=self.width, label=own)
                return attention(h)
            case 3 if self.positions:
                return nn.gru(self.width, label=own)(h)
            case 4:
                w = oc.param(f"{own}.w", output=self.width, shard=placed)
                return oc.sin(w @ h) * oc.sigmoid(oc.param(f"{own}.b", output=self.width))
            case _:
                return nn.softmax(spec="... | ... -> ..., d")(nn.linear(out_dim=self.width, label=own)(h))

    def run(self, ctx: oc.Context, shard: Any, placed: Any = None) -> Mapping[str, Array]:
        """Losses, parameters and a value after three steps."""
        axes = "b" * (self.x.ndim - 1) + "o"
        x, y = (oc.data(a, axes=axes, label=n, shard=shard) for a, n in ((self.x, "x"), (self.y, "y")))
        h = x
        for number, kind in enumerate(self.kinds):
            if self.stages:
                with oc.stage(number):
                    h = self.layer(kind, number, h, None)
            else:
                h = self.layer(kind, number, h, placed)
        loss = nn.mse(nn.linear(out_dim=self.out, label="head")(h), y).named("loss")
        code = train.grad_update(loss)
        if self.clips:
            code += train.clip_grad_norm(loss, 0.3)
        code += (
            train.sgd_update(loss, learning_rate=0.05),
            train.sgd_update(loss, learning_rate=0.05, momentum=0.9),
            train.adam_update(loss, learning_rate=0.01),
        )[self.update]
        step = ctx.compile(code, name="step")
        ctx.init_params(loss, seed=self.seed)
        losses: list[float] = []
        for _ in range(2):
            step()
            losses.append(float(ctx[loss]))
        step.run_loop(epochs=1)
        return {"losses": np.array([*losses, float(ctx[loss])])} | {
            name: ctx[param] for name, param in oc.params(loss).items()
        }


def equal(found: Mapping[str, Array], wanted: Mapping[str, Array], tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


def mesh(chance: Generator) -> None:
    """Ranks as threads: rows of data over one axis, weights now and then over another one, or the same."""
    model = Model(chance)
    axes = ({"data": 2}, {"data": 3}, {"data": 4}, {"data": 2, "model": 2})[chance.integers(4)]
    placed = (None, {"input": "data"}, {"output": "data"})[chance.integers(3)]
    if "model" in axes:
        placed = {"output": "model"}
    ctx = oc.Context.cpu(mesh=oc.Mesh(axes, engine="threads", timeout=TIMEOUT))
    with oc.precision("float64"):
        equal(model.run(ctx, {"batch": "data"}, placed), model.run(oc.Context.cpu(1), None), 1e-9)


def staged(chance: Generator) -> None:
    """Stages and microbatches, with two ranks a stage or one."""
    stages = int(chance.choice([2, 2, 3]))
    model = Model(chance, stages)
    most = [m for m in (1, 2, 4) if model.rows % m == 0]
    own = oc.Mesh({"stage": stages}, microbatches=int(chance.choice(most)), engine="threads", timeout=TIMEOUT)
    with oc.precision("float64"):
        found = model.run(oc.Context.cpu(mesh=own), {"batch": "microbatch"})
        equal(found, model.run(oc.Context.cpu(1), None), 1e-9)


def cached(chance: Generator) -> None:
    """Attention to what a cache holds, in parts by chance, against NumPy's to all positions."""
    heads, groups, size, out, total = 2 * int(chance.integers(1, 3)), 2, 4, 6, int(chance.integers(2, 14))
    batch = int(chance.integers(1, 4))
    ends = np.unique(chance.integers(1, total, chance.integers(0, 5))) if total > 1 else np.array([], int)
    x = chance.normal(size=(batch, total, 8)).astype(np.float32)
    ctx = oc.Context.cpu(threads=int(chance.integers(1, 3)))
    how: dict[str, Any] = {"pos_embed": nn.rotary() if chance.random() < 0.5 else None}
    how |= {"num_heads": heads, "num_kv_heads": groups, "d_k": size, "d_v": size, "out_dim": out}
    how |= {"init": oc.init.normal(std=0.5)}
    is_paged = bool(chance.integers(2))
    if is_paged:
        page = int(chance.integers(1, 5))
        needed = -(-total // page)
        cache: Any = nn.paged_cache(length=total, pages=needed * batch + 1, page_size=page)
        cache.set_tables(ctx, [chance.permutation(cache.take(needed)).tolist() for _ in range(batch)])
    else:
        cache = nn.kv_cache(length=total + int(chance.integers(3)))
    kept, plain = nn.multi_head_attention(cache=cache, **how), nn.multi_head_attention(**how)
    wanted = oc.function(lambda x: plain(x, nn.causal_mask()), ctx)(x)
    step = oc.function(lambda x: kept(x), ctx)
    found = np.concatenate([step(part) for part in np.split(x, ends, 1)], 1)
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def windowed(chance: Generator) -> None:
    """A cache of a sliding window, one or more positions at a time, against NumPy."""
    window, most = int(chance.integers(1, 6)), int(chance.integers(1, 5))
    total = int(chance.integers(window, 16))
    keys = chance.normal(size=(2, total, 1, 4)).astype(np.float32)
    cache = nn.kv_cache(length=32, at_once=most)
    ctx = oc.Context.cpu(1)
    step = oc.function(
        lambda k, at: nn.dot_product_attention(k, *cache.at(at).extended("block", k, 2 * k, window)),
        ctx,
        {"k": "bboo", "at": "b"},
    )
    found: list[Array] = []
    at = 0
    while at < total:
        count = min(int(chance.integers(1, most + 1)), total - at)
        found.append(step(keys[:, at : at + count], np.array([at, at], np.int32)))
        at += count
    k = keys[:, :, 0].astype(np.float64)
    place = np.arange(total)
    seen = (place <= place[:, None]) & (place > place[:, None] - window)
    chances = np.where(seen, np.exp(k @ k.transpose(0, 2, 1) / 2), 0)
    wanted = chances / chances.sum(-1, keepdims=True) @ (2 * k)
    np.testing.assert_allclose(np.concatenate(found, 1)[:, :, 0], wanted, rtol=2e-4, atol=2e-5)


def quantized(chance: Generator) -> None:
    """Products with weights of few bits, against their numbers as a table of embeddings gives them."""
    kind = ("q8_0", "q4_k", "int8")[chance.integers(3)]
    target = (None, "x86-64-v3", "x86-64-v2")[chance.integers(3)]
    block = {"q8_0": 32, "q4_k": 256, "int8": 1}[kind]
    inputs = block * int(chance.integers(1, 5)) if block > 1 else int(chance.integers(1, 130))
    outputs, rows = int(chance.integers(1, 70)), int(chance.choice([1, 1, 2, 3, 8, 17]))
    weights = chance.normal(size=(outputs, inputs)).astype(np.float32)
    weights[chance.integers(outputs)] *= float(chance.choice([0.0, 1e-3, 100.0]))
    ctx = oc.Context.cpu(threads=int(chance.integers(1, 3)), target=target)
    layer, table = (
        nn.linear(in_dim=inputs, out_dim=outputs, bias=False),
        nn.embedding(num=outputs, dim=inputs),
    )
    rounds = "int8" if chance.random() < 0.4 else None
    x = chance.normal(size=(rows, inputs)).astype(np.float32)
    with ctx:
        ctx[layer.w], ctx[table.w] = weights, weights
        small = nn.quantized(layer, kind, activations=rounds)
        numbers = oc.function(nn.quantized(table, kind), ctx, axes={"ids": "b"})(np.arange(outputs))
        found = oc.function(small, ctx, axes={"x": "bo"})(x)
    error = np.abs(numbers - weights).max(1, keepdims=True)
    assert (error <= np.abs(weights).max(1, keepdims=True) * (0.1 if kind == "q4_k" else 0.005)).all()
    terms = np.abs(x.astype(np.float64)) @ np.abs(numbers.T.astype(np.float64))
    np.testing.assert_array_less(
        np.abs(found - x.astype(np.float64) @ numbers.T.astype(np.float64)),
        terms * (0.03 if rounds else 1e-5) + 1e-6,
    )


def emulated(chance: Generator) -> None:
    """Random features on a GPU that is emulated, with each access and data race checked."""
    arch = str(chance.choice(["sm_80", DEFAULT_ARCH, "sm_90a"]))
    ctx = oc.Context.emulated_gpu(check=True, shuffle=int(chance.integers(9)), arch=arch)
    with oc.code("random") as code:
        makers = (lambda: features(chance), lambda: Features(chance).some(1), lambda: updates(chance, 1))
        kind = chance.choice(3, p=(0.35, 0.5, 0.15))
        found = makers[kind]()
        # Updates have computed theirs, from memory as it was before them.
        for feature in found if kind < 2 else ():
            oc.run(oc.forward(feature.value))
    step = ctx.compile(code)
    ctx.init_params(code)
    step()
    for feature in found:
        feature.check(ctx[feature.value])


def emulated_routine(chance: Generator) -> None:
    """A random routine on a GPU that is emulated."""
    routine(chance, oc.Context.emulated_gpu(check=True, shuffle=int(chance.integers(9))), None)


def split_routine(chance: Generator) -> None:
    """A random routine whose data are split over ranks as threads, along any axes."""
    ranks = int(chance.choice([2, 2, 3]))
    own = oc.Mesh({"data": ranks}, engine="threads", timeout=TIMEOUT)
    routine(chance, oc.Context.cpu(mesh=own), "data")


def routine(chance: Generator, ctx: oc.Context, split: str | None) -> None:
    """Runs a random routine; where ids are outside, what follows from these is not compared."""
    i = oc.index("i", COUNT)
    with oc.code("random") as code:
        known = Routine(chance, split).statements(i)
    step = ctx.compile(code)
    try:
        step(i=0)
        step.run_loop(epochs=2)
    except oc.OcannlError as error:
        if "is outside of 0 to" not in str(error):
            raise
        known = known[1:]
    for one in known:
        one.check(ctx[one.tensor])


SYSTEMS = (
    *(mesh, staged, cached, windowed, quantized, quantized),
    *(emulated, emulated, emulated_routine, emulated_routine, split_routine, split_routine, split_routine),
)


def run(chance: Generator) -> str:
    """Runs one; gives its name."""
    system = SYSTEMS[chance.integers(len(SYSTEMS))]
    system(chance)
    return system.__name__
