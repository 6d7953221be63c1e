"""Loops of programs on all backends: scans with gradients, their profiles, and their nests for tuning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.cuda_on_cpu import FakeDriver, install
from support.metal_on_cpu import COMPILER, FakeDevice, install_metal
from support.nests import parse_module

import ocannl as oc
from ocannl.runtime.cpu.profile import Clocked
from ocannl.runtime.host.processor import host
from ocannl.runtime.memory import ArgBlock, aligned_array
from ocannl.runtime.tune.tune import steps_of


def scanned(ctx: oc.Context) -> tuple[oc.Routine, np.ndarray]:
    """A routine with two loops, and the gradient that it computes."""
    rng = np.random.default_rng(0)
    x = oc.data(rng.standard_normal((3, 5, 8)).astype(np.float32) / 2, axes="bbo", label="x")
    w = oc.param("w", rng.standard_normal((8, 8)).astype(np.float32) / 4)

    def cell(h: oc.Tensor, at: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        h = oc.tanh(w @ h + at)
        return h, h

    ys, last = oc.scan(cell, 0.0, x)
    gradient = oc.grad((ys * ys).sum() + last.sum(), w)
    ctx.init_params(gradient)
    step = ctx.compile(gradient, name="step")
    step()
    return step, np.array(ctx[gradient])


def checked(monkeypatch: pytest.MonkeyPatch) -> oc.Context:
    return oc.Context.emulated_gpu(check=True, shuffle=3)


def cuda(monkeypatch: pytest.MonkeyPatch) -> oc.Context:
    install(monkeypatch, FakeDriver())
    return oc.Context.cuda()


def metal(monkeypatch: pytest.MonkeyPatch) -> oc.Context:
    install_metal(monkeypatch, FakeDevice())
    return oc.Context.metal()


NEEDS_COMPILER = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: install clang or g++")


@pytest.mark.parametrize("backend", [checked, cuda, pytest.param(metal, marks=NEEDS_COMPILER)])
def test_scans_run_on_gpus(
    backend: Callable[[pytest.MonkeyPatch], oc.Context], monkeypatch: pytest.MonkeyPatch
):
    _, expected = scanned(oc.Context.cpu(threads=1))
    step, found = scanned(backend(monkeypatch))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if backend is not metal:
        rows = step.profile(runs=1).splitlines()
        loops = [row for row in rows if row.startswith("@step.")]
        assert len(loops) == 2
        assert all(row.endswith("us") and "t=5" in row for row in loops)
        assert {row.endswith("us") for row in rows if row.startswith("  ")} == {backend is checked}


def roots(ctx: oc.Context) -> list[np.ndarray]:
    """Square roots by a loop that ends when they are close, how often it ran, and their gradient."""
    a = oc.param("a", np.array([2.0, 3.0, 10.0], np.float32))

    def body(state: tuple[oc.Tensor, ...]) -> tuple[oc.Tensor, ...]:
        x, count, _ = state
        new = 0.5 * (x + a / x)
        return new, count + 1, ((new - x) * (new - x)).sum()

    start = (1.0 * a, 0.0, 1.0)
    x, count, _ = oc.while_loop(lambda state: state[2] > 1e-6, body, start, most=20)
    gradient = oc.grad(x.sum(), a)
    found: list[np.ndarray] = []
    # Of the second program, types are known from the first.
    for code in (x.forward + count.forward, x.forward + count.forward + gradient.forward):
        ctx.init_params(code)
        ctx.compile(code, name="step")()
        found += [np.array(ctx[x]), np.array(ctx[count])]
    return [*found, np.array(ctx[gradient])]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", [None, checked, cuda, pytest.param(metal, marks=NEEDS_COMPILER)])
def test_loops_with_a_condition_end(
    backend: Callable[[pytest.MonkeyPatch], oc.Context] | None, monkeypatch: pytest.MonkeyPatch
):
    root = np.sqrt([2.0, 3.0, 10.0])
    found = roots(oc.Context.cpu(threads=1) if backend is None else backend(monkeypatch))
    for array, expected in zip(found, [root, 5, root, 5, 0.5 / root], strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5)


def test_a_profile_has_times_of_loops_and_of_what_is_in_them():
    step, _ = scanned(oc.Context.cpu(threads=1))
    rows = step.profile(runs=1).splitlines()
    (at, *_) = [number for number, row in enumerate(rows) if row.startswith("@step.")]
    assert "t=5" in rows[at]
    assert " us " in rows[at]
    assert rows[at + 1].startswith("  ")
    inside = [row for row in rows if row.startswith("  ")]
    assert inside
    assert all(row.endswith(" us") for row in inside)


def test_the_nests_of_bodies_have_clocks():
    """Those of the body come first, as the tuner has them."""
    module = parse_module("""
loops.func @body indices (t = 1000) {
  %x = assign.node "x" on_device : memref<64xf32>
  loops.nest "x" (i = 64) {
    %0 = loops.load %x[i]
    %1 = arith.addf %0, %0 : f32
    loops.store %1, %x[i]
  }
}
loops.func @main {
  %x = assign.node "x" on_device : memref<64xf32>
  %y = assign.node "y" on_device : memref<64xf32>
  loops.repeat @body t = 1000 ("x" = %x)
  loops.nest "y" (i = 64) {
    %0 = loops.load %x[i]
    loops.store %0, %y[i]
  }
}""")
    assert [step.label.data for step in steps_of(module)] == ["x", "y"]
    args, array = ArgBlock(3), aligned_array((64,), np.float32)
    args.set_pointer(1, array)
    args.set_pointer(2, array)
    clocked = Clocked(module, args, host())
    assert clocked.own == [1, 2]
    body, loop, after = clocked.run()
    assert loop >= body > after > 0
