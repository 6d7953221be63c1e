"""Line tables: a debugger stops at lines of the user's program, in the nests that they became."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.runtime.host.run import HostRun
from ocannl.runtime.systems.linux import perf_map

GDB = shutil.which("gdb")
PROGRAM = """\
import numpy as np
import ocannl as oc

x = oc.data(np.arange(12, dtype=np.float32).reshape(3, 4), label="x")
y = oc.exp(x * 0.5)
z = oc.tanh(oc.einsum("b | i => b | 0", y)).named("z")
ctx = oc.Context.cpu(1)
routine = ctx.compile(oc.forward(z), name="f")
routine()
print("done", ctx[z].sum())
"""


def training() -> tuple[oc.Routine, bytes]:
    images = oc.data(np.random.default_rng(0).normal(size=(4, 8, 8, 1)).astype(np.float32), axes="bbbo")
    classes = oc.data(np.arange(4, dtype=np.int32), axes="b")
    features = oc.relu(nn.conv2d(out_channels=4, kernel_size=3)(images))
    scores = nn.linear(out_dim=5)(oc.einsum("b, h, w | c => b | c", features))
    loss = nn.cross_entropy(scores, classes).named("loss")
    ctx = oc.Context.cpu(2)
    step = ctx.compile(train.grad_update(loss) + train.adam_update(loss), name="step")
    ctx.init_params(loss)
    for _ in range(3):
        step()
    return step, ctx[loss].tobytes()


def test_results_are_the_same(monkeypatch: pytest.MonkeyPatch):
    found: list[bytes] = []
    for setting in ("0", "1"):
        monkeypatch.setenv("OCANNL_DEBUG_INFO", setting)
        found.append(training()[1])
    assert found[0] == found[1]


def test_instructions_have_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("OCANNL_DUMP", str(tmp_path))
    monkeypatch.setenv("OCANNL_DEBUG_INFO", "1")
    training()
    (file,) = tmp_path.glob("step.*.ll")
    text = file.read_text()
    lines = Path(__file__).read_text().splitlines()
    named = {int(line) for line in re.findall(r"!DILocation\(line: (\d+)", text)}
    for words in ("features = ", "scores = ", "loss = "):
        assert next(n for n, line in enumerate(lines, 1) if line.strip().startswith(words)) in named
    for function in re.findall(r"^define internal void .*?^}", text, re.M | re.S):
        if "fmul" in function or "fadd" in function:
            assert "!dbg" in function.splitlines()[0]
    assert 'filename: "test_debug_info.py"' in text


def test_stores_past_the_caches_have_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("OCANNL_DUMP", str(tmp_path))
    monkeypatch.setenv("OCANNL_DEBUG_INFO", "1")
    double = (oc.data(np.ones((2048, 4096), np.float32), label="x") * 2.0).named("double")
    oc.Context.cpu(1, target="x86-64-v3").compile(oc.forward(double), name="double")
    (file,) = tmp_path.glob("double.*.ll")
    assert re.search(r"!nontemporal !0, !dbg", file.read_text())


def test_without_it_there_is_none():
    step, _ = training()
    assert "!dbg" not in step.ir("llvm")


@pytest.mark.skipif(sys.platform != "linux", reason="perf is Linux'")
def test_perf_finds_functions(monkeypatch: pytest.MonkeyPatch):
    perf_map().unlink(missing_ok=True)
    monkeypatch.setenv("OCANNL_DEBUG_INFO", "1")
    ctx, y = oc.Context.cpu(1), oc.exp(oc.range(12)).named("y")
    routine = ctx.compile(oc.forward(y), name="perf")
    rows = [line.split(" ", 2) for line in perf_map().read_text("utf-8").splitlines()]
    places = {name: (int(start, 16), int(size, 16)) for start, size, name in rows}
    perf_map().unlink()
    (start, size), (nest, bytes_of_nest) = places["routine perf"], places["perf.y"]
    assert isinstance(routine.run, HostRun)
    assert start == routine.run.function
    assert size > 0
    assert nest + bytes_of_nest <= start or start + size <= nest


@pytest.mark.skipif(GDB is None, reason="there is no gdb")
def test_a_debugger_stops_at_a_line(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(PROGRAM)
    line = next(n for n, text in enumerate(PROGRAM.splitlines(), 1) if text.startswith("y = "))
    commands = [
        "set breakpoint pending on",
        "set confirm off",
        f"break model.py:{line}",
        "run",
        "frame",
        "kill",
    ]
    options = [part for command in commands for part in ("-ex", command)]
    done = subprocess.run(
        [str(GDB), "-q", "-nx", "-batch", *options, "--args", sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OCANNL_DEBUG_INFO": "1"},
    )
    assert re.search(rf"at .*model\.py:{line}\b", done.stdout), done.stdout[-2000:] + done.stderr[-2000:]
    assert re.search(rf"{line}\s+y = oc\.exp", done.stdout)
    assert "done" not in done.stdout
