"""State in shards: it loads under any mesh, only as a whole, and an interrupted save loses nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from support.sharded_training import MESHES, Training

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.index.splits import SplitAxis
from ocannl.execute.files import mesh_saving
from ocannl.execute.files.array_files import StoredArray
from ocannl.execute.files.sharded_files import INDEX, SplitArray, StoredPart, open_saved
from ocannl.runtime.collectives.grid import Grid

TWO, GRID = MESHES[2], MESHES[4]
Axes = Mapping[str, int]


def check_resumed(saved: Axes, loaded: Axes, folder: Path) -> None:
    """State goes from one mesh to another with all its bits, and training goes on as it would have."""
    first, second = Training(saved), Training(loaded, seed=2)
    first.run(1)
    first.save(folder / "a.safetensors")
    second.run(2)
    assert second.bits() != first.bits()
    assert second.ctx.load(folder / "a.safetensors", second.what)["step"] == "7"
    assert second.bits() == first.bits()
    np.testing.assert_allclose(second.run(2), first.run(2), rtol=1e-12, atol=0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("saved", "loaded"), [*zip(MESHES, MESHES[1:] + MESHES[:1], strict=True)], ids=str)
def test_training_goes_on_with_another_number_of_ranks(saved: Axes, loaded: Axes, tmp_path: Path) -> None:
    check_resumed(saved, loaded, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("loaded", MESHES, ids=str)
@pytest.mark.parametrize("saved", MESHES, ids=str)
def test_training_goes_on_from_any_mesh_on_any(saved: Axes, loaded: Axes, tmp_path: Path) -> None:
    check_resumed(saved, loaded, tmp_path)


def saved_on(axes: Axes, path: Path, epochs: int = 1) -> Training:
    training = Training(axes)
    training.run(epochs)
    training.save(path)
    return training


def index_in(folder: Path) -> dict[str, dict[str, str]]:
    return json.loads((folder / f"a.safetensors{INDEX}").read_text())


def files_of(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_each_part_is_written_once_by_one_rank(tmp_path: Path):
    """Of 5 rows over 2 of 4 ranks, the lower one of each two writes; what is whole, rank 0 writes."""
    training = saved_on(GRID, tmp_path / "a.safetensors")
    index = index_in(tmp_path)
    files = sorted({*index["weight_map"].values()})
    assert files_of(tmp_path) == [*files, f"a.safetensors{INDEX}"]
    parts = [load_file(tmp_path / file) for file in files]
    assert [{*part} for part in parts] == [
        {name for name, file in index["weight_map"].items() if file == its} for its in files
    ]
    (hidden,) = [param for name, param in oc.params(training.loss).items() if name == "hidden"]
    joined = np.concatenate([parts[0]["hidden[0:3, 0:3]"], parts[1]["hidden[3:5, 0:3]"]])
    assert joined.tobytes() == training.ctx[hidden].tobytes()
    assert "draws" in parts[0]
    total = sum(array.nbytes for part in parts for array in part.values())
    assert index["metadata"]["total_size"] == total == sum(map(len, training.bits().values()))


def test_a_part_reads_what_it_meets_and_nothing_else():
    def unread() -> np.ndarray:
        raise AssertionError

    f8, rows = np.dtype(np.float64), np.arange(6.0).reshape(2, 3)
    parts = [
        StoredPart((0, 0), StoredArray((2, 3), f8, unread)),
        StoredPart((2, 0), StoredArray((2, 3), f8, lambda: rows)),
    ]
    array = SplitArray((4, 3), f8, unread, parts)
    np.testing.assert_array_equal(array.part((slice(3, 4), slice(1, 3))), rows[1:, 1:])
    assert array.part((slice(4, 4), slice(0, 3))).shape == (0, 3)


@given(st.data())
def test_any_range_of_any_grid(data: st.DataObject):
    sizes = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    grid = Grid({"a": data.draw(st.integers(1, 4)), "b": data.draw(st.integers(1, 3))})
    axes = data.draw(st.permutations(range(len(sizes))))
    splits = [SplitAxis(axis, sizes[axis], name) for axis, name in zip(axes, grid.sizes, strict=False)]
    whole, parts = np.arange(np.prod(sizes)).reshape(sizes), dict[tuple[int, ...], StoredPart]()
    for rank in range(grid.ranks):
        _, at = grid.places(sizes, splits, rank)
        starts = tuple(ranged.start for ranged in at)
        array = StoredArray(whole[at].shape, whole.dtype, lambda at=at: whole[at])
        parts[starts] = StoredPart(starts, array)
    bounds = [sorted(data.draw(st.tuples(st.integers(0, size), st.integers(0, size)))) for size in sizes]
    asked = tuple(slice(*bound) for bound in bounds)
    array = SplitArray(sizes, whole.dtype, lambda: whole, [*parts.values()])
    np.testing.assert_array_equal(array.part(asked), whole[asked])


# What is not there as a whole.


def check_refused(folder: Path, told: str) -> None:
    for axes in ({}, TWO):
        other = Training(axes, seed=2)
        other.run(1)
        before = other.bits()
        with pytest.raises(oc.StateError, match=told):
            other.ctx.load(folder / "a.safetensors", other.what)
        assert other.bits() == before


def test_missing_truncated_and_foreign_parts_are_one_error(tmp_path: Path):
    saved_on({"data": 4}, tmp_path / "a.safetensors")
    first, second, third = (tmp_path / name for name in sorted({*index_in(tmp_path)["weight_map"].values()}))
    size = first.stat().st_size
    first.write_bytes(first.read_bytes()[:-8])
    second.unlink()
    third.write_bytes(third.read_bytes().replace(third.name[2:18].encode(), b"0123456789abcdef"))
    told = [
        "is not there as a whole:",
        f"{first.name} has {size - 8} bytes in place of {size}",
        f"{second.name} is missing",
        f"{third.name} is of another save",
    ]
    check_refused(tmp_path, r"\s+".join(told))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is damaged, or no index of safetensors files"),
        ("[]", "is damaged, or no index of safetensors files"),
        ('{"weight_map": 3}', "is damaged, or no index of safetensors files"),
        ('{"save": "1", "weight_map": {"a": "../b.safetensors"}}', "names files of other folders"),
        ('{"save": "1", "weight_map": {"a": "b.safetensors"}}', r"b\.safetensors is missing"),
    ],
)
def test_a_damaged_index(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / f"a.safetensors{INDEX}").write_text(content)
    check_refused(tmp_path, told)


@pytest.mark.parametrize(
    ("starts", "told"),
    [([0], "are not those of an array of"), ([3], "are not those"), (["x"], "table of parts")],
)
def test_parts_that_overlap_or_leave_gaps(starts: list[object], told: str, tmp_path: Path) -> None:
    table: dict[str, object] = {
        "a[0:2]": {"name": "a", "starts": [0], "sizes": [2], "shape": [4]},
        "a[2:4]": {"name": "a", "starts": starts, "sizes": [2], "shape": [4]},
    }
    arrays = {key: np.zeros(2) for key in table}
    save_file(arrays, tmp_path / "b.safetensors", {"save": "1", "parts": json.dumps(table)})
    index = {"save": "1", "weight_map": dict.fromkeys(arrays, "b.safetensors")}
    (tmp_path / f"a.safetensors{INDEX}").write_text(json.dumps(index))
    with pytest.raises(oc.StateError, match=told):
        open_saved(tmp_path / "a.safetensors")


# Saves in place of others, and interrupted ones.


def test_an_interrupted_save_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.safetensors"
    training = saved_on(TWO, path)
    wanted, before = training.bits(), files_of(tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    training.run(1)
    with monkeypatch.context() as patch:
        patch.setattr(mesh_saving, "write_index", killed)
        with pytest.raises(KeyboardInterrupt):
            training.save(path)
    assert len(files_of(tmp_path)) == len(before) + 2
    other = Training({}, seed=2)
    other.ctx.load(path, other.what)
    assert other.bits() == wanted
    training.run(1)
    training.save(path)
    assert len(files_of(tmp_path)) == len(before)
    other.ctx.load(path, other.what)
    assert other.bits() == training.bits()


def test_state_in_one_file_and_in_several_take_each_others_place(tmp_path: Path):
    path, other = tmp_path / "a.safetensors", Training({}, seed=2)
    for axes, count in (({}, 1), (TWO, 3), (GRID, 3), ({}, 1)):
        training = saved_on(axes, path, epochs=count)
        assert len(files_of(tmp_path)) == count
        other.ctx.load(path, other.what)
        assert other.bits() == training.bits()


def test_indices_and_files_of_others_stay(tmp_path: Path):
    """An index that names no save is Hugging Face's, and is read where there is no file."""
    y = nn.linear(out_dim=4)(oc.data(np.ones((5, 3), np.float32)))
    w, b = np.ones((4, 3), np.float32), np.zeros(4, np.float32)
    save_file({"linear.w": w}, tmp_path / "a-00001-of-00002.safetensors")
    save_file({"linear.b": b}, tmp_path / "a-00002-of-00002.safetensors")
    files = {"linear.w": "a-00001-of-00002.safetensors", "linear.b": "a-00002-of-00002.safetensors"}
    index = tmp_path / f"a.safetensors{INDEX}"
    index.write_text(json.dumps({"metadata": {"total_size": 64}, "weight_map": files}))
    ctx = oc.Context.cpu()
    assert ctx.load(tmp_path / "a.safetensors", y) == {}
    np.testing.assert_array_equal(ctx[oc.params(y)["linear.w"]], w)
    ctx[oc.params(y)["linear.w"]] = 3 * w
    ctx.save(tmp_path / "a.safetensors", y)
    assert len(files_of(tmp_path)) == 4
    ctx.load(tmp_path / "a.safetensors", y)
    np.testing.assert_array_equal(ctx[oc.params(y)["linear.w"]], 3 * w)
    ctx.load(index, y)
    np.testing.assert_array_equal(ctx[oc.params(y)["linear.w"]], w)


