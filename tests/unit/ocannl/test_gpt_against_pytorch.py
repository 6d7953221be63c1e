"""The GPT of the examples against one of PyTorch: equal weights and batches give equal losses."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import nanogpt
import numpy as np
import pytest
from nanogpt import GPT

import ocannl as oc
from ocannl import nn, train

CHARACTERS, CONTEXT, LAYERS, HEADS, WIDTH, BATCH = 31, 16, 2, 2, 32, 4
PARTS = {
    "ln_1": "first.norm",
    "ln_2": "second.norm",
    "attn": "attend",
    "c_fc": "feed.into",
    "c_proj": "feed.out",
}
NAMES = {f"h.{k}.{theirs}": f"layers.{k}.{ours}" for k in range(LAYERS) for theirs, ours in PARTS.items()}


def model_of_pytorch(torch: Any) -> Any:
    """The model of nanoGPT, with biases where that of the example has them."""

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.attn = torch.nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True)
            self.c_fc, self.c_proj = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            h, mask = self.ln_1(x), torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            x = x + self.attn(h, h, h, attn_mask=mask, is_causal=True, need_weights=False)[0]
            return x + self.c_proj(torch.nn.functional.gelu(self.c_fc(self.ln_2(x))))

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte = torch.nn.Embedding(CHARACTERS, WIDTH)
            self.wpe = torch.nn.Embedding(CONTEXT, WIDTH)
            self.h = torch.nn.ModuleList([Block() for _ in range(LAYERS)])
            self.ln_f = torch.nn.LayerNorm(WIDTH)

        def forward(self, ids: Any) -> Any:
            x = self.wte(ids) + self.wpe.weight
            for block in self.h:
                x = block(x)
            return self.ln_f(x) @ self.wte.weight.T

    torch.manual_seed(1)
    return Model()


def losses_of_pytorch(torch: Any, model: Any, batches: Any, steps: int) -> list[float]:
    """As nanoGPT trains: decay of matrices only, warmup and cosine, clipping, two batches a step."""
    matrices, others = ([p for p in model.parameters() if (p.ndim > 1) is wanted] for wanted in (True, False))
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        betas=(0.9, 0.95),
    )
    found: list[float] = []
    for step in range(steps):
        rate = (
            0.003 * (step + 1) / 21
            if step < 20
            else 0.0003 + 0.0027 * 0.5 * (1 + math.cos(math.pi * (step - 20) / (steps - 20)))
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        for _ in range(2):
            x, y = (torch.tensor(ids, dtype=torch.int64) for ids in next(batches))
            loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            (loss / 2).backward()
            found.append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return found


def batches() -> Any:
    """Sequences in which most is determined by what comes before."""
    ids = np.cumsum(np.arange(2000) % 7 * (np.arange(2000) % 3 + 1)) % CHARACTERS

    def pieces(starts: Any, rng: np.random.Generator) -> Any:
        found = ids[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int32)
        return found[:, :-1], found[:, 1:]

    starts = np.arange(len(ids) - CONTEXT)
    return train.batches(starts, BATCH, shuffle=1, drop_last=True, augment=pieces, prefetch=0).endless()


def losses_here(weights: Any, steps: int) -> list[float]:
    model, ctx = GPT(CHARACTERS, CONTEXT, LAYERS, HEADS, WIDTH), oc.Context.cpu(threads=1)
    layers = {n: w for n, w in weights.items() if n.startswith(("h.", "ln_f."))}
    oc.interop.from_torch(ctx, model.decode, layers, map={**NAMES, "ln_f": "last"})
    oc.interop.from_torch(ctx, model.embed, {"weight": weights["wte.weight"]})
    oc.interop.from_torch(ctx, model.place, {"weight": weights["wpe.weight"]})
    optimizer = train.adamw(
        train.warmup_cosine(0.003, warmup=20, total=steps, minimum=0.0003),
        betas=(0.9, 0.95),
        weight_decay=0.1,
        groups={"*.b": {"weight_decay": 0.0}, "*norm*": {"weight_decay": 0.0}},
        clip_norm=1.0,
        accumulate=2,
    )

    @oc.function(ctx=ctx, axes={"x": "bb", "y": "bb"})
    def step(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
        loss = nn.cross_entropy(model(x), y)
        optimizer.step(loss)
        return loss

    given = batches()
    return [float(step(*next(given))) for _ in range(2 * steps)]


def test_losses_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    model, steps = model_of_pytorch(torch), 100
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    wanted = losses_of_pytorch(torch, model, batches(), steps)
    found = losses_here(weights, steps)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert wanted[-1] < wanted[0] / 4


def lines_from(function: Any, first: str) -> int:
    """How many lines of code a function has from one on."""
    lines = [line.strip() for line in inspect.getsource(function).splitlines()]
    start = next(at for at, line in enumerate(lines) if line.startswith(first))
    return sum(bool(line) for line in lines[start:])


def test_the_loop_is_no_longer_than_that_of_pytorch():
    """From the optimizer on, formatted alike; the whole example, with sampling and checkpoints, is short."""
    assert lines_from(losses_here, "optimizer = ") <= lines_from(losses_of_pytorch, "matrices, others = ")
    assert len(Path(nanogpt.__file__).read_text().splitlines()) < 120
