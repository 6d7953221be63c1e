"""Line tables: a debugger stops at lines of the user's program, in the nests that they became."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.host.elf import ObjectFile
from ocannl.runtime.host.jit import emit_object
from ocannl.runtime.host.line_table import line_rows
from ocannl.runtime.host.run import HostRun
from ocannl.runtime.systems.linux import jit_dump, perf_map

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


@pytest.mark.skipif(sys.platform != "linux", reason="perf is Linux'")
def test_what_a_profile_runs_has_lines_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_DEBUG_INFO", "1")
    ctx, y = oc.Context.cpu(1), oc.exp(oc.range(12)).named("y")
    routine = ctx.compile(oc.forward(y), name="clocked")
    before = perf_map().read_text("utf-8").count("clocked.y")
    assert " us" in routine.profile(runs=2)
    assert perf_map().read_text("utf-8").count("clocked.y") == before + 1
    routine()
    np.testing.assert_allclose(ctx[y], np.exp(np.arange(12)), rtol=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="perf is Linux'")
def test_perf_finds_instructions_and_lines(monkeypatch: pytest.MonkeyPatch):
    """The records of the file by which `perf inject --jit` knows code."""
    monkeypatch.setenv("OCANNL_DEBUG_INFO", "1")
    ctx, y = oc.Context.cpu(1), oc.exp(oc.range(12)).named("y")
    routine = ctx.compile(oc.forward(y), name="dumped")
    contents = jit_dump().read_bytes()
    magic, version, size, _, _, pid = struct.unpack_from("<6I", contents)
    assert (magic, version, size, pid) == (0x4A695444, 1, 40, os.getpid())
    loaded, lines, at = dict[str, tuple[int, bytes]](), dict[int, list[tuple[int, int, str]]](), size
    while at < len(contents):
        kind, whole, _ = struct.unpack_from("<2IQ", contents, at)
        record, at = contents[at + 16 : at + whole], at + whole
        if kind == 0:
            _, _, start, place, count, _ = struct.unpack_from("<2I4Q", record)
            name, code = record[40:-count].rstrip(b"\0").decode(), record[-count:]
            assert start == place
            loaded[name] = start, code
        else:
            assert kind == 2
            start, count = struct.unpack_from("<2Q", record)
            rest, lines[start] = record[16:], []
            for _ in range(count):
                place, line, _ = struct.unpack_from("<Q2i", rest)
                file, _, rest = rest[16:].partition(b"\0")
                lines[start].append((place, line, file.decode()))
    assert isinstance(routine.run, HostRun)
    assert loaded["routine dumped"][0] == routine.run.function
    start, code = loaded["dumped.y"]
    assert ctypes.string_at(start, len(code)) == code
    source, mark = (
        Path(__file__).read_text().splitlines(),
        '    routine = ctx.compile(oc.forward(y), name="dumped")',
    )
    wanted = 1 + max(
        n for n, line in enumerate(source[: source.index(mark)]) if "oc.exp(oc.range(12))" in line
    )
    assert {(line, file) for _, line, file in lines[start]} == {(wanted, __file__)}
    places = [place for place, _, _ in lines[start]]
    assert start <= places[0]
    assert places == sorted(places)
    assert places[-1] == start + len(code)


def test_line_tables_are_read_as_other_tools_read_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    dump = shutil.which("llvm-dwarfdump")
    if dump is None:
        pytest.skip("there is no llvm-dwarfdump")
    monkeypatch.setenv("OCANNL_DUMP", str(tmp_path))
    monkeypatch.setenv("OCANNL_DEBUG_INFO", "1")
    training()
    (file,) = tmp_path.glob("step.*.ll")
    for target in ("x86-64-v3", "neoverse-n1"):
        code = emit_object(file.read_text(), processor(target))
        (tmp_path / "code.o").write_bytes(code)
        command = [dump, "--debug-line", str(tmp_path / "code.o")]
        table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = re.findall(r"^0x([0-9a-f]+)\s+(\d+)\s.*?(end_sequence)?$", table, re.M)
        wanted = [(int(place, 16), 0 if end else int(line)) for place, line, end in rows]
        found = line_rows(ObjectFile(code))
        assert [(row.offset, row.line) for row in found] == wanted
        assert len(wanted) > 100


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
