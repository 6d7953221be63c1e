"""`ctx.trace(path)`: compilations, runs and kernels as trace events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


def trained(ctx: oc.Context) -> tuple[oc.Routine, oc.Tensor]:
    loss = nn.mse(nn.mlp(hid_dims=[4], out_dim=2)(oc.data(X)), oc.data(X[:, :2]))
    ctx.init_params(loss)
    return ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), "step"), loss


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in json.loads(path.read_text("utf-8"))["traceEvents"] if event["cat"] == kind]


def test_runs_have_their_kernels_and_change_nothing(tmp_path: Path):
    (ctx, plain), path = (oc.Context.cpu(1), oc.Context.cpu(1)), tmp_path / "trace.json"
    (step, loss), (other, expected) = trained(ctx), trained(plain)
    step()
    with ctx.trace(path):
        step()
        step()
    step()
    for _ in range(4):
        other()
    for p, q in zip(oc.params(loss).values(), oc.params(expected).values(), strict=True):
        np.testing.assert_array_equal(ctx[p], plain[q])
    first, second = events(path, "run")
    assert first["name"] == second["name"] == "step"
    assert first["ts"] + first["dur"] <= second["ts"]
    kernels = events(path, "kernel")
    table = [row.split("  ")[0].strip() for row in step.schedule().splitlines()[1:] if row[0] != " "]
    assert [kernel["name"] for kernel in kernels] == table * 2
    inside = kernels[: len(table)]
    assert inside[0]["ts"] == pytest.approx(first["ts"])
    assert sum(kernel["dur"] for kernel in inside) == pytest.approx(first["dur"])
    assert all(Path(__file__).name in kernel["args"]["line"] for kernel in kernels)
    assert any(kernel["args"]["flops"] >= 2 * 12 * 3 * 4 for kernel in kernels)


def test_compilations_have_their_passes(tmp_path: Path):
    ctx, path = oc.Context.cpu(1), tmp_path / "trace.json"
    with ctx.trace(path):
        step, _ = trained(ctx)
        step.run_loop(epochs=3)
    whole = next(event for event in events(path, "compile") if event["name"] == "compile step")
    names = [event["name"] for event in events(path, "pass")]
    assert [*step.compile_seconds] == names[-len(step.compile_seconds) :]
    assert all(event["dur"] <= whole["dur"] for event in events(path, "pass")[-len(step.compile_seconds) :])
    assert [event["name"] for event in events(path, "loop")] == ["step.run_loop(epochs=3)"]


def test_an_error_inside_ends_the_trace(tmp_path: Path):
    ctx, path = oc.Context.cpu(1), tmp_path / "trace.json"
    step, _ = trained(ctx)

    def traced():
        with ctx.trace(path):
            step()
            step(nothing=1)

    with pytest.raises(oc.OcannlError, match="nothing"):
        traced()
    assert len(events(path, "run")) == 1
    with pytest.raises(oc.ArgumentError, match="being traced already"), ctx.trace(path), ctx.trace(path):
        pass
    before = path.read_text("utf-8")
    step()
    assert path.read_text("utf-8") == before


def test_a_folder_that_is_missing_is_told_at_the_beginning(tmp_path: Path):
    with (
        pytest.raises(oc.ArgumentError, match=r"cannot write .*: there is no folder .*missing"),
        oc.Context.cpu().trace(tmp_path / "missing" / "trace.json"),
    ):
        pytest.fail("the trace began")
