"""State that is written to files and read from them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file
from support.layering import ROOT
from support.saved import SUFFIXES, initialized, model
from support.stateful_programs import PROGRAMS, Build, Running

import ocannl as oc
from ocannl import nn, train
from ocannl.execute.files.near_names import likely_renaming
from ocannl.execute.files.saving import shape_of_text
from ocannl.execute.memory.shapes_of_arrays import shape_of_sizes
from ocannl.program import graph

# There and back.


@pytest.mark.sampled(3)
@SUFFIXES
@pytest.mark.parametrize("build", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_goes_on_where_it_was(build: Build, suffix: str, tmp_path: Path):
    file = tmp_path / f"state.{suffix}"
    first, second = Running(build), Running(build, seed=2)
    first.run(3)
    first.context.save(file, first.routines, step=3)
    second.run(1)
    assert second.bits() != first.bits()
    assert second.context.load(file, second.routines)["step"] == "3"
    assert second.bits() == first.bits()
    for program in (first, second):
        program.run(3)
    assert second.bits() == first.bits()


GO_ON = """
import sys
from pathlib import Path
from support.stateful_programs import PROGRAMS, Running
for file in sys.argv[1:]:
    program = Running(PROGRAMS[Path(file).stem], seed=3)
    program.context.load(file, program.routines)
    program.run(3)
    program.context.save(file, program.routines)