def test_dtypes_are_converted_in_parts(tmp_path: Path):
    p = oc.param("p", np.arange(5.0), input=[], shard={0: "data"}, dtype=np.float32)
    ctx = oc.Context.cpu(mesh=oc.Mesh({"data": 2}, engine="threads"))
    ctx.init_params(p)
    ctx.compile(oc.forward(p * 2))()
    save_file({"p": np.arange(5.0) + 1}, tmp_path / "a.safetensors")
    with pytest.raises(oc.StateError, match="p: float32 in the program, float64 in the file"):
        ctx.load(tmp_path / "a.safetensors", p)
    ctx.load(tmp_path / "a.safetensors", p, strict=False)
    assert ctx[p].tolist() == [1, 2, 3, 4, 5]


def test_eager_values_of_before_and_memory_without_elements(tmp_path: Path):
    p = oc.param("p", np.arange(5.0), input=[], shard={0: "data"})
    none = oc.node("none", output=[0, 2], init=0)
    ctx = oc.Context.cpu(mesh=oc.Mesh({"data": 2}, engine="threads"))
    ctx.init_params(p)
    ctx.compile(oc.forward(p * 2))()
    ctx.save(tmp_path / "a.safetensors", [p, none])
    ctx[p] = 7.0
    with ctx, oc.eager():
        before = p * 2
        ctx.load(tmp_path / "a.safetensors", [p, none])
        assert before.numpy().tolist() == [14] * 5
        assert (p * 2).numpy().tolist() == [0, 2, 4, 6, 8]


# Checkpoints.


def test_checkpoints_of_a_mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    training, keep = Training(TWO), train.Checkpoints(tmp_path, keep=2)
    for step, metric in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 5.0)):
        training.run(1)
        path = keep.save(training.ctx, training.what, step=step, metric=metric)
    assert [(found.step, found.metric) for found in keep.all] == [(2, 1.0), (3, 2.0), (4, 5.0)]
    assert keep.all[-1].path == path
    assert len(files_of(tmp_path)) == 3 * 3
    wanted = training.bits()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    training.run(1)
    with monkeypatch.context() as patch:
        patch.setattr(mesh_saving, "write_index", killed)
        with pytest.raises(KeyboardInterrupt):
            keep.save(training.ctx, training.what, step=5)
    other = Training({"data": 4}, seed=2)
    latest = keep.restore(other.ctx, other.what)
    assert latest is not None
    assert latest.step == 4
    assert other.bits() == wanted
    keep.save(other.ctx, other.what, step=6)
    assert [found.step for found in keep.all] == [2, 4, 6]
    assert not [name for name in files_of(tmp_path) if "step-000000005" in name]
