"""More names like those in a file: five models of characters, from pairs of them to a transformer."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

NAMES = Path(__file__).parent / "names.txt"
END, NOTHING = 0, -1
"""The id before and after each name, and that of the places behind."""


@dataclass
class Names:
    """Names as rows of ids: what is read at each place, and what follows it."""

    letters: str
    read: Ints
    follows: Ints

    @staticmethod
    def of(words: list[str]) -> "Names":
        letters = "".join(sorted(set("".join(words))))
        read = np.full((len(words), 1 + max(map(len, words))), END, np.int32)
        follows = np.full(read.shape, NOTHING, np.int32)
        for row, word in enumerate(words):
            ids = [1 + letters.index(letter) for letter in word]
            read[row, 1 : 1 + len(ids)] = ids
            follows[row, : 1 + len(ids)] = [*ids, END]
        return Names(letters, read, follows)

    def text(self, ids: list[int]) -> str:
        return "".join(self.letters[number - 1] for number in ids)


# Each model is ids: batch, position | -> batch, position | scores of what follows.


def bigram(num: int, width: int, places: int) -> nn.Layer:
    """The letter before decides: a table of scores."""
    return nn.embedding(num=num, dim=num, label="bigram")


def mlp(num: int, width: int, places: int) -> nn.TrainingLayer:
    """The last three letters decide (Bengio et al., 2003): a layer over them is a convolution."""
    return over_windows(num, width, lambda x, train_step=None: x)


def batch_norm(num: int, width: int, places: int) -> nn.TrainingLayer:
    """The same, with sums of each feature that are normalized over the batch."""
    return over_windows(num, width, nn.batch_norm1d())


def over_windows(num: int, width: int, norm: nn.TrainingLayer) -> nn.TrainingLayer:
    embed, head = nn.embedding(num=num, dim=10), nn.linear(out_dim=num, label="head")
    window = nn.conv1d(kernel_size=3, padding=[(2, 0)], out_channels=width)
    return lambda x, train_step=None: head(oc.tanh(norm(window(embed(x)), train_step)))


def lstm(num: int, width: int, places: int) -> nn.Layer:
    """A state that has seen all letters before."""
    embed, remember = nn.embedding(num=num, dim=width // 2), nn.lstm(width)
    head = nn.linear(out_dim=num, label="head")
    return lambda ids: head(remember(embed(ids)))


def transformer(num: int, width: int, places: int) -> nn.Layer:
    """Attention to all letters before."""
    embed, place = nn.embedding(num=num, dim=width), nn.learned_positions(num=places)
    layers = nn.decoder_only(2, 4, width // 4, width // 4, 4 * width, activation=nn.gelu)
    head = nn.linear(out_dim=num, label="head")
    return lambda ids: head(layers(place(embed(ids))))


MODELS = {make.__name__: make for make in (bigram, mlp, batch_norm, lstm, transformer)}


@dataclass
class Trained:
    """Losses in nats a letter: of each step, and of names that were not trained on; and new names."""

    losses: list[float]
    validation: float
    written: list[str]


def train_model(name: str, names: Names, steps: int, width: int, rate: float, seed: int) -> Trained:
    oc.seed(seed)
    num, places = 1 + len(names.letters), names.read.shape[1]
    model = oc.Block(MODELS[name](num, width, places))
    keywords = {"train_step": 0} if name in ("mlp", "batch_norm") else {}
    optimizer = train.adamw(train.cosine(rate, total=steps), weight_decay=0.01)

    @oc.function(axes={"read": "bb", "follows": "bb"})
    def step(read, follows):
        loss = nn.cross_entropy(model(read, **keywords), follows, ignore_index=NOTHING)
        optimizer.step(loss)
        return loss

    @oc.function(axes={"read": "bb", "follows": "bb"})
    def evaluate(read, follows):
        return nn.cross_entropy(model(read), follows, ignore_index=NOTHING)

    training, test = slice(None, -len(names.read) // 10), slice(-len(names.read) // 10, None)
    batches = train.batches((names.read[training], names.follows[training]), 32, shuffle=seed, drop_last=True)
    losses = [float(step(*batch)) for _, batch in zip(range(steps), batches.endless(), strict=False)]
    validation = float(evaluate(names.read[test], names.follows[test]))

    @oc.function(axes={"ids": "bb"})
    def score(ids):
        return model(ids)

    return Trained(losses, validation, written(score, names, count=10, seed=seed))


def written(score: Callable[[Ints], Floats], names: Names, count: int, seed: int) -> list[str]:
    """New names, letter by letter, each by its probability."""
    rng, ids = np.random.default_rng(seed), np.full((count, names.read.shape[1]), END, np.int32)
    for place in range(1, ids.shape[1]):
        scores = score(ids)[:, place - 1].astype(np.float64)
        ids[:, place] = (scores + rng.gumbel(size=scores.shape)).argmax(axis=-1)
        ids[ids[:, place - 1] == END, place] = END if place > 1 else ids[:, place]
    return [names.text([number for number in row if number != END]) for row in ids.tolist()]


def main(args: list[str] | None = None) -> dict[str, Trained]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[*MODELS], help=f"of {', '.join(MODELS)}")
    parser.add_argument("--names", type=Path, default=NAMES, help="a file with a name on each line")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args(args)

    words = sorted(set(o.names.read_text().split()))
    names = Names.of([words[number] for number in np.random.default_rng(o.seed).permutation(len(words))])
    found: dict[str, Trained] = {}
    for name in o.models:
        found[name] = trained = train_model(name, names, o.steps, o.width, o.rate, o.seed)
        last = np.mean(trained.losses[-50:])
        print(f"{name}: {last:.3f}, of other names {trained.validation:.3f}: {' '.join(trained.written)}")
    return found


if __name__ == "__main__":
    main()
