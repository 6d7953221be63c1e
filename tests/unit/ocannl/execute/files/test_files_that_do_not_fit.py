"""Files of other programs, damaged and hostile ones: one error, and nothing changes."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from support.saved import SUFFIXES, initialized, model, refused

import ocannl as oc
from ocannl import nn

# What does not fit.


@SUFFIXES
def test_everything_that_does_not_fit_is_in_one_error(suffix: str, tmp_path: Path):
    file, y = tmp_path / f"a.{suffix}", model()
    with oc.scope("linear"):
        w, b = oc.param("w", np.ones((4, 3))), oc.param("b", np.ones(5, np.float32))
    more = oc.param("more", np.ones(2, np.float32))
    ctx = oc.Context.cpu(threads=1)
    for p in (w, b, more):
        ctx.init_params(p)
    ctx.save(file, [w, b, more])
    lines = refused(initialized(y), file, y).splitlines()
    assert lines[0].endswith(f": nothing was loaded from {file}")
    times = "2 times in the program and 1 times in the file, so that numbers do not tell which is which"
    assert [line.strip() for line in lines[1:]] == [
        f"linear.w is {times}: give labels",
        f"linear.b is {times}: give labels",
        "missing in the file (partial=True leaves them as they are): linear_1.w, linear_1.b",
        "not in the program (strict=False leaves them out): more",
        "linear.w: float32 in the program, float64 in the file",
        "linear.b: shape 4 in the program, 5 in the file",
    ]


def test_what_may_be_missing_and_what_may_be_left_out(tmp_path: Path):
    file, (a, b, c) = tmp_path / "a.npz", [oc.param(n, np.ones(2, np.float32)) for n in "abc"]
    ctx = oc.Context.cpu(threads=1)
    for p in (a, b, c):
        ctx[p] = [2, 3]
    ctx.save(file, [a, b])
    ctx[a] = ctx[b] = ctx[c] = 0
    missing = "missing in the file (partial=True leaves them as they are): c"
    assert missing in refused(ctx, file, a + c, strict=False)
    assert "not in the program (strict=False leaves them out): b" in refused(ctx, file, a + c, partial=True)
    ctx.load(file, [a, c], strict=False, partial=True)
    assert [float(ctx[p].sum()) for p in (a, b, c)] == [5, 0, 0]


def test_dtypes_convert_on_request(tmp_path: Path):
    p, q = oc.param("p", np.ones(3)), oc.param("p", np.zeros(3, np.float32))
    ctx = initialized(p)
    ctx.init_params(q)
    ctx.save(tmp_path / "a.safetensors", p)
    assert "p: float32 in the program, float64 in the file" in refused(ctx, tmp_path / "a.safetensors", q)
    ctx.load(tmp_path / "a.safetensors", q, strict=False)
    assert ctx[q].tolist() == [1, 1, 1]


def test_counters_may_be_floats_of_whole_numbers(tmp_path: Path):
    file, steps = tmp_path / "a.safetensors", oc.node("steps", output=[], kind="counter", dtype=np.int64)
    ctx = oc.Context.cpu(threads=1)
    ctx[steps] = 5
    for value in (2.5, np.inf):
        save_file({"steps": np.array(value, np.float32)}, file)
        assert "steps: int64 in the program, float32 in the file" in refused(ctx, file, steps)
    save_file({"steps": np.array(2.0, np.float32)}, file)
    ctx.load(file, steps)
    assert int(ctx[steps]) == 2


def test_numbered_paths_match_only_as_many(tmp_path: Path):
    """Which of the layers was left out is not known, also where the rest of the names fit."""
    file, layers = tmp_path / "a.npz", [nn.linear(out_dim=3, bias=False) for _ in range(3)]
    x = oc.data(np.ones((5, 3), np.float32))
    y = layers[2](layers[1](layers[0](x)))
    ctx = initialized(y)
    ctx.save(file, y)
    fewer = nn.linear(out_dim=3, bias=False)(nn.linear(out_dim=3, bias=False)(x))
    ctx.init_params(fewer)
    text = refused(ctx, file, fewer, strict=False, partial=True)
    assert "linear.w is 2 times in the program and 3 times in the file" in text
    assert "give labels" in text
    one = nn.linear(out_dim=3, bias=False, label="one")(x)
    ctx.load(file, one, rename={"linear_1.w": "one.w"}, strict=False)
    np.testing.assert_array_equal(ctx[oc.params(one)["one.w"]], ctx[oc.params(y)["linear_1.w"]])


def test_numbers_that_memory_cannot_hold_change_nothing(tmp_path: Path):
    ctx, file = oc.Context.cpu(threads=1), tmp_path / "a.safetensors"
    a, z = oc.param("a", np.ones(2, np.float32)), oc.node("z", output=[1], init=0, dtype=np.int32)
    ctx.init_params(a)
    save_file({"a": np.zeros(2, np.float32), "z": np.array([1.5], np.float32)}, file)
    with pytest.raises(oc.ArgumentError, match=r"`z` holds int32: it cannot be set to 1\.5"):
        ctx.load(file, [a, z], strict=False)
    assert (ctx[a].tolist(), ctx[z].tolist()) == ([1, 1], [0])


def test_an_index_outside_of_the_data_changes_nothing(tmp_path: Path):
    """Neither memory nor the indices that were set before it."""

    def program(rows: int) -> tuple[oc.Context, oc.Routine, oc.Index, oc.Index, oc.Tensor]:
        i, j, x = oc.index("first"), oc.index("second"), oc.data(np.ones((rows, 1), np.float32), axes="bo")
        total = oc.param("a", np.zeros(1, np.float32))
        with oc.code("sum") as code:
            total += x[i] + x[j]
        ctx = oc.Context.cpu(threads=1)
        ctx.init_params(code)
        return ctx, ctx.compile(code), i, j, total

    ctx, step, first, second, _ = program(9)
    step(first=2, second=8)
    ctx.save(tmp_path / "a.npz", step)
    ctx, step, first, second, total = program(5)
    with pytest.raises(oc.OcannlError, match="index second=8 is outside the data"):
        ctx.load(tmp_path / "a.npz", step)
    assert (step[first], step[second], ctx[total].tolist()) == (0, 0, [0])


def test_renaming(tmp_path: Path):
    y, file = model(), tmp_path / "a.npz"
    ctx = initialized(y)
    ctx.save(file, y)
    for rename, message in {
        ("nothing", "x"): "has no `nothing` to rename; it has linear_1.w",
        ("*", "x"): r"renamed one by one, by how they begin, or by one `\*` in each",
        ("linear.w", "linear.b"): "two arrays of .* would be called linear.b",
    }.items():
        with pytest.raises(oc.ArgumentError, match=message):
            ctx.load(file, y, rename=dict([rename]))


# Damage.


@SUFFIXES
def test_what_is_no_file_is_told(suffix: str, tmp_path: Path):
    y = model()
    folder, pipe = tmp_path / f"folder.{suffix}", tmp_path / f"pipe.{suffix}"
    folder.mkdir()
    os.mkfifo(pipe)
    assert "is no file but a folder" in refused(initialized(y), folder, y)
    assert "is no file but a device or pipe" in refused(initialized(y), pipe, y)


@SUFFIXES
def test_a_truncated_file_changes_nothing(suffix: str, tmp_path: Path):
    file, y = tmp_path / f"a.{suffix}", model()
    ctx = initialized(y)
    ctx.save(file, y)
    whole = file.read_bytes()
    ctx.init_params(y, seed=2, reinit=True)
    for size in (0, 1, 7, 8, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert str(file) in refused(ctx, file, y)


@SUFFIXES
def test_a_foreign_file_changes_nothing(suffix: str, tmp_path: Path):
    file, y = tmp_path / f"a.{suffix}", model()
    for contents in (b"hello", b"\xff" * 1000, bytes(1000), b"PK\x03\x04" + bytes(100)):
        file.write_bytes(contents)
        assert str(file) in refused(initialized(y), file, y)


@given(st.data())
def test_changed_bytes_are_an_error_or_numbers(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    file, p = tmp_path_factory.getbasetemp() / "bytes.npz", oc.param("p", np.ones(3, np.float32))
    if not file.exists():
        ctx = initialized(p)
        ctx.save(file, p)
    whole = bytearray(file.read_bytes())
    for _ in range(3):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    changed = file.with_name("changed.npz")
    changed.write_bytes(whole)
    ctx = initialized(p)
    try:
        ctx.load(changed, p)
    except oc.StateError:
        assert ctx[p].tolist() == [1, 1, 1]


class Trap:
    """Unpickling it would write a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.file),)


