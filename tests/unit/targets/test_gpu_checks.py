"""The checks of a GPU run, and say what fails."""

from __future__ import annotations

import sys

import gpu_checks
import pytest
from gpu_checks import CHECKS, FEW, checked, main, run_tool, tools
from support.cuda_handles import CUresult
from support.cuda_on_cpu import FakeDriver, install

SIMPLE = ["driver", "kernel by kernel", "a graph", "an index", "run_loop", "profile"]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    install(monkeypatch, found)
    return found


def test_what_is_right(driver: FakeDriver, capsys: pytest.CaptureFixture[str]):
    names = [*SIMPLE, "f64", "gemm_tn_37x53x71_bf16", "gemm_37x53x71_tf32", "moons"]
    main(names)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert line.startswith(name)
        assert " s  ok, " in line
    assert "Fake GPU, sm_80, CUDA 12.8, memory pools" in lines[0]


def test_a_kernel_that_fails_ends_all(driver: FakeDriver, capsys: pytest.CaptureFixture[str]):
    driver.fails["addition_n1"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    driver.fails["addition_n2"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(SystemExit, match="failed: kernel by kernel"):
        main(SIMPLE)
    *_, last = capsys.readouterr().out.splitlines()
    assert "FAILED: kernel addition_n" in last


def test_after_wrong_results_the_next_check_goes_on(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver):
    monkeypatch.setattr(gpu_checks, "CLOSE", dict.fromkeys(gpu_checks.CLOSE, -1))
    assert checked(["gemm_37x53x71", "driver"]) == ["gemm_37x53x71"]


def test_tools(capsys: pytest.CaptureFixture[str]):
    """Those that are missing have not failed; together they leave time for the checks."""
    assert set(FEW) <= set(CHECKS)
    assert sum(seconds for _, seconds in tools().values()) < 9 * 60
    assert not run_tool("sanitizer", ["no-such-sanitizer"], 1)
    assert "there is no no-such-sanitizer" in capsys.readouterr().out
    assert run_tool("python", [sys.executable, "-c", "raise SystemExit(3)"], 60)
    assert not run_tool("python", [sys.executable, "-c", ""], 60)


def test_unknown_checks(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["gemm"])
    assert "there is no check 'gemm'" in capsys.readouterr().err
