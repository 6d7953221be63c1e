"""`oc.tune`: it improves a bad default, keeps what it finds, and leaves the nodes alone.

What is run is run, but the times are made up: a nest with vectors takes less than one without.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl import train
from ocannl.dialects.assign import NodeOp
from ocannl.dialects.ir.text_printer import op_text
from ocannl.execute import tuning
from ocannl.passes.analysis.costs.tile_cost import TileCost
from ocannl.passes.analysis.schedules.nest_facts import ScopeFacts
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.cpu.profile import Clocked
from ocannl.runtime.interface import the_func
from ocannl.runtime.memory import ArgBlock
from ocannl.runtime.tune import tune as tuner

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


SLOW, FAST = 10, 1
SECONDS = 60.0


class Clock:
    """Each look at it takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += 1
        return self.now


class MadeUpTicks(Clocked):
    """Runs, and tells ticks by the schedules."""

    def __init__(self, module: ModuleOp, args: ArgBlock, target: TargetDescription) -> None:
        super().__init__(module, args, target)
        steps = (op for op in the_func(module).body.block.ops if not isinstance(op, NodeOp))
        self.costs = np.array([FAST if "lanes" in op_text(step) else SLOW for step in steps])

    def run(self, times: int = 1) -> NDArray[np.int64]:
        super().run(times)
        return self.costs * times


def made_up_time(routine: oc.Routine, runs: int) -> float:
    """Runs a routine; its time is less with the schedules that tuning has found."""
    for _ in range(runs):
        routine()
    return FAST if "<tuned" in routine.schedule() else SLOW


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tuner sees no other times than those made up."""
    clock = Clock()
    for module in (tuner, tuning):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(tuner, "Clocked", MadeUpTicks)
    monkeypatch.setattr(tuning, "timed", made_up_time)


@pytest.fixture
def bad_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cost model to which all schedules are alike: it takes the first, which has no vectors."""

    def same(cost: TileCost, facts: ScopeFacts) -> float:
        return 1.0

    monkeypatch.setattr(TileCost, "nest", same)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("bad_default", "made_up")
def test_a_bad_default_is_improved_and_found_again():
    model = Model()
    assert "lanes" not in model.step.schedule()
    model.step(batch_n=1)
    before = np.asarray(model.context[model.w])
    tuned = oc.tune(model.step, seconds=SECONDS)
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


@pytest.mark.exhaustive
@pytest.mark.usefixtures("bad_default", "made_up")
def test_layers_that_were_left_out_are_tuned_like_the_others():
    x = oc.data(np.ones((64, 96), np.float32), axes="bo", label="x")
    y = x
    for layer in range(8):
        y = oc.relu(oc.param(f"w{layer}", input=[96], output=[96]) @ y)
    context = oc.Context.cpu(threads=1)
    step = context.compile(y, name="layers")
    assert "layers = " in step.ir("fold-layers")
    context.init_params(y)
    tuned = oc.tune(step, seconds=SECONDS)
    rows = [line for line in tuned.schedule().splitlines() if "add(k=96)" in line]
    assert len(rows) == 8
    schedules = {row[row.index("<") : row.index(">")] for row in rows}
    assert len(schedules) == 1
    assert schedules.pop().startswith("<tuned")


@pytest.mark.usefixtures("bad_default", "made_up")
def test_a_routine_that_is_not_faster_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    """Though its nests are faster one by one."""
    compared: set[bool] = set()

    def alike(routine: oc.Routine, runs: int) -> float:
        compared.add("<tuned" in routine.schedule())
        return FAST

    monkeypatch.setattr(tuning, "timed", alike)
    model = Model()
    assert oc.tune(model.step, seconds=SECONDS) is model.step
    assert compared == {False, True}
    assert "<tuned" not in Model().step.schedule()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("bad_default", "made_up")
def test_without_a_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_CACHE", "off")
    tuned = oc.tune(Model().step, seconds=SECONDS)
    assert "<tuned" in tuned.schedule()
    assert "<tuned" not in Model().step.schedule()
    again = oc.tune(tuned, seconds=SECONDS)
    assert "<tuned" in again.schedule()


def test_a_nest_with_nothing_to_choose():
    x = oc.param("x", 2.0, input=[], output=[])
    with oc.code("double") as double:
        x *= 2
    ctx = oc.Context.cpu(threads=1)
    ctx.init_params(double)
    step = ctx.compile(double, name="double")
    assert oc.tune(step, seconds=0.2) is step
    assert float(ctx[x]) == 2.0
    assert tuning.timed(step, 3) >= 0
    assert float(ctx[x]) == 16.0


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