def test_a_hostile_file_runs_nothing(tmp_path: Path):
    file, y = tmp_path / "a.npz", model()
    np.savez(file, allow_pickle=True, **{"linear.w": np.array([Trap(tmp_path / "trap")], object)})
    assert "holds objects of Python" in refused(initialized(y), file, y)
    assert not (tmp_path / "trap").exists()


def test_a_member_whose_header_lies(tmp_path: Path):
    """Nothing of the size that it claims is made."""
    file, y = tmp_path / "a.npz", model()
    with zipfile.ZipFile(file, "w") as archive, archive.open("linear.w.npy", "w") as member:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**20)}
        np.lib.format.write_array_header_1_0(member, header)
    assert "its header says" in refused(initialized(y), file, y)


@pytest.mark.parametrize("about", ['"text"', "[1]", "{", "[" * 100_000])
def test_metadata_that_are_no_table(about: str, tmp_path: Path):
    w, y = np.ones((2, 3), np.float32), oc.param("w", np.ones((2, 3), np.float32))
    save_file({"w": w}, tmp_path / "a.safetensors", {"paths": about})
    assert "damaged" in refused(initialized(y), tmp_path / "a.safetensors", y)
    np.savez(tmp_path / "a.npz", w=w, __metadata__=np.array(about))
    assert "damaged" in refused(initialized(y), tmp_path / "a.npz", y)


def test_a_dtype_that_no_tensor_has(tmp_path: Path):
    p = oc.param("p", np.ones(3, np.float32))
    save_file({"p": np.ones(3, np.complex64)}, tmp_path / "a.safetensors")
    assert "dtype C64, which no tensor has" in refused(initialized(p), tmp_path / "a.safetensors", p)
    np.savez(tmp_path / "a.npz", p=np.ones(3, np.int8))
    assert "p: float32 in the program, int8 in the file" in refused(initialized(p), tmp_path / "a.npz", p)
