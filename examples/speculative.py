"""Speculative decoding: a small model writes some ids ahead, and a large one reads all of them at once.

What is kept has the distribution of the large model alone; of its best ids, it is these ids.
Source: Leviathan et al., "Fast inference from transformers via speculative decoding", 2023.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn
from ocannl.models.tokens import tokenizer_of

Chances: TypeAlias = NDArray[np.float32]
Model: TypeAlias = Callable[..., oc.Tensor]


class Reader:
    """A model that reads the ids of one sequence, any number of them at once, from any position on."""

    def __init__(self, model: Model, length: int, temperature: float) -> None:
        cache = nn.kv_cache(length=length)

        def read(ids: oc.Tensor, start: oc.Tensor) -> oc.Tensor:
            scores = model(ids, cache=cache.at(start))
            return nn.softmax()(scores / temperature) if temperature else scores

        self.read = oc.function(read, axes={"ids": "bb", "start": ""})
        self.is_greedy = not temperature

    def chances(self, ids: Sequence[int], start: int) -> Chances:
        """Those of the ids after each one that is read: position, id. What came before `start` was read; what
        was read from there on is forgotten.
        """
        found = self.read(np.array([ids], np.int32), np.int32(start))[0]
        return np.eye(found.shape[1], dtype=np.float32)[found.argmax(1)] if self.is_greedy else found


class Written(NamedTuple):
    """A sequence, and how often the large model read."""

    ids: list[int]
    steps: int


def speculate(
    model: Model,
    draft: Model,
    ids: Sequence[int],
    max_new: int,
    *,
    ahead: int = 4,
    temperature: float = 0.0,
    seed: int = 0,
) -> Written:
    """Ids, and `max_new` that follow. At each step the draft writes `ahead` ids; of these the first ones are
    kept, and one of the model's own follows.
    """
    written, steps, rng = [*ids], 0, np.random.default_rng(seed)
    end = len(written) + max_new
    large, small = (Reader(each, end + ahead + 1, temperature) for each in (model, draft))
    if len(written) > 1:
        large.chances(written[:-1], 0)
        small.chances(written[:-1], 0)
    while len(written) < end:
        at, drafted, guesses = len(written) - 1, written[-1:], list[Chances]()
        for place in range(ahead):
            guesses.append(small.chances(drafted[-1:], at + place)[0])
            drafted.append(int(rng.choice(len(guesses[-1]), p=exact(guesses[-1]))))
        # The draft has to have read its last id, too, when all are kept.
        small.chances(drafted[-1:], at + ahead)
        written += kept(drafted[1:], guesses, large.chances(drafted, at), rng)
        steps += 1
    return Written(written[:end], steps)


def kept(
    drafted: Sequence[int], guesses: Sequence[Chances], chances: Chances, rng: np.random.Generator
) -> list[int]:
    """The first drafted ids, each with the chance that makes it as frequent as the model alone would, and one
    more: in place of the first that is not kept, or after all.
    """
    for place, (id, guess) in enumerate(zip(drafted, guesses, strict=True)):
        if rng.random() * guess[id] >= chances[place, id]:
            rest = np.maximum(chances[place] - guess, 0)
            return [*drafted[:place], int(rng.choice(len(rest), p=exact(rest)))]
    return [*drafted, int(rng.choice(chances.shape[1], p=exact(chances[-1])))]


def exact(weights: Chances) -> NDArray[np.float64]:
    """Weights that sum to 1 in f64."""
    wide = weights.astype(np.float64)
    return wide / wide.sum()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("model", type=Path, help="the folder of a model with its tokenizer")
    parser.add_argument("draft", type=Path, help="that of a smaller one with the same ids")
    parser.add_argument("prompt")
    parser.add_argument("--max-new", type=int, default=64)
    parser.add_argument("--ahead", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=0.0)
    given = parser.parse_args(arguments)
    tokenizer = tokenizer_of(given.model)
    model, draft = oc.models.load(given.model), oc.models.load(given.draft)
    found = speculate(
        model,
        draft,
        tokenizer.encode(given.prompt).ids,
        given.max_new,
        ahead=given.ahead,
        temperature=given.temperature,
    )
    print(tokenizer.decode(found.ids))
    print(f"{given.max_new} ids in {found.steps} steps")


if __name__ == "__main__":
    main()
