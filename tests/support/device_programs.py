"""Programs that train on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Array = NDArray[Any]


def close(found: Array, wanted: Array, tolerance: float, what: str) -> None:
    scale = float(np.max(np.abs(wanted), initial=1))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def moons() -> tuple[oc.Tensor, oc.Code, oc.Index]:
    rng = np.random.default_rng(0)
    batch_n, step_n = oc.index("batch_n", 8), oc.index("step_n")
    xs = oc.data(rng.standard_normal((8, 10, 2)).astype(np.float32), label="moons")
    classes = oc.data(np.sign(rng.standard_normal((8, 10, 1))).astype(np.float32), label="classes")
    margin = oc.relu(1 - classes[batch_n] * nn.mlp(hid_dims=[16, 16], out_dim=1)(xs[batch_n]))
    loss = (margin.einsum("...|... => 0") / 10).named("loss")
    rate = 0.1 * (80 - step_n) / 80
    update = train.sgd_update(loss, learning_rate=rate, weight_decay=1e-4)
    return loss, train.grad_update(loss) + update, step_n


def train_moons(ctx: oc.Context) -> Array:
    loss, code, step_n = moons()
    step = ctx.compile(code, name="step")
    ctx.init_params(loss, seed=3)
    return step.run_loop(epochs=3, advance=[step_n], record=[loss])[loss]


def train_decoder(ctx: oc.Context) -> dict[str, Array]:
    """Three steps of a language model: embeddings, attention, norms and the losses of tokens."""
    rng = np.random.default_rng(0)
    ids, following = (oc.data(rng.integers(0, 33, (2, 16)), axes="bb", label=n) for n in ("ids", "next"))
    model = nn.decoder_only(num_layers=1, num_heads=2, d_k=16, d_v=16, d_ff=64)
    hidden = model(nn.embedding(num=33, dim=32)(ids), mask=nn.causal_mask(16))
    loss = nn.cross_entropy(nn.linear(out_dim=33)(hidden), following)
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss, seed=3)
    for _ in range(3):
        step()
    params = oc.params(loss)
    found = {name: ctx[p] for name, p in params.items()} | {
        f"{n}.grad": ctx[p.grad] for n, p in params.items()
    }
    return {"loss": ctx[loss], **found}


def counted() -> tuple[oc.Tensor, oc.Index, oc.Context, oc.Routine]:
    """Three kernels: of an index with a range, of one without, of none."""
    i, n = oc.index("i", 3), oc.index("n")
    x = oc.data(np.arange(15, dtype=np.float32).reshape(3, 5), label="x")
    total, count, runs = oc.node("total", output=5), oc.node("count", output=1), oc.node("runs", output=2)
    code = oc.accumulate(total, "add", x[i], spec="o => o") + oc.accumulate(count, "add", n, spec="=> 0")
    code += oc.accumulate(runs, "add", oc.constant(1.0), spec="=> o")
    ctx = oc.Context.cuda()
    return total, n, ctx, ctx.compile(code, name="step")
