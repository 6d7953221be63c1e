"""The checks of a GPU run, and say what fails."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import gpu
import gpu_checks
import pytest
from gpu_checks import BY_ROLES, CHECKS, FEW, SIMPLE, checked, main, run_tool, side_by_side, tools, watched
from gpu_roofline import kernels_of
from kernels import kernel
from kernels_ocannl import Runs
from support.cuda_handles import CUresult
from support.cuda_on_cpu import FakeDriver, install

import ocannl as oc


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    install(monkeypatch, found)
    return found


@pytest.mark.exhaustive
def test_what_is_right(driver: FakeDriver, capsys: pytest.CaptureFixture[str]):
    names = [*SIMPLE, "f64", "attention in bf16", "gemm_tn_37x53x71_bf16", "gemm_37x53x71_tf32", "moons"]
    names += ["all numbers of bf16", "scores in bf16"]
    main(["--here", *names])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert line.startswith(name)
        assert " s  ok, " in line
    assert "Fake GPU, sm_80, CUDA 12.8, memory pools" in lines[0]


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", BY_ROLES)
def test_products_by_roles(name: str, monkeypatch: pytest.MonkeyPatch):
    """Those that a Hopper GPU checks have roles, which it is asked for."""
    monkeypatch.setenv("OCANNL_CUDA_ROLES", "1")
    assert "kernel.roles" in kernels_of(name, "sm_90a")


def test_a_profile(driver: FakeDriver, capsys: pytest.CaptureFixture[str]):
    gpu.main(["--profile", "moons"])
    assert re.search(r"^w1.grad .* us$", capsys.readouterr().out, re.MULTILINE)


def test_a_kernel_that_fails_ends_its_process(driver: FakeDriver, capsys: pytest.CaptureFixture[str]):
    driver.fails["addition_n1"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    driver.fails["addition_n2"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    main(["--here", *SIMPLE])
    *_, last = capsys.readouterr().out.splitlines()
    assert "FAILED: kernel addition_n" in last


# Checks that end as their names say, each with a line before.
STAND_IN = """
import os, sys, time
for name in sys.argv[1:]:
    how = name.split()[0]
    print("something else", flush=True)
    if how == "hangs":
        time.sleep(60)
    if how == "crashes":
        os.abort()
    if how == "silent":
        break
    said = "FAILED: it is" if how in ("wrong", "spoils") else "ok, fine"
    print(f"{name:34} {0.1:6.1f} s  {said}", flush=True)
    if how == "spoils":
        break
"""


@pytest.mark.exhaustive
def test_the_next_process_goes_on(capfd: pytest.CaptureFixture[str]):
    names = [
        "right 1",
        "wrong 2",
        "spoils 3",
        "right 4",
        "crashes 5",
        "right 6",
        "silent 7",
        "hangs 8",
        "right 9",
    ]
    failed = watched(names, [sys.executable, "-c", STAND_IN], seconds=3)
    assert failed == ["wrong 2", "spoils 3", "crashes 5", "silent 7", "hangs 8"]
    lines = [line for line in capfd.readouterr().out.splitlines() if line != "something else"]
    assert [line[:34].strip() for line in lines] == names
    assert [line[34:].split("FAILED: ")[1] for line in lines if "FAILED" in line] == [
        *("it is", "it is", "exit status -6", "exit status 0", "it takes longer than 3 s")
    ]


def test_several_processes_at_a_time(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_checks, "SIMPLE", ("right 1", "wrong 2"))
    others = ["crashes 3", "right 4", "wrong 5", "right 6"]
    command = [sys.executable, "-c", STAND_IN]
    assert sorted(side_by_side(["right 1", *others], command, 3)) == ["crashes 3", "wrong 5"]
    said = capfd.readouterr().out
    assert [said.count(name) for name in others] == [1, 1, 1, 1]
    assert side_by_side([*others, "wrong 2"], command, 3) == ["wrong 2"]
    assert "right 4" not in capfd.readouterr().out


def test_after_wrong_results_the_next_check_goes_on(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver):
    monkeypatch.setattr(gpu_checks, "CLOSE", dict.fromkeys(gpu_checks.CLOSE, -1))
    assert checked(["gemm_37x53x71", "driver"]) == ["gemm_37x53x71"]


def test_a_large_product(
    driver: FakeDriver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gpu_checks, "LARGE", "gemm_64x32x128_bf16")
    assert checked(["a large product"]) == []
    assert capsys.readouterr().out.endswith("GFLOP/s\n")
    monkeypatch.setattr(gpu_checks, "CLOSE", {"bf16": -1})
    assert checked(["a large product"]) == ["a large product"]


def test_what_only_hopper_has():
    """Its products, and copies in bulk whose ring goes around, are among the checks."""
    name = "gemm_nt_1024x448x1024_bf16"
    assert name in CHECKS
    context = oc.Context.emulated_gpu(arch="sm_90a")
    text = context.compile(Runs(kernel(name)).code, name="product").ptx()
    assert "wgmma.mma_async" in text
    assert text.count("mbarrier.init") < 448 // 64
    assert "cp.async.bulk.tensor" in text


def test_tools(capsys: pytest.CaptureFixture[str]):
    """Those that are missing have not failed; together they leave time for the checks."""
    assert set(FEW) <= set(CHECKS)
    assert sum(seconds for _, seconds in tools().values()) < 9 * 60
    assert not run_tool("sanitizer", ["no-such-sanitizer"], 1)
    assert "there is no no-such-sanitizer" in capsys.readouterr().out
    assert run_tool("python", [sys.executable, "-c", "raise SystemExit(3)"], 60)
    assert not run_tool("python", [sys.executable, "-c", ""], 60)


@pytest.mark.exhaustive
def test_a_tool_that_takes_too_long_ends_with_its_processes(tmp_path: Path):
    noted = tmp_path / "pid"
    program = f"sleep 600 & echo $! > {noted}; wait"
    assert not run_tool("shell", ["sh", "-c", program], 3)
    state = Path(f"/proc/{noted.read_text().strip()}/stat")
    for _ in range(6000):
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("it goes on")


def test_unknown_checks(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["gemm"])
    assert "there is no check 'gemm'" in capsys.readouterr().err
