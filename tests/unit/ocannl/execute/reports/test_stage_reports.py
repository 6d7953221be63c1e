"""Profiles, traces, pages and texts of programs in stages: those of each stage."""

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.execute.reports.traced_routine import TracedRoutine

MESH = {"stage": 2, "data": 2}
SHARD = {"batch": ("data", "microbatch")}


def compiled(*, trace: bool = False, check_nans: bool = False) -> tuple[oc.Context, oc.Tensor, oc.Routine]:
    """Two layers in two stages, the batch over two ranks each."""
    x, y = (oc.data(np.full((8, n), 0.5), label=label, shard=SHARD) for label, n in (("x", 3), ("y", 2)))
    with oc.stage(0):
        h = nn.mlp_layer(hid_dim=5)(x)
    with oc.stage(1):
        loss = nn.mse(nn.linear(out_dim=2)(h), y).named("loss")
    ctx = oc.Context.cpu(1, mesh=oc.Mesh(MESH, microbatches=2, engine="threads", timeout=20))
    update = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    step = ctx.compile(update, name="step", trace=trace, check_nans=check_nans)
    ctx.init_params(loss)
    return ctx, loss, step


@pytest.mark.exhaustive
def test_a_profile_has_the_times_of_all_stages(tmp_path: Path) -> None:
    ctx, loss, step = compiled()
    step()
    before = float(ctx[loss])
    table = step.profile(runs=2)
    assert float(ctx[loss]) == before
    first, second = table.split("\n\n")
    assert first.startswith("stage 0\nkernel")
    assert second.startswith("stage 1\nkernel")
    rows = [row for part in (first, second) for row in part.splitlines()[2:] if not row.startswith(" ")]
    assert rows
    assert all(" us " in row for row in rows)
    seconds = step.step_seconds(1)
    assert len(seconds) == len(rows)
    assert sum(seconds.values()) > 0
    packed = re.search(
        r'type="application/octet-stream">([^<]+)<', step.view(tmp_path / "step.html").read_text()
    )
    assert packed is not None
    page = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    shown = [each["label"] for each in page["steps"]]
    assert len(shown) == len(rows)
    assert {"stage 0: send over stage", "stage 1: receive over stage"} <= {*shown}
    assert [each["seconds"] is not None for each in page["steps"]] == [True] * len(rows)
    memory = {each["label"]: (each["first"], each["last"]) for each in page["memory"]}
    stages = [[life for label, life in memory.items() if label.startswith(f"stage {k}")] for k in range(2)]
    borders = [[at for life in of_stage for at in life if at is not None] for of_stage in stages]
    assert max(borders[0]) < min(borders[1]) <= max(borders[1]) < len(rows)


def test_a_timeline_has_the_kernels_of_each_stage_beside_each_other(tmp_path: Path) -> None:
    ctx, _, step = compiled()
    step()
    with ctx.trace(tmp_path / "trace.json"):
        step()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (run,) = [event for event in events if event["cat"] == "run"]
    kernels = [event for event in events if event["cat"] == "kernel"]
    threads = sorted({event["tid"] for event in kernels})
    assert len(threads) == 2
    for thread, message in zip(threads, ("send", "receive"), strict=True):
        own = [event for event in kernels if event["tid"] == thread]
        assert message in {event["name"] for event in own}
        assert own[0]["ts"] == pytest.approx(run["ts"])
        assert sum(event["dur"] for event in own) == pytest.approx(run["dur"])


@pytest.mark.exhaustive
def test_a_trace_has_the_values_of_all_stages() -> None:
    ctx, loss, step = compiled(trace=True)
    other_ctx, expected, other = compiled()
    step()
    other()
    np.testing.assert_allclose(ctx[loss], other_ctx[expected], rtol=1e-6)
    assert isinstance(step, TracedRoutine)
    values = {each.assignment.label: each.value for each in step.trace.steps}
    received = [label for label in values if label.endswith(" of stage 1")]
    assert received
    for label in received:
        first = values[label.removesuffix(" of stage 1")]
        assert first.shape != values[label].shape or (first == values[label]).all()


def test_values_that_are_not_finite_are_found_in_any_stage() -> None:
    ctx, loss, step = compiled(check_nans=True)
    step()
    weight = oc.params(loss)["linear.w"]
    ctx[weight] = np.nan
    with pytest.raises(oc.OcannlError, match=r"py:\d+: .* is the first value that is not finite: nan"):
        step()
