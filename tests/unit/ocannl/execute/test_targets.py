"""Contexts for a processor that is named: right on each that this one runs, text for the others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.host.processor import host, missing_features

LEVELS = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "cortex-a72", "host"]
RUNNABLE = [name for name in LEVELS if name == "host" or not missing_features(processor(name))]
FOREIGN = "x86-64" if host().arch == "aarch64" else "neoverse-v1"

rng = np.random.default_rng(0)


def product(rows: int, summed: int, columns: int) -> tuple[oc.Tensor, NDArray[Any]]:
    left, right = rng.standard_normal((rows, summed)), rng.standard_normal((summed, columns))
    x = oc.data(left.astype(np.float32), label="x")
    y = oc.data(right.astype(np.float32), label="y")
    return oc.einsum("i | k; k | j => i | j", x, y), left @ right


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("sizes", [(1, 65, 33), (37, 64, 48), (33, 65, 129)], ids=str)
def test_products_are_right_on_every_target(target: str, sizes: tuple[int, int, int]):
    result, expected = product(*sizes)
    ctx = oc.Context.cpu(target=target)
    ctx.compile(result)()
    np.testing.assert_allclose(ctx[result], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", RUNNABLE)
def test_functions_are_right_on_every_target(target: str):
    """Their expansions count on products and sums that are rounded once."""
    numbers = np.concatenate([rng.uniform(0.01, 30, 301), [1.0, 2.0, 1e-10, 1e10]])
    for dtype, tolerance in ((np.float32, 3e-7), (np.float64, 1e-15)):
        x = oc.data(numbers.astype(dtype), label="x")
        for found, function in (
            (oc.exp(-x), lambda v: np.exp(-v)),
            (oc.log(x), np.log),
            (oc.tanh(x), np.tanh),
            (x**2.5, lambda v: v**2.5),
        ):
            ctx = oc.Context.cpu(target=target)
            ctx.compile(found)()
            exact = function(numbers.astype(dtype).astype(np.float64)).astype(dtype)
            np.testing.assert_allclose(ctx[found], exact, rtol=tolerance, atol=float(np.finfo(dtype).tiny))


def test_a_target_that_cannot_run_here_has_text():
    result, _ = product(37, 64, 48)
    step = oc.Context.cpu(target=FOREIGN).compile(result)
    assert step.ir("loops") == step.code.ir("loops", target=FOREIGN)
    assert step.ir("loops") != step.code.ir("loops", target="x86-64-v4")
    assert "define" in step.ir("llvm")
    for run in (step, step.profile, step.run_loop):
        with pytest.raises(oc.DeviceError, match=f"code for {FOREIGN} cannot run here"):
            run()


def test_the_environment_names_a_target(monkeypatch: pytest.MonkeyPatch):
    result, _ = product(37, 64, 48)
    monkeypatch.setenv("OCANNL_TARGET", RUNNABLE[0])
    step = oc.Context.cpu().compile(result)
    assert step.ir("loops") == result.forward.ir("loops", target=RUNNABLE[0])
    assert result.forward.ir("loops") == step.ir("loops")
    monkeypatch.setenv("OCANNL_TARGET", "x86-64-v9")
    with pytest.raises(oc.DeviceError, match="there is no target 'x86-64-v9'; did you mean x86-64-v"):
        oc.Context.cpu()


def test_targets_share_no_compiled_routine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))
    result, _ = product(37, 64, 48)
    schedules = {target: oc.Context.cpu(target=target).compile(result).schedule() for target in LEVELS}
    assert schedules["x86-64-v2"] != schedules["x86-64-v3"] != schedules["x86-64-v4"]
    again = {target: oc.Context.cpu(target=target).compile(result).schedule() for target in LEVELS}
    assert again == schedules