"""


def test_a_fresh_process_goes_on_where_it_was(tmp_path: Path):
    running = {name: Running(build) for name, build in PROGRAMS.items()}
    files = [tmp_path / f"{name}.npz" for name in running]
    for program, file in zip(running.values(), files, strict=True):
        program.run(3)
        program.context.save(file, program.routines)
        program.run(3)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    subprocess.run([sys.executable, "-c", GO_ON, *files], check=True, cwd=tmp_path, env=env)
    for program, file in zip(running.values(), files, strict=True):
        wanted = program.bits()
        program.context.load(file, program.routines)
        assert program.bits() == wanted


@SUFFIXES
@pytest.mark.parametrize("dtype", [oc.float64, oc.float16, oc.bfloat16, oc.float8_e4m3fn, oc.float8_e5m2])
def test_every_dtype(dtype: object, suffix: str, tmp_path: Path):
    file = tmp_path / f"state.{suffix}"
    p = oc.param("p", oc.init.normal(), output=[3, 5], dtype=dtype)  # pyright: ignore[reportArgumentType]
    none = oc.node("none", output=[0, 2], dtype=np.int32, init=0)
    ctx, other = initialized(p), initialized(p, seed=2)
    ctx.save(file, [p, none])
    other.load(file, [p, none])
    assert other[p].dtype == dtype
    np.testing.assert_array_equal(other[p], ctx[p])
    assert other[none].shape == (0, 2)


def test_a_file_for_others(tmp_path: Path):
    """The format and its metadata are those that the package safetensors reads."""
    y = model()
    ctx = initialized(y)
    ctx.save(tmp_path / "a.safetensors", y, step=7, notes={"metric": "0.5"})
    with safe_open(tmp_path / "a.safetensors", framework="numpy") as file:
        metadata = file.metadata()
        np.testing.assert_array_equal(file.get_tensor("linear_1.w"), ctx[oc.params(y)["linear_1.w"]])
    assert json.loads(metadata["shapes"])["linear.w"] == "3->4"
    assert (metadata["step"], metadata["metric"]) == ("7", "0.5")
    assert metadata["version"]


def test_a_file_of_others(tmp_path: Path):
    """Without metadata, names and shapes of arrays decide."""
    w, file = np.arange(12, dtype=np.float32).reshape(4, 3), tmp_path / "a.safetensors"
    y = nn.linear(out_dim=4, bias=False)(oc.data(np.ones((5, 3), np.float32)))
    save_file({"encoder.weight": w}, file)
    ctx = oc.Context.cpu(threads=1)
    assert ctx.load(file, y, rename={"encoder.weight": "linear.w"}) == {}
    np.testing.assert_array_equal(ctx[oc.params(y)["linear.w"]], w)
    np.savez(tmp_path / "a.npz", allow_pickle=False, **{"linear.w": 2 * w})
    ctx.load(tmp_path / "a.npz", y)
    np.testing.assert_array_equal(ctx[oc.params(y)["linear.w"]], 2 * w)


def test_an_open_parameter_gets_its_shape(tmp_path: Path):
    trained, fresh = nn.linear(out_dim=4), oc.param("w")
    y = trained(oc.data(np.ones((5, 3), np.float32)))
    ctx = initialized(y)
    ctx.save(tmp_path / "a.npz", oc.params(y)["linear.w"])
    ctx.load(tmp_path / "a.npz", fresh, rename={"linear.*": "*"})
    assert fresh.shape == "3->4"
    np.testing.assert_array_equal(ctx[fresh], ctx[oc.params(y)["linear.w"]])


def test_open_parameters_get_the_shapes_of_a_file_of_others(tmp_path: Path):
    """Applied or not: more axes belong to the open row, or to the rows as those of an initial array do."""
    w, b = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(4, np.float32)
    save_file({"linear.w": w, "linear.b": b}, tmp_path / "a.safetensors")
    ctx = oc.Context.cpu(threads=1)
    applied, alone = nn.linear(out_dim=4), nn.linear(out_dim=4)
    y = applied(oc.data(np.ones((5, 3), np.float32)))
    free = oc.param("free")
    for layer in (applied, alone):
        ctx.load(tmp_path / "a.safetensors", layer)
        assert (layer.w.shape, layer.b.shape) == ("3->4", "4")
    np.testing.assert_array_equal(ctx[y], np.broadcast_to(w.sum(1) + b, (5, 4)))
    for name, shape in {"linear.w": "3->4", "linear.b": "4"}.items():
        ctx.load(tmp_path / "a.safetensors", [free := oc.param("free")], strict=False, rename={name: "free"})
        assert free.shape == shape


@pytest.mark.parametrize(
    ("sizes", "known", "found"),
    [
        ((4, 3), {"output": 4, "input": None}, "3->4"),
        ((2, 4, 3), {"output": 4, "input": [3]}, None),
        ((2, 4, 3), {"output": None, "input": None}, "3->2,4"),
        ((5, 4), {"output": 5, "input": [3]}, None),
        ((4, 5), {"output": 3, "input": None}, None),
        ((), {"output": None, "input": None}, "()"),
        ((), {"output": 4, "input": None}, None),
        ((6, 4), {"batch": None, "output": 4, "input": []}, "6|4"),
    ],
)
def test_shapes_of_arrays_without_rows(sizes: tuple[int, ...], known: dict[str, Any], found: str | None):
    shape = shape_of_sizes(graph.known_shape(oc.param("p", **known).ir_value), sizes)
    assert (shape and str(shape)) == found


def test_a_shape_that_others_contradict_changes_nothing(tmp_path: Path):
    """Each array would fit, but two parameters have an axis in common: so the bias stays open, too."""
    file, ctx, d = tmp_path / "a.safetensors", oc.Context.cpu(threads=1), oc.Dim("d")
    bias, v, w = oc.param("bias"), oc.param("v", output=[d]), oc.param("w", output=[d])
    save_file({name: np.ones(size, np.float32) for name, size in {"bias": 3, "v": 4, "w": 5}.items()}, file)
    with pytest.raises(oc.StateError) as error:
        ctx.load(file, [bias, v, w])
    (line,) = str(error.value).splitlines()[1:]
    assert line.startswith("  w: shape ")
    assert line.endswith(" in the program, (5,) in the file, and what it is used for needs another shape")
    assert not bias.shape.is_final
    assert d.known is None


@given(st.lists(st.lists(st.integers(0, 99), max_size=3), min_size=3, max_size=3))
def test_shapes_are_read_as_they_are_written(rows: list[list[int]]):
    batch, input, output = rows
    shape = oc.node("n", batch=batch, input=input, output=output).shape
    found = shape_of_text(str(shape))
    assert found is not None
    assert [list(row.sizes) for row in found] == rows


def test_no_shape():
    assert shape_of_text("...|2") is None
    assert shape_of_text("a->b->c") is None


def test_numbers_that_python_holds_are_read_by_the_context():
    running = Running(PROGRAMS["momentum"])
    step_n = running.state()["step_n"]
    running.run(2)
    assert int(running.context[step_n]) == 2
    running.context[step_n] = 5
    assert running.routines[0][oc.index("step_n")] == 5
    assert step_n in running.context


# Writing.


def test_nothing_to_save_yet(tmp_path: Path):
    y = model()
    with pytest.raises(oc.UninitializedError, match=r"nothing to save yet in linear_1.w, linear.w"):
        oc.Context.cpu().save(tmp_path / "a.npz", y)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stored", "wanted", "rename"),
    [
        (["small.w", "small.b"], ["large.w", "large.b"], {"small.*": "large.*"}),
        (["encoder.0.w", "encoder.1.w"], ["model.encoder.0.w", "model.encoder.1.w"], {"*": "model.*"}),
        (["m.head.w", "m.body.w"], ["m.top.w", "m.body.w"], {"m.head.*": "m.top.*"}),
        (["weight", "bias"], ["wieght", "bias"], {"weight": "wieght"}),
        (["a.w", "a.b"], ["z", "y"], {}),
        (["a.w", "a.v"], ["b.w"], {}),
    ],
)
def test_names_that_may_be_the_same(stored: list[str], wanted: list[str], rename: dict[str, str]):
    assert likely_renaming(stored, wanted) == rename


@SUFFIXES
def test_a_file_that_is_not_there(suffix: str, tmp_path: Path):
    p = oc.param("p", np.ones(3))
    ctx = initialized(p)
    ctx.save(tmp_path / f"model.{suffix}", p)
    near = f"did you mean 'model.{suffix}'"
    for name, words in ((f"modle.{suffix}", near), (f"no/a.{suffix}", "nor a folder")):
        for error in (FileNotFoundError, oc.StateError):
            with pytest.raises(error, match=rf"^{re.escape(__file__)}:\d+: there is no file '.*{words}"):
                ctx.load(tmp_path / name, p)


def test_other_suffixes(tmp_path: Path):
    p = oc.param("p", np.ones(3))
    with pytest.raises(oc.ArgumentError, match=r"called \*.safetensors or \*.npz, found '.*a.pt'"):
        initialized(p).save(tmp_path / "a.pt", p)
    with pytest.raises(oc.ArgumentError, match=r"called \*.safetensors or \*.npz"):
        initialized(p).load(tmp_path / "a.pt", p)
    for suffix in ("npz", "safetensors"):
        with pytest.raises(oc.ArgumentError, match="there is no folder"):
            initialized(p).save(tmp_path / "missing" / f"a.{suffix}", p)


@SUFFIXES
def test_what_was_there_stays_until_all_is_written(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file, p = tmp_path / f"a.{suffix}", oc.param("p", np.ones(3))
    ctx = initialized(p)
    ctx.save(file, p)
    before = file.read_bytes()

    def fail(handle: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        ctx.save(file, p, step=1)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_files_of_equal_state_are_equal(tmp_path: Path):
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file in files:
        y = model()
        initialized(y).save(file, y)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_training_reads_what_was_loaded(tmp_path: Path):
    """A routine that ran before reads the new values, at once."""
    y = model()
    ctx = initialized(y)
    routine = ctx.compile(y)
    routine()
    before = ctx[y]
    ctx.save(tmp_path / "a.safetensors", y)
    ctx.init_params(y, seed=2, reinit=True)
    routine()
    assert not np.array_equal(ctx[y], before)
    ctx.load(tmp_path / "a.safetensors", y)
    routine()
    np.testing.assert_array_equal(ctx[y], before)
    train.forward_once(ctx, y)
    np.testing.assert_array_equal(ctx[y], before)
