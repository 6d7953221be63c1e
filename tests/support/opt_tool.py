"""`ocannl-opt` in tests: texts of every stage to run it on, and what it has done."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import ocannl as oc
from ocannl import train
from ocannl.lowering.pipelines import LEVELS, PIPELINES, stage_names
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET

PASSES = [p.name for p in PIPELINES["cpu"]]
STAGES = list(stage_names("cpu"))
POSITION = re.compile(r":\d+:\d+|line \d+", re.IGNORECASE)
ROUTINE = """builtin.module {{
  texpr.routine @r {{
    %x = texpr.data "x" : !texpr.tensor<4 | 3, f32>
    %w = texpr.param "w" : !texpr.tensor<3 -> 2, f32>
    {}
  }}
}}
"""


@lru_cache
def moons_step() -> oc.Routine:
    """The step of half-moons, compiled for the target that the tool has by default."""
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, (8, 10, 2)).astype(np.float32)
    batch_n, step_n = oc.index("batch_n", 8), oc.index("step_n")
    x, y = oc.data(points, label="moons_flat"), oc.data(np.sign(points[..., :1]), label="moons_classes")
    w1, w2, w3 = (oc.param(f"w{k}") for k in (1, 2, 3))
    b1, b2 = (oc.param(f"b{k}", 0.0, output=16) for k in (1, 2))
    scores = w3 @ oc.relu(b2 + w2 @ oc.relu(b1 + w1 @ x[batch_n]))
    loss = oc.relu(1 - y[batch_n] * scores).einsum("...|... => 0") / 10
    update = train.sgd_update(loss, learning_rate=0.1 * (32 - step_n) / 16, momentum=0.9, weight_decay=1e-4)
    ctx = oc.Context.cpu(target=DEFAULT_TARGET.cpu)
    return ctx.compile(train.grad_update(loss) + update, name="moons_step")


@lru_cache
def moons(stage: str) -> str:
    """The text of the step at a stage."""
    return moons_step().ir(stage)


@dataclass
class Done:
    """A run of the tool: its exit code, and what it printed."""

    code: int
    out: str
    err: str


Opt = Callable[..., Done]


def passes_after(stage: str) -> list[str]:
    if stage == "texpr":
        return PASSES
    last = LEVELS[stage].name if stage in LEVELS else stage
    return PASSES[PASSES.index(last) + 1 :]


def check_report(done: Done):
    """An error is reported in a few lines of the tool's own."""
    assert done.code == 1
    assert "error" in done.err.lower()
    assert "Traceback" not in done.err + done.out
    assert "AssertionError" not in done.err
    assert len(done.err.splitlines()) <= 25, done.err


def check_located(done: Done):
    check_report(done)
    assert POSITION.search(done.err), done.err
