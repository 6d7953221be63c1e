"""Looking at a program, or at other settings, does not change it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tensors import Array, arrays_of, param, total

import ocannl as oc
from ocannl import train
from ocannl.lowering.pipelines import stage_names
from ocannl.runtime.systems.table import system

PASSES = [name for name in stage_names("cpu") if "-" in name]


def moons(look: Callable[..., Any]) -> tuple[dict[str, Array], dict[str, str]]:
    """Half-moons for one epoch; `look` sees every tensor when it is made."""
    (points,) = arrays_of((8, 10, 2))
    classes = np.sign(points[..., :1] * points[..., 1:])
    steps = 2 * 8
    batch_n, step_n = oc.index("batch_n", 8), oc.index("step_n")
    flat = oc.data(points.astype(np.float32), label="moons_flat")
    labels = oc.data(classes.astype(np.float32), label="moons_classes")
    look(flat, labels)
    w1, w2, w3 = (oc.param(f"w{k}") for k in (1, 2, 3))
    b1, b2 = (oc.param(f"b{k}", 0.0, output=16) for k in (1, 2))
    look(w1, w2, w3, b1, b2)
    x = flat[batch_n]
    look(x)
    product = w1 @ x
    look(product, w1)
    hidden = oc.relu(b1 + product)
    look(hidden, w1, b1)
    hidden = oc.relu(b2 + w2 @ hidden)
    look(hidden, w2, b2)
    scores = w3 @ hidden
    look(scores, w3)
    margin = oc.relu(1 - labels[batch_n] * scores)
    look(margin, scores, w3)
    loss = margin.einsum("...|... => 0") / 10
    look(loss, margin, scores, w1, w2, w3, b1, b2)
    rate = 0.1 * (2 * steps - step_n) / steps
    look(rate)
    update = train.grad_update(loss) + train.sgd_update(loss, learning_rate=rate, weight_decay=1e-4)
    look(loss, w1, w1.grad)
    ctx = oc.Context.cpu()
    step = ctx.compile(update, name="moons_step")
    look(loss, rate)
    ctx.init_params(loss, seed=1)
    record = step.run_loop(epochs=2, advance=[step_n], record=[loss, rate])
    values = {label: ctx[p] for label, p in oc.params(loss).items()}
    values |= {"losses": np.ravel(record[loss]), "rates": np.ravel(record[rate])}
    return values, {stage: step.ir(stage) for stage in ("texpr", "infer-shapes", "assign", "loops")}


def no_look(*_: oc.Tensor):
    pass


def look_at_shapes(*tensors: oc.Tensor):
    for t in tensors:
        _ = str(t.shape), repr(t), t.label, t.shape.batch, t.shape.input, t.shape.output, hash(t), t == t
        _ = oc.params(t), repr(t.shape), t.shape == t.shape


def look_at_ir(*tensors: oc.Tensor):
    for t in tensors:
        for stage in ("texpr", "infer-shapes"):
            try:
                _ = t.ir(stage)
            except oc.ShapeError:
                assert stage != "texpr"


def look_at_loops(*tensors: oc.Tensor):
    for t in tensors:
        with suppress(oc.ShapeError):
            _ = t.ir("loops"), t.ir("assign")


@pytest.fixture(scope="module")
def plain() -> tuple[dict[str, Array], dict[str, str]]:
    return moons(no_look)


class TestSameProgram:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("look", [look_at_shapes, look_at_ir, look_at_loops])
    def test_looking_changes_nothing(
        self, look: Callable[..., Any], plain: tuple[dict[str, Array], dict[str, str]]
    ):
        values, text = moons(look)
        for label, value in plain[0].items():
            np.testing.assert_array_equal(values[label], value, err_msg=label)
        assert text == plain[1]

    def test_the_same_program_gives_the_same_text_and_bits(
        self, plain: tuple[dict[str, Array], dict[str, str]]
    ):
        values, text = moons(no_look)
        assert text == plain[1]
        for label, value in plain[0].items():
            np.testing.assert_array_equal(values[label], value, err_msg=label)

    def test_it_learns(self, plain: tuple[dict[str, Array], dict[str, str]]):
        losses = plain[0]["losses"]
        assert losses[-8:].sum() < losses[:8].sum()
        np.testing.assert_allclose(plain[0]["rates"], [0.1 * (32 - k) / 16 for k in range(16)], rtol=1e-6)

    def test_compiling_twice_in_one_context(self):
        p = param("p", np.ones(3))
        loss = total(p * p)
        code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
        ctx = oc.Context.cpu()
        one, two = ctx.compile(code, name="step"), ctx.compile(code, name="step")
        for stage in stage_names("cpu"):
            assert one.ir(stage) == two.ir(stage)
        ctx.init_params(loss)
        one()
        two()
        np.testing.assert_allclose(ctx[p], 0.64 * np.ones(3))

    def test_other_programs_between_change_nothing(self):
        def text() -> str:
            p = param("p", np.ones(3))
            loss = total(oc.exp(p) * p)
            return oc.Context.cpu().compile(train.grad_update(loss), name="step").ir("loops")

        first = text()
        _ = [oc.param(f"q{k}", output=2) @ oc.data(np.ones((4, 3))) for k in range(5)]
        assert text() == first

    def test_the_order_of_construction_does_not_matter(self):
        """The same parameters get the same shapes however the program was put together."""

        def shapes(reverse: bool) -> dict[str, str]:
            w1, w2, b = oc.param("w1"), oc.param("w2"), oc.param("b", output=4)
            x, y = oc.data(np.ones((5, 3))), oc.data(np.ones((5, 2)))
            if reverse:
                h = oc.Dim("h")
                second = oc.einsum("i -> o => i -> o", w2, i=h)
                out = second @ oc.relu(w1 @ x + b)
                difference = y - out
            else:
                hidden = oc.relu(w1 @ x + b)
                difference = y - w2 @ hidden
            oc.infer(difference)
            return {p.label: str(p.shape) for p in (w1, w2, b)}

        assert shapes(False) == shapes(True) == {"w1": "3->4", "w2": "4->2", "b": "4"}


class TestSettings:
    def step(self) -> tuple[oc.Tensor, oc.Code]:
        p = param("p", np.arange(3.0))
        loss = total(oc.tanh(p) * p)
        return p, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)

    def result(self) -> Array:
        p, code = self.step()
        ctx = oc.Context.auto()
        routine = ctx.compile(code, name="settled_step")
        ctx.init_params(p)
        routine()
        return ctx[p]

    def test_dump(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        plain = self.result()
        monkeypatch.setenv("OCANNL_DUMP", str(tmp_path / "new" / "folder"))
        np.testing.assert_array_equal(self.result(), plain)
        files = [file for file in (tmp_path / "new" / "folder").rglob("*") if file.is_file()]
        names = " ".join(sorted(file.name for file in files))
        for name in PASSES:
            assert name in names
        assert all("settled_step" in str(file) for file in files)
        assert all(file.read_text().strip() for file in files)

    def test_verify(self, monkeypatch: pytest.MonkeyPatch):
        plain = self.result()
        monkeypatch.setenv("OCANNL_VERIFY", "1")
        np.testing.assert_array_equal(self.result(), plain)

    @pytest.mark.parametrize("cache", ["off", "folder"])
    def test_cache(self, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        plain = self.result()
        monkeypatch.setenv("OCANNL_CACHE", "off" if cache == "off" else str(tmp_path / "cache"))
        for _ in range(2):
            np.testing.assert_array_equal(self.result(), plain)
        assert not Path("off").exists()

    def test_an_unwritable_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "file").write_text("a file where a folder is asked for")
        monkeypatch.setenv("OCANNL_CACHE", str(tmp_path / "file"))
        with pytest.warns(RuntimeWarning, match="cache"):
            self.result()

    def test_backend(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCANNL_BACKEND", "cpu")
        self.result()
        monkeypatch.setenv("OCANNL_BACKEND", "abacus")
        with pytest.raises(oc.DeviceError, match="abacus"):
            oc.Context.auto()

    def test_timing(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        monkeypatch.setenv("OCANNL_TIMING", "1")
        monkeypatch.setenv("OCANNL_CACHE", "off")
        self.result()
        output = capsys.readouterr()
        for name in PASSES:
            assert name in output.out + output.err

    @pytest.mark.parametrize("threads", ["1", "2", "3"])
    def test_threads(self, threads: str, monkeypatch: pytest.MonkeyPatch):
        plain = self.result()
        monkeypatch.setenv("OCANNL_THREADS", threads)
        assert repr(oc.Context.auto()).startswith(f"<context cpu: {threads} thread")
        np.testing.assert_array_equal(self.result(), plain)

    @pytest.mark.parametrize("threads", [None, ""])
    def test_threads_by_default(self, threads: str | None, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("OCANNL_THREADS", raising=False)
        if threads is not None:
            monkeypatch.setenv("OCANNL_THREADS", threads)
        five = dataclasses.replace(system(), cores=lambda: 5)
        monkeypatch.setattr("ocannl.runtime.host.threads.system", lambda: five)
        assert oc.Context.cpu().team.wanted == oc.Context.auto().team.wanted == 5
        assert oc.Context.cpu(threads=2).team.wanted == 2

    @pytest.mark.parametrize("threads", ["many", "0", "-1", "1.5", "²"])
    def test_threads_that_are_no_number(self, threads: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCANNL_THREADS", threads)
        with pytest.raises(oc.DeviceError, match="OCANNL_THREADS is a number of threads, at least 1"):
            oc.Context.cpu()

    def test_profiling_tells_times_and_changes_nothing(self):
        p, code = self.step()
        ctx = oc.Context.cpu()
        routine = ctx.compile(code, name="step")
        with pytest.raises(oc.UninitializedError, match="reads `p`"):
            routine.profile()
        ctx.init_params(p)
        before = np.asarray(ctx[p])
        heading, *kernels = routine.profile(runs=3).splitlines()
        assert heading.split() == ["kernel", "space", "schedule", "flops", "bytes", "time", "GFLOP/s", "GB/s"]
        assert len(kernels) == len(routine.schedule().splitlines()) - 1
        assert all(re.search(r"\d us +\S+ +\S+$", line) for line in kernels), kernels
        np.testing.assert_array_equal(ctx[p], before)
        with pytest.raises(ValueError, match="number of runs"):
            routine.profile(runs=0)

    def test_the_totals_of_memory_are_those_of_the_nodes(self):
        x = oc.param("x", [float(i) for i in range(8)])
        waves = oc.tanh(x).named("waves")
        total = waves.einsum("i => 0").named("total")
        routine = oc.Context.cpu().compile((total * waves).named("y"))
        *nodes, last = routine.memory().splitlines()
        assert {line.split()[0]: line.split()[2] for line in nodes[1:]} == {
            "x": "on_device",
            "waves": "local",
            "total": "local",
            "y": "on_device",
        }
        assert last == "132 bytes: an arena of 68, 64 in memory of their own"

    def test_what_was_compiled_can_be_read(self):
        _, code = self.step()
        routine = oc.Context.cpu().compile(code, name="settled_step")
        assert "settled_step" in routine.ir("loops")
        assert "p" in routine.memory()
        assert "gradient" in routine.memory()
        assert routine.schedule()
        assert "settled_step" in repr(routine)
