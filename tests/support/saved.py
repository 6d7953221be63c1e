"""A small model, and files of its state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

SUFFIXES = pytest.mark.parametrize("suffix", ["safetensors", "npz"])


def model() -> oc.Tensor:
    """Two layers of one path, applied to data."""
    first, second = nn.linear(out_dim=4), nn.linear(out_dim=2)
    return second(oc.tanh(first(oc.data(np.ones((5, 3), np.float32), label="x"))))


def initialized(tensor: oc.Tensor, seed: int = 1) -> oc.Context:
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(tensor, seed=seed)
    return ctx


def bits(ctx: oc.Context, what: oc.Tensor) -> dict[str, bytes]:
    return {name: ctx[entry].tobytes() for name, entry in oc.state(what).items()}


def refused(ctx: oc.Context, file: Path, what: oc.Tensor, **options: object) -> str:
    """The message of an error that changes nothing."""
    before = bits(ctx, what)
    with pytest.raises(oc.StateError) as error:
        ctx.load(file, what, **options)  # pyright: ignore[reportArgumentType]
    assert bits(ctx, what) == before
    return str(error.value)
