"""A character model: a decoder-only transformer reads a text, then writes one like it."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from progress import progress
from terminal_plot import RED

import ocannl as oc
from ocannl import nn, train
from ocannl.train.charts import chart

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

TEXT = Path(__file__).parent.parent / "docs" / "language.md"
CONTEXT = 64
BATCH_SIZE = 16


@dataclass
class Alphabet:
    """The different characters of a text, numbered in their order."""

    characters: list[str]

    @staticmethod
    def of(text: str) -> "Alphabet":
        return Alphabet(sorted(set(text)))

    def ids(self, text: str) -> Ints:
        number = {character: i for i, character in enumerate(self.characters)}
        return np.array([number[character] for character in text], np.int32)


def windows(ids: Ints, batches: int, seed: int) -> Ints:
    """Batches of pieces of the text from random places, each a character longer than the context."""
    starts = np.random.default_rng(seed).integers(0, len(ids) - CONTEXT, (batches, BATCH_SIZE, 1))
    return ids[starts + np.arange(CONTEXT + 1)]


def decoder(characters: int, layers: int, width: int) -> Callable[[oc.Tensor], oc.Tensor]:
    """batch, position | -> batch, position | characters: the scores of what may come next."""
    heads = 4
    embed = nn.embedding(num=characters, dim=width)
    place = nn.learned_positions(num=CONTEXT)
    layer = nn.decoder_only(layers, heads, width // heads, width // heads, 4 * width, activation=nn.gelu)
    score = nn.linear(out_dim=characters, label="score")
    return lambda ids: score(layer(place(embed(ids))))


@dataclass
class Writer:
    """Continues texts with a trained model."""

    alphabet: Alphabet
    context: oc.Context
    read: oc.Tensor
    scores: oc.Tensor
    routine: oc.Routine

    @staticmethod
    def of(alphabet: Alphabet, context: oc.Context, model: Callable[[oc.Tensor], oc.Tensor]) -> "Writer":
        read = oc.data(np.zeros((1, CONTEXT), np.int32), axes="bb", label="read")
        scores = model(read)
        return Writer(alphabet, context, read, scores, context.compile(scores, name="write"))

    def write(self, start: str, length: int, temperature: float, seed: int) -> str:
        rng = np.random.default_rng(seed)
        written = list(self.alphabet.ids(start))
        for _ in range(length):
            seen = written[-CONTEXT:]
            self.context[self.read] = np.array([seen + [0] * (CONTEXT - len(seen))], np.int32)
            self.routine()
            logits = self.context[self.scores][0, len(seen) - 1] / temperature
            chances = np.exp((logits - logits.max()).astype(np.float64))
            written.append(int(rng.choice(len(chances), p=chances / chances.sum())))
        return "".join(self.alphabet.characters[i] for i in written)


@dataclass
class Trained:
    losses: Floats
    writer: Writer

    @property
    def final_loss(self) -> float:
        """The mean over the last tenth of the steps, in nats a character."""
        return float(np.mean(self.losses[-max(1, len(self.losses) // 10) :]))


def train_on(text: str, steps: int, layers: int, width: int, seed: int, plain: bool = True) -> Trained:
    alphabet = Alphabet.of(text)
    pieces = windows(alphabet.ids(text), steps, seed)
    step_n = oc.index("step_n", steps)
    reading = oc.data(pieces[..., :-1], axes="bbb", label="reading")[step_n]
    following = oc.data(pieces[..., 1:], axes="bbb", label="following")[step_n]

    model = decoder(len(alphabet.characters), layers, width)
    loss = nn.cross_entropy(model(reading), following)
    warm = oc.minimum(1.0, (step_n + 1) / 50)
    rate = 3e-3 * warm * (1 - 0.9 * step_n / steps)

    context = oc.Context.auto()
    step = context.compile(train.grad_update(loss) + train.adam_update(loss, learning_rate=rate), name="step")
    context.init_params(loss, seed=seed)
    losses = np.zeros(steps, np.float32)
    with progress(steps, plain) as advance:
        for at in step.loop():
            number = at[step_n]
            losses[number] = float(context[loss])
            advance(f"{losses[number]:.3f} nats a character")
    return Trained(losses, Writer.of(alphabet, context, model))


def main(args: list[str] | None = None) -> Trained:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length", type=int, default=400, help="how many characters to write")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--plain", action="store_true", help="no colours")
    options = parser.parse_args(args)

    text = options.text.read_text()
    trained = train_on(text, options.steps, options.layers, options.width, options.seed, options.plain)
    colour = RED if sys.stdout.isatty() and not options.plain else None
    print(chart("Loss, in nats a character", trained.losses, colour=colour))
    print(trained.writer.write(text[:CONTEXT], options.length, options.temperature, options.seed))
    print(f"loss at last: {trained.final_loss:.3f} nats a character")
    return trained


if __name__ == "__main__":
    main()
