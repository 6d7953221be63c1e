"""Routines come from the cache as they were compiled."""

from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.lowering.pipelines import module_text
from ocannl.runtime.cache import routine_cache
from ocannl.runtime.cache.object_cache import ObjectCache
from ocannl.runtime.compile import CachedLoops

COMPILED = "schedule"


def step(rate: float = 0.1) -> tuple[oc.Context, oc.Routine, oc.Tensor]:
    i = oc.index("batch_n", 3)
    x = oc.data(np.arange(12.0).reshape(3, 2, 2), label="x")
    w = oc.param("w", 0.5, input=2, output=3)
    loss = (oc.tanh(w @ x[i]) ** 2).einsum("...|... => 0")
    context = oc.Context.cpu()
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=rate, momentum=0.5)
    routine = context.compile(code, name="step")
    context.init_params(loss)
    routine.run_loop(epochs=2)
    return context, routine, w


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.o"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("folder")
def test_the_second_time_nothing_is_compiled():
    (context, cold, w), (again, warm, v) = step(), step()
    assert COMPILED in cold.compile_seconds
    assert COMPILED not in warm.compile_seconds
    np.testing.assert_array_equal(context[w], again[v])
    assert (cold.schedule(), cold.memory(), cold.ir("llvm")) == (
        warm.schedule(),
        warm.memory(),
        warm.ir("llvm"),
    )
    assert "us" in warm.profile(runs=1)


def stack(layers: int) -> oc.Routine:
    x = oc.data(np.ones(4), label="x")
    for k in range(layers):
        x = oc.tanh(oc.param(f"w{k}", 0.5, output=4) @ x).named(f"x{k}")
    loss = (x * x).sum()
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    return oc.Context.cpu().compile(code, name="step")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("folder")
def test_more_equal_layers_are_as_many_stored_nests_and_functions():
    counts: list[tuple[int, int]] = []
    for layers in (14, 18):  # so many calls are a table
        routine = stack(layers)
        cold, warm = routine._executable, stack(layers)._executable
        assert isinstance(warm.loops, CachedLoops)
        assert module_text(warm.module, origins=True) == module_text(cold.module, origins=True)
        counts.append((warm.loops.text.count("loops.nest"), routine.ir("llvm").count("define internal")))
    assert counts[0] == counts[1]


@pytest.mark.usefixtures("folder")
def test_errors_are_those_of_a_compiled_routine():
    step()
    _, warm, _ = step()
    with pytest.raises(oc.OcannlError, match=r"outside its range, 0\.\.2"):
        warm(batch_n=3)
    x = oc.data(np.ones(2), label="x")
    for _ in range(2):
        w = oc.param("w", input=2, output=3)
        routine = oc.Context.cpu().compile(w @ x, name="predict")
        with pytest.raises(oc.UninitializedError, match="reads `w`"):
            routine()


@pytest.mark.usefixtures("folder")
def test_another_program_is_another_routine():
    step()
    _, other, _ = step(rate=0.2)
    assert COMPILED in other.compile_seconds


@pytest.mark.usefixtures("folder")
def test_another_compiler_does_not_take_it(monkeypatch: pytest.MonkeyPatch):
    step()
    monkeypatch.setattr(routine_cache, "VERSION", "another")
    _, other, _ = step()
    assert COMPILED in other.compile_seconds


def test_a_damaged_entry_is_replaced(folder: Path):
    context, _, w = step()
    for file in files(folder):
        file.write_bytes(file.read_bytes()[:-3])
    for expected in (True, False):
        again, routine, v = step()
        assert (COMPILED in routine.compile_seconds) is expected
        np.testing.assert_array_equal(context[w], again[v])


def test_one_of_its_entries_may_be_gone(folder: Path):
    """The object code and the routine are entries of their own."""
    context, _, w = step()
    for gone in files(folder):
        kept = {file: file.read_bytes() for file in files(folder) if file != gone}
        gone.unlink()
        again, _, v = step()
        np.testing.assert_array_equal(context[w], again[v])
        assert all(file.read_bytes() == data for file, data in kept.items())


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["OCANNL_VERIFY", "OCANNL_DUMP"])
@pytest.mark.usefixtures("folder")
def test_whoever_watches_sees_all_stages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    step()
    monkeypatch.setenv(name, "1" if name == "OCANNL_VERIFY" else str(tmp_path / "dump"))
    _, watched, _ = step()
    assert COMPILED in watched.compile_seconds


def test_what_is_stored_is_what_is_read(folder: Path):
    step()
    store = ObjectCache(folder)
    found = list[bytes]()
    for file in files(folder):
        data = store.get(file.stem)
        assert data is not None
        if data[:1] == b"\x78":
            found.append(data)
    (data,) = found
    assert routine_cache.encoded(routine_cache.decoded(data)) == data
