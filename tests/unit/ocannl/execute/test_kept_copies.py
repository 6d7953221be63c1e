"""Packed copies of parameters that routines keep between runs, whoever writes the parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import ocannl as oc
from ocannl.execute.memory.node import host_array

WIDTH, ROWS = 128, 4
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def weights(seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8


class Model:
    """A layer of width 128 for 4 rows, whose routine keeps a copy of the weights."""

    def __init__(self) -> None:
        self.w = oc.param("w", weights(0))
        self.data = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)
        self.y = oc.relu(self.w @ oc.tensor(self.data))
        self.ctx = oc.Context.cpu(target="x86-64-v3")
        self.ctx.init_params(self.y)
        self.routine = self.ctx.compile(self.y)

    def check(self) -> None:
        """The routine computes with the present weights, the next time too."""
        for _ in range(2):
            self.routine()
            expected = np.maximum(self.data @ np.asarray(self.ctx[self.w]).T, 0)
            np.testing.assert_allclose(self.ctx[self.y], expected, rtol=1e-5, atol=1e-5)

    def copy(self) -> Array:
        """The memory of the copy."""
        array = host_array(self.routine._nodes["w.packed"].memory)
        assert array is not None
        return array


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


def test_a_copy_is_made_once(model: Model):
    model.check()
    model.copy()[...] = 0
    model.routine()
    assert not np.any(model.ctx[model.y])
    model.ctx[model.w] = weights(2)
    model.check()


def test_copies_are_counted_as_memory(model: Model):
    rows = [line.split() for line in model.routine.memory().splitlines()]
    assert ["w.packed", str(4 * WIDTH**2), "kept"] in [row[:3] for row in rows]
    own = 4 * (2 * WIDTH**2 + 2 * ROWS * WIDTH)
    assert f"{own} in memory of their own" in model.routine.memory()


def set_whole(model: Model, folder: Path) -> None:
    model.ctx[model.w] = weights(2)


def set_part(model: Model, folder: Path) -> None:
    model.ctx[model.w.at[3:5]] = 7.0


def set_by_code(model: Model, folder: Path) -> None:
    model.ctx.compile(oc.set(model.w, model.w * 2))()


def set_part_by_code(model: Model, folder: Path) -> None:
    model.ctx.compile(oc.set(model.w.at[2:4], 5.0))()


def set_by_long_code(model: Model, folder: Path) -> None:
    """More steps than an entry calls one by one."""
    others = [oc.node(f"n{k}", output=3 + k, init=1.0) for k in range(40)]
    code = oc.set(model.w, model.w * 2)
    for other in others:
        code = code + oc.set(other, 2.0)
    model.ctx.compile(code)()


def set_by_traced_code(model: Model, folder: Path) -> None:
    model.ctx.compile(oc.set(model.w, model.w * 2), trace=True)()


def set_by_a_loop(model: Model, folder: Path) -> None:
    model.ctx.compile(oc.set(model.w.at[oc.index("row", WIDTH)], 5.0)).run_loop()


def initialize(model: Model, folder: Path) -> None:
    model.ctx[model.w] = weights(2)
    model.check()
    model.ctx.init_params(model.y, reinit=True)


def load(model: Model, folder: Path) -> None:
    model.ctx.save(folder / "w.npz", model.y)
    model.ctx[model.w] = weights(2)
    model.check()
    model.ctx.load(folder / "w.npz", model.y)


def profile_an_update(model: Model, folder: Path) -> None:
    model.ctx.compile(oc.set(model.w, model.w * 2)).profile(runs=1)


WRITERS = (
    *(
        set_whole,
        set_part,
        set_by_code,
        set_part_by_code,
        set_by_long_code,
        set_by_traced_code,
        set_by_a_loop,
    ),
    *(initialize, load, profile_an_update),
)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_copies_are_never_stale(model: Model, write: Callable[[Model, Path], None], tmp_path: Path):
    model.check()
    write(model, tmp_path)
    model.check()


def test_a_writable_view_may_write_at_any_time():
    model = Model()
    view = model.ctx.view(model.w, writable=True)
    for value in range(3):
        view[1] = value
        model.check()


def test_a_routine_keeps_no_copies_of_what_it_writes(model: Model):
    code = model.y.forward + oc.set(model.w, model.w * 0.5)
    assert "kept" not in model.ctx.compile(code).memory()


def test_two_routines_have_copies_of_their_own(model: Model):
    other = model.ctx.compile(oc.relu(model.w @ oc.tensor(model.data)) + 1)
    model.check()
    other()
    model.ctx[model.w] = weights(2)
    other()
    model.check()


def test_a_function_reads_what_was_written_since(model: Model):
    apply = oc.function(lambda x: model.w @ x)
    with model.ctx:
        for seed in range(3):
            model.ctx[model.w] = weights(seed)
            for _ in range(2):
                np.testing.assert_allclose(
                    apply(model.data), model.data @ weights(seed).T, rtol=1e-4, atol=1e-4
                )


def test_a_look_keeps_no_copies(model: Model):
    model.check()
    other = oc.relu(model.w @ oc.tensor(model.data)) * 3
    for seed in range(3):
        model.ctx[model.w] = weights(seed)
        expected = 3 * np.maximum(model.data @ weights(seed).T, 0)
        np.testing.assert_allclose(model.ctx[other], expected, rtol=1e-4, atol=1e-4)


def test_equal_layers_keep_copies():
    parts = [oc.param(f"w{k}", weights(k)) for k in range(9)]
    data = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)
    y = oc.tensor(data)
    for w in parts:
        y = oc.relu(w @ y)
    ctx = oc.Context.cpu(target="x86-64-v3")
    ctx.init_params(y)
    routine = ctx.compile(y)
    assert routine.memory().count(" kept ") == len(parts)
    for seed in (0, 20):
        for k, w in enumerate(parts):
            ctx[w] = weights(seed + k)
        routine()
        expected = data
        for k in range(len(parts)):
            expected = np.maximum(expected @ weights(seed + k).T, 0)
        np.testing.assert_allclose(ctx[y], expected, rtol=1e-4, atol=1e-4)
