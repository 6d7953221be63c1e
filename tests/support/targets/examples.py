"""The first steps of each example program, with fewer data, on a device of the test's."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from tempfile import TemporaryDirectory
from typing import Any

import char_lm
import cifar
import digits
import lenet_digits
import makemore
import moons
import nanogpt
import numpy as np
import pinn
import pytest
import tensor_puzzles
import vae
from numpy.typing import NDArray

import ocannl as oc

Array = NDArray[Any]
ALL_DIGITS = digits.digits
Example = Callable[[oc.Context, Any], Mapping[str, Array]]


@contextmanager
def running_on(ctx: oc.Context, **replaced: tuple[object, object]) -> Generator[list[oc.Routine]]:
    """Examples take this device, and something else for names in their modules; gives their routines."""
    routines: list[oc.Routine] = []
    compile = oc.Context.compile

    def noted(own: oc.Context, *args: Any, **named: Any) -> oc.Routine:
        routines.append(compile(own, *args, **named))
        return routines[-1]

    silence = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(silence), redirect_stderr(silence):
        patch.setattr(oc.Context, "auto", staticmethod(lambda: ctx))
        patch.setattr(oc.Context, "compile", noted)
        for name, (module, value) in replaced.items():
            patch.setattr(module, name, value)
        yield routines


def parameters(ctx: oc.Context, routines: list[oc.Routine]) -> dict[str, Array]:
    """The parameters of all routines as they are now."""
    found: dict[str, Array] = {}
    for routine in routines:
        found |= {name: ctx[p] for name, p in oc.params(routine.code).items()}
    assert found
    return found


def run_moons(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    with running_on(ctx, BATCHES=(moons, 10)) as routines:
        points, classes = moons.half_moons(100, seed=1)
        trained = moons.train_moons(points, classes, epochs=2, seed=1)
        scores = trained.scores(points)
        return {"losses": trained.history.losses, "scores": scores, **parameters(ctx, routines)}


def some_digits(seed: int) -> tuple[digits.Floats, digits.Ints]:
    images, shown = ALL_DIGITS(seed)
    return images[:260], shown[:260]


def run_digits(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    with running_on(ctx, BATCHES=(digits, 4), digits=(digits, some_digits)) as routines:
        accuracy = digits.main(["--plain", "--epochs", "2"])
        return {"accuracy": np.array(round(accuracy, 1)), **parameters(ctx, routines)}


def run_lenet(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    with running_on(ctx, TRAINED_ON=(lenet_digits, 40), digits=(lenet_digits, some_digits)) as routines:
        trained = lenet_digits.train_lenet(seed=1, epochs=1)
        return {"losses": np.array(trained.epoch_losses), **parameters(ctx, routines)}


def run_char_lm(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    sizes = ["--steps", "4", "--layers", "1", "--width", "32", "--length", "3"]
    with running_on(ctx, BATCH_SIZE=(char_lm, 3)) as routines:
        trained = char_lm.main(["--plain", *sizes])
        return {"losses": trained.losses, **parameters(ctx, routines)}


def run_nanogpt(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    sizes = "--layers 1 --heads 2 --width 32 --context 12 --batch 3 --steps 4 --length 2"
    with running_on(ctx):
        trained = nanogpt.main(sizes.split())
    return {"losses": np.array(trained.losses), **{n: ctx[entry] for n, entry in trained.state.items()}}


def run_puzzles(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    """All are solved; each compares with NumPy itself."""
    with running_on(ctx):
        solved = tensor_puzzles.main(["--tries", "1"])
    return {name: np.array(is_solved) for name, is_solved in solved.items()}


def run_cifar(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    options = "--images 20 --batch 8 --width 4 --depth 0 --rate 0.05 --epochs 1"
    with running_on(ctx), ctx, TemporaryDirectory() as folder:
        trained = cifar.main([*options.split(), "--runs", folder])
    return {"losses": np.array([epoch["loss"] for epoch in trained.history])}


def run_makemore(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    with running_on(ctx), ctx:
        trained = makemore.main(["mlp", "--steps", "6", "--width", "8", "--rate", "0.03"])
    return {"losses": np.array(trained["mlp"].losses)}


def run_pinn(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    with running_on(ctx), ctx:
        trained = pinn.main(["--steps", "5", "--points", "8", "--width", "4", "--rate", "0.02"])
    return {"losses": np.array(trained.losses)}


def run_vae(ctx: oc.Context, dtype: Any) -> Mapping[str, Array]:
    with running_on(ctx), ctx:
        trained = vae.main(["--epochs", "1", "--hidden", "8", "--latent", "2", "--rate", "0.01"])
    return {"losses": np.array(trained.losses)}


EXAMPLES: dict[str, Example] = {
    "moons": run_moons,
    "digits": run_digits,
    "lenet_digits": run_lenet,
    "char_lm": run_char_lm,
    "nanogpt": run_nanogpt,
    "tensor_puzzles": run_puzzles,
    "cifar": run_cifar,
    "makemore": run_makemore,
    "pinn": run_pinn,
    "vae": run_vae,
}
