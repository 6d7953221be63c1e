"""Exchanges that are on their way while ranks compute: the same bits, and kernels between start and wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.mesh_programs import divided_experts, divided_parameters, perceptron, recurrent

import ocannl as oc
from ocannl import nn, train
from ocannl.passes.loops import overlap_collectives

Values = Mapping[str, NDArray[Any]]
Program = Callable[[oc.Context, Any], Values]


def language_model(ctx: oc.Context, shard: Any) -> tuple[oc.Tensor, oc.Routine]:
    """A step of training of a small decoder on characters."""
    ids = np.random.default_rng(0).integers(0, 60, (8, 33)).astype(np.int32)
    x, y = (oc.data(own, axes="bb", label="ids", shard=shard) for own in (ids[:, :-1], ids[:, 1:]))
    h = nn.decoder_only(1, 4, d_k=24, d_v=24, d_ff=192)(nn.embedding(num=60, dim=96)(x))
    loss = nn.cross_entropy(nn.linear(out_dim=60)(h), y).named("loss")
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss)
    return loss, step


def trained(ctx: oc.Context, shard: Any) -> Values:
    """The losses of some steps."""
    loss, step = language_model(ctx, shard)
    return {"losses": step.run_loop(epochs=3, record=[loss])[loss]}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("program", [perceptron, recurrent, divided_experts, divided_parameters, trained])
def test_bits_are_those_without(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small programs with all checks of the text between passes."""
    monkeypatch.setenv("OCANNL_VERIFY", str(int(program is not trained)))

    def found() -> Values:
        mesh = oc.Mesh({"data": 2}, engine="threads", timeout=60)
        return program(oc.Context.cpu(1, mesh=mesh), {"batch": "data"})

    overlapped = found()
    monkeypatch.setenv("OCANNL_VERIFY", "0")
    monkeypatch.setattr(overlap_collectives, "overlap", lambda *_: None)
    for name, value in found().items():
        assert value.tobytes() == overlapped[name].tobytes(), name


@pytest.mark.exhaustive
def test_a_trace_has_kernels_between_start_and_wait(tmp_path: Path) -> None:
    """In the backward step of a decoder: during both parts of most large sums, that of the last gradients
    among those that are not.
    """
    ctx = oc.Context.cpu(1, mesh=oc.Mesh({"data": 2}, engine="threads"))
    _, step = language_model(ctx, {"batch": "data"})
    step()
    with ctx.trace(tmp_path / "trace.json"):
        step()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = sorted([e for e in events if e.get("cat") == "kernel"], key=lambda event: event["ts"])
    names = [event["name"] for event in kernels]
    steps = [line for line in step.ir("overlap-collectives").splitlines() if line.startswith("    loops.")]
    exchanges = [at for at, line in enumerate(steps) if "loops.collective" in line]
    assert len(names) == len(steps)
    assert [at for at, name in enumerate(names) if name.startswith(("start", "wait"))] == exchanges
    during: list[int] = []
    for at in exchanges:
        if " start " in steps[at]:
            end = steps.index(steps[at].replace(" start ", " wait "))
            during.append(sum(name.startswith(("start", "wait")) is False for name in names[at:end]))
    assert len(during) >= 12
    assert sum(count > 0 for count in during) >= 0.8 * len(during)
    assert sum(during) >= 3 * len(during)
