"""`python -m ocannl.models.finetune FOLDER TEXT --out adapters.safetensors`: trains adapters of low rank
(`nn.lora`) of a model's attention on a text.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ocannl as oc
from ocannl import nn, train
from ocannl.execute.files.array_files import open_arrays, write_arrays
from ocannl.models.loading import load
from ocannl.models.tokens import tokenizer_of

LAYERS = "*attend*"


def with_adapters(model: oc.Block[..., Any], path: Path) -> oc.Block[..., Any]:
    """The model with the adapters of a file."""
    stored = open_arrays(path).arrays
    ranks = {array.shape[0] for name, array in stored.items() if name.endswith(".down")}
    if len(ranks) != 1:
        raise oc.StateError(f"{path} has no adapters of one rank")
    adapted = nn.lora(model, rank=ranks.pop(), only=LAYERS)
    oc.default_context().load(path, adapted, partial=True)
    return adapted


def text_of(path: Path) -> str:
    """The text of a file. Raises `OcannlError` where it has none."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise oc.OcannlError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise oc.OcannlError(f"{path} is no text in UTF-8") from None


def main(args: Sequence[str] | None = None) -> list[float]:
    """Trains and saves; gives the losses."""
    parser = ArgumentParser(prog="python -m ocannl.models.finetune", description=__doc__)
    parser.add_argument("folder", type=Path, help="config.json, tokenizer.json and *.safetensors")
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a *.safetensors file for the adapters")
    for name, default in (("steps", 100), ("batch", 4), ("length", 128), ("rank", 8), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=1e-4, help="the learning rate")
    o = parser.parse_args(args)
    for name in ("steps", "batch", "length"):
        if getattr(o, name) < 1:
            raise oc.ArgumentError(f"--{name} is at least 1, found {getattr(o, name)}")
    if not o.out.parent.is_dir():
        raise oc.OcannlError(f"cannot write {o.out}: there is no folder {o.out.parent}")
    ids = np.array(tokenizer_of(o.folder).encode(text_of(o.text)).ids, np.int32)
    if len(ids) <= o.length:
        raise oc.ArgumentError(f"a text of {len(ids)} tokens is too short for pieces of {o.length}")
    oc.seed(o.seed)
    whole = load(o.folder)
    if whole.context is not None and o.length > whole.context:
        raise oc.ArgumentError(f"pieces of {o.length} tokens are more than its {whole.context} positions")
    model = nn.lora(whole, rank=o.rank, only=LAYERS)
    optimizer = train.adamw(o.rate, clip_norm=1.0)

    @oc.function(axes={"x": "bb", "y": "bb"})
    def step(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
        loss = nn.cross_entropy(model(x), y)
        optimizer.step(loss)
        return loss

    rng, losses = np.random.default_rng(o.seed), list[float]()
    for number in range(1, o.steps + 1):
        pieces = ids[rng.integers(len(ids) - o.length, size=(o.batch, 1)) + np.arange(o.length + 1)]
        losses.append(float(step(pieces[:, :-1], pieces[:, 1:])))
        if number % 10 == 0 or number == o.steps:
            print(f"step {number}: {np.mean(losses[-10:]):.3f}")
    ctx = oc.default_context()
    kept = {name: np.asarray(ctx[p]) for name, p in model.params.items() if name.endswith((".down", ".up"))}
    write_arrays(o.out, kept, {})
    return losses


if __name__ == "__main__":
    try:
        main()
    except oc.OcannlError as error:
        sys.exit(str(error))
