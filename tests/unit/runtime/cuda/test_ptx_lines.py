"""Lines of the user's program in PTX and in what ptxas makes of it, for cuda-gdb and Nsight."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_handles import CUjit_option
from support.cuda_on_cpu import FakeDriver, install

import ocannl as oc
from ocannl import train
from ocannl.runtime.cuda.ptxas import find_ptxas

PTXAS, DWARFDUMP = find_ptxas(), shutil.which("llvm-dwarfdump")
HERE = Path(__file__)


def step() -> oc.Routine:
    x = oc.data(np.ones((64, 32), np.float32), label="x")
    hidden = oc.relu(oc.param("w", output=48) @ x)
    weights = oc.exp(hidden)
    loss = (weights * weights).sum().named("loss")
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    return oc.Context.emulated_gpu().compile(code, name="step")


def lines_of(*words: str) -> set[int]:
    """The lines of this file that begin with some words."""
    lines = HERE.read_text("utf-8").splitlines()
    return {next(n for n, line in enumerate(lines, 1) if line.strip().startswith(word)) for word in words}


WANTED = ("hidden = ", "weights = ", "loss = ")


@pytest.mark.exhaustive
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_instructions_have_the_lines_of_the_program(arch: str, monkeypatch: pytest.MonkeyPatch):
    plain = step().ptx(arch)
    assert ".loc" not in plain
    monkeypatch.setenv("OCANNL_DEBUG_INFO", "1")
    text = step().ptx(arch)
    (number,) = re.findall(rf'^\s*\.file\s+(\d+) "{re.escape(str(HERE))}"', text, re.M)
    found = {int(line) for line in re.findall(rf"^\s*\.loc\s+{number} (\d+)", text, re.M)}
    assert lines_of(*WANTED) <= found
    assert ", debug" not in text


@pytest.mark.skipif(PTXAS is None, reason="there is no ptxas: install nvidia-cuda-nvcc")
@pytest.mark.skipif(DWARFDUMP is None, reason="there is no llvm-dwarfdump")
def test_ptxas_keeps_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("OCANNL_DEBUG_INFO", "1")
    source, made = tmp_path / "step.ptx", tmp_path / "step.cubin"
    source.write_text(step().ptx("sm_90"))
    subprocess.run([str(PTXAS), "-lineinfo", "-arch=sm_90", source, "-o", made], check=True)
    command = [str(DWARFDUMP), "--debug-line", made]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f'name: "{HERE.name}"' in table
    rows = re.findall(r"^0x[0-9a-f]+\s+(\d+)", table, re.M)
    assert lines_of(*WANTED) <= {int(line) for line in rows}


@pytest.mark.parametrize("setting", ["0", "1"])
def test_the_driver_is_asked_to_keep_them(setting: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_DEBUG_INFO", setting)
    monkeypatch.setenv("OCANNL_CACHE", "off")
    driver, given = FakeDriver(), list[dict[CUjit_option, Any]]()
    load = driver.cuModuleLoadDataEx

    def noted(image: bytes, count: int, options: list[CUjit_option], values: list[Any]) -> Any:
        given.append(dict(zip(options, values, strict=True)))
        return load(image, count, options, values)

    driver.cuModuleLoadDataEx = noted  # pyright: ignore[reportAttributeAccessIssue]
    install(monkeypatch, driver)
    ctx, y = oc.Context.cuda(), (oc.range(12) * 2.0).named("y")
    ctx.compile(oc.forward(y))()
    np.testing.assert_array_equal(ctx[y], 2.0 * np.arange(12))
    assert given
    wanted = 1 if setting == "1" else None
    assert {options.get(CUjit_option.CU_JIT_GENERATE_LINE_INFO) for options in given} == {wanted}
