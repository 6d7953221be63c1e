"""`oc.tune`: it improves a bad default, keeps what it finds, and leaves the nodes alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.execute import tuning
from ocannl.passes.analysis.nest_facts import ScopeFacts
from ocannl.passes.analysis.tile_cost import TileCost

PROGRAM = """
import numpy as np, ocannl as oc
from ocannl import train
rng = np.random.default_rng(0)
x = oc.data(rng.normal(size=(3, 64, 96)).astype(np.float32), label="x")[oc.index("batch_n", 3)]
w = oc.param("w", rng.normal(size=(80, 96)).astype(np.float32), input=96, output=80)
loss = ((w @ x) ** 2).einsum("...|... => 0").named("loss")
code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=1e-6)
"""


class Model:
    """The names of the program."""

    def __init__(self) -> None:
        names: dict[str, Any] = {}
        exec(PROGRAM, names)
        self.w: oc.Tensor = names["w"]
        self.loss: oc.Tensor = names["loss"]
        self.context = oc.Context.cpu(threads=1)
        self.context.init_params(self.loss)
        self.step = self.context.compile(names["code"], name="step")


@pytest.fixture(autouse=True)
def own_tunings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))


@pytest.fixture
def bad_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cost model to which all schedules are alike: it takes the first, which has no vectors."""

    def same(cost: TileCost, facts: ScopeFacts) -> float:
        return 1.0

    monkeypatch.setattr(TileCost, "nest", same)


@pytest.mark.usefixtures("bad_default")
def test_a_bad_default_is_improved_and_found_again():
    model = Model()
    assert "lanes" not in model.step.schedule()
    model.step(batch_n=1)
    before = np.asarray(model.context[model.w])
    tuned = oc.tune(model.step, seconds=1.5)
    np.testing.assert_array_equal(model.context[model.w], before)
    assert tuned is not model.step
    assert "<tuned" in tuned.schedule()
    assert "<tuned" in tuned.ir("loops")
    assert "lanes" in tuned.schedule()
    assert [tuned[index] for index in tuned.indices] == [1]

    model.step(batch_n=2)
    expected = float(model.context[model.loss]), np.asarray(model.context[model.w])
    model.context[model.w] = before
    tuned(batch_n=2)
    np.testing.assert_allclose(float(model.context[model.loss]), expected[0], rtol=1e-5)
    np.testing.assert_allclose(model.context[model.w], expected[1], rtol=1e-5, atol=1e-6)
    recorded = tuned.run_loop(record=[model.loss * 2])
    assert all(np.isfinite(values).all() for values in recorded.values())

    assert Model().step.schedule() == tuned.schedule()
    program = PROGRAM + "print(oc.Context.cpu().compile(code, name='step').schedule())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    tuned_lines = [line for line in tuned.schedule().splitlines() if "<tuned" in line]
    assert [line for line in done.stdout.splitlines() if "<tuned" in line] == tuned_lines


@pytest.mark.usefixtures("bad_default")
def test_layers_that_were_left_out_are_tuned_like_the_others():
    x = oc.data(np.ones((64, 96), np.float32), axes="bo", label="x")
    y = x
    for layer in range(8):
        y = oc.relu(oc.param(f"w{layer}", input=[96], output=[96]) @ y)
    context = oc.Context.cpu(threads=1)
    step = context.compile(y, name="layers")
    assert "layers = " in step.ir("fold-layers")
    context.init_params(y)
    tuned = oc.tune(step, seconds=1.5)
    rows = [line for line in tuned.schedule().splitlines() if "add(k=96)" in line]
    assert len(rows) == 8
    schedules = {row[row.index("<") : row.index(">")] for row in rows}
    assert len(schedules) == 1
    assert tuned is step or schedules.pop().startswith("<tuned")


def test_a_routine_that_is_not_faster_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def always_slower(tuned: oc.Routine, step: oc.Routine, end: float) -> bool:
        assert "<tuned" in tuned.schedule()
        return False

    with monkeypatch.context() as patch:
        patch.setattr(TileCost, "nest", lambda cost, facts: 1.0)
        patch.setattr(tuning, "is_faster", always_slower)
        model = Model()
        assert oc.tune(model.step, seconds=0.5) is model.step
        assert "<tuned" not in Model().step.schedule()


@pytest.mark.usefixtures("bad_default")
def test_without_a_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_CACHE", "off")
    tuned = oc.tune(Model().step, seconds=0.5)
    assert "<tuned" in tuned.schedule()
    assert "<tuned" not in Model().step.schedule()
    again = oc.tune(tuned, seconds=0.2)
    assert "<tuned" in again.schedule()


def test_a_nest_with_nothing_to_choose():
    x = oc.param("x", 2.0, input=[], output=[])
    with oc.code("double") as double:
        x *= 2
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(double)
    step = ctx.compile(double, name="double")
    oc.tune(step, seconds=0.2)()
    assert float(ctx[x]) == 4.0


def test_errors():
    model = Model()
    no_routine: Any = model.loss
    with pytest.raises(TypeError, match="takes a compiled routine"):
        oc.tune(no_routine)
    with pytest.raises(ValueError, match="positive number"):
        oc.tune(model.step, seconds=0)
    p = oc.param("p", output=3)
    code = train.grad_update(p.einsum("...|... => 0"))
    with pytest.raises(oc.UninitializedError, match="reads `p`"):
        oc.tune(oc.Context.cpu().compile(code, name="unset"))
    emulated = oc.Context.emulated_gpu().compile(model.step.code, name="step")
    with pytest.raises(oc.DeviceError, match="tuned for the CPU; this routine runs on 'emulated_gpu'"):
        oc.tune(emulated)
