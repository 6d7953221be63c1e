"""Reasons of a routine on a GPU name its kernels, as those of the CPU name nests."""

from __future__ import annotations

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.kernel import LaunchOp


def model() -> tuple[oc.Routine, oc.Tensor, oc.Tensor, oc.Tensor]:
    ctx, x = oc.Context.emulated_gpu(), oc.data(np.ones((64, 32), np.float32), label="x")
    y = oc.relu(oc.param("w1", output=16) @ x).named("y")
    z = (oc.param("w2", output=8) @ y).named("z")
    loss = (z * z).sum().named("l")
    ctx.init_params(loss)
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    return ctx.compile(code, name="step"), y, z, loss


def test_kernels_that_compute_and_read_a_node():
    step, y, _, _ = model()
    reasons = step.why(y)
    assert reasons.answer.startswith("`y` has memory inside of a run")
    computed, *read = reasons.lines
    assert computed.place == location_text(y.op)
    assert computed.text.startswith("computed in the kernel 'y' of 4 blocks of 256 threads, with ")
    assert computed.text.endswith(" bytes of shared memory")
    assert all(line.text.startswith("read in the kernel '") for line in read)
    kernels = {launch.label.data: launch for launch in kernels_of(step)}
    assert {line.text.split("'")[1] for line in reasons.lines} == {
        name for name, launch in kernels.items() if any(_touches(launch, "y"))
    }


def kernels_of(step: oc.Routine) -> list[LaunchOp]:
    module = step.lowered(step.context.device.target, "gpu")
    return [op for op in module.walk() if isinstance(op, LaunchOp)]


def _touches(launch: LaunchOp, name: str) -> list[bool]:
    return [True for op in launch.walk() for value in op.operands if value.name_hint == name]


def test_a_node_without_memory_is_part_of_a_kernel():
    step, _, z, _ = model()
    lines = step.why("n3").lines
    assert lines[0].text.startswith("its expression is part of the kernel 'y' of 4 blocks of 256 threads")
    assert step.why(z).lines[0].text.startswith("computed in the kernel 'z")


def test_which_of_two_waits():
    step, y, z, loss = model()
    assert str(step.why(y, z)).splitlines() == [
        "`z` waits for `y`",
        f"  {location_text(y.op)}: the kernel 'y' stores `y`",
        f"  {location_text(z.op)}: the kernel 'z .. n' reads `y`",
    ]
    assert step.why(loss, y).answer == "`l` waits for `y`"
    assert step.why("x", y).answer == "no kernel stores `x`: nothing waits for it"
    assert "computed at once, by the kernel 'l .. l.grad'" in step.why(loss, "l.grad").answer


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["cpu", "emulated_gpu"])
def test_what_a_loop_computes(backend: str):
    ctx, xs = oc.Context(backend), oc.data(np.ones((3, 4)), axes="bo", label="xs")
    w = oc.param("w", output=4)
    ys, _ = oc.scan(lambda h, x: ((new := oc.tanh(w @ h + x)), new), oc.data(np.ones(4)), xs)
    ctx.init_params(ys)
    kind = "nest" if backend == "cpu" else "kernel"
    (line, *_) = ctx.compile(ys).why(w).lines
    assert line.text.startswith(f"read in the {kind} '")
    assert "3 times by the loop @" in line.text
