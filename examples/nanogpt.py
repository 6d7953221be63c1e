"""A small GPT: trained on a text with everything that training needs, resumed where it was, then sampled."""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ocannl as oc
from ocannl import nn, train

TEXT = Path(__file__).parent.parent / "docs" / "language.md"


class GPT:
    """A decoder whose embedding also gives the scores; ids: batch, position | to scores of what follows."""

    def __init__(self, characters, context, layers, heads, width):
        small = oc.init.normal(std=0.02)
        self.embed = nn.embedding(num=characters, dim=width, init=small, label="embed")
        self.place = nn.learned_positions(num=context, label="place")
        size = width // heads
        self.decode = nn.decoder_only(layers, heads, size, size, 4 * width, activation=nn.gelu)

    def __call__(self, ids):
        return self.embed.w @ self.decode(self.place(self.embed(ids)))


class Trained(NamedTuple):
    losses: list[float]
    validation: float
    text: str
    state: oc.State
    context: oc.Context


def sampled(scores, rng, temperature, top_k, top_p):
    """An id by its scores: one of the `top_k` best, and of the fewest with `top_p` of the probability."""
    order = np.argsort(-scores)[:top_k]
    chances = np.exp((scores[order] - scores[order[0]]) / temperature, dtype=np.float64)
    chances /= chances.sum()
    chances = np.where(np.cumsum(chances) - chances < top_p, chances, 0)
    return int(rng.choice(order, p=chances / chances.sum()))


def main(args=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=TEXT)
    for name, default in (("steps", 1000), ("layers", 4), ("heads", 4), ("width", 128), ("context", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("batch", 16), ("accumulate", 2), ("every", 100), ("length", 400), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=3e-3, help="the highest learning rate")
    parser.add_argument("--runs", type=Path, help="a folder for checkpoints, from which training goes on")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=50)
    parser.add_argument("--top-p", type=float, default=0.95)
    o = parser.parse_args(args)

    text = o.text.read_text()
    letters, updates = sorted(set(text)), o.steps // o.accumulate
    ids = np.array([letters.index(letter) for letter in text], np.int32)
    split = len(ids) * 9 // 10

    def pieces(starts, rng):
        found = ids[starts[:, None] + np.arange(o.context + 1)]
        return found[:, :-1], found[:, 1:]

    def batches(first, last, seed):
        starts = np.arange(first, last - o.context)
        return train.batches(starts, o.batch, shuffle=seed, drop_last=True, augment=pieces)

    ctx = oc.Context.auto()
    oc.seed(o.seed)
    model = GPT(len(letters), o.context, o.layers, o.heads, o.width)
    optimizer = train.adamw(
        train.warmup_cosine(o.rate, warmup=updates // 20 + 1, total=updates + 1, minimum=o.rate / 10),
        betas=(0.9, 0.95),
        weight_decay=0.1,
        groups={"*.b": {"weight_decay": 0.0}, "*norm*": {"weight_decay": 0.0}},
        clip_norm=1.0,
        accumulate=o.accumulate,
    )

    @oc.function(ctx=ctx, axes={"x": "bb", "y": "bb"})
    def step(x, y):
        loss = nn.cross_entropy(model(x), y)
        optimizer.step(loss)
        return loss

    @oc.function(ctx=ctx, axes={"x": "bb", "y": "bb"})
    def evaluate(x, y):
        return nn.cross_entropy(model(x), y)

    score = oc.function(model, ctx, {"ids": "bb"}, name="score")
    data, held_out = batches(0, split, o.seed), list(batches(split, len(ids), o.seed))[:10]
    losses, validation, first = [], float("nan"), 0
    keep = train.Checkpoints(o.runs) if o.runs else None
    if keep and (latest := keep.latest):
        step.lower(*data.first())
        keep.restore(ctx, [step, data])
        first = latest.step
    for number, (x, y) in zip(range(first + 1, o.steps + 1), data.endless(), strict=False):
        losses.append(float(step(x, y)))
        if number % o.every == 0 or number == o.steps:
            validation = float(np.mean([evaluate(*batch) for batch in held_out]))
            print(f"step {number}: {np.mean(losses[-o.every :]):.3f}, of text not seen {validation:.3f}")
            if keep:
                keep.save(ctx, [step, data], step=number, metric=validation)
    rng, written = np.random.default_rng(o.seed), [*ids[: o.context]]
    for _ in range(o.length):
        scores = np.asarray(score(np.array([written[-o.context :]], np.int32)))[0, -1]
        written.append(sampled(scores, rng, o.temperature, o.top_k, o.top_p))
    print(result := "".join(letters[i] for i in written[o.context :]))
    return Trained(losses, validation, result, oc.state(step), ctx)


if __name__ == "__main__":
    main()
