"""Programs in stages that cannot be, and stages that fail: an error with the user's line."""

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

POINTS = np.random.default_rng(5).normal(size=(6, 4))


def mesh(microbatches: int = 2, stages: int = 2, timeout: float = 20.0) -> oc.Mesh:
    return oc.Mesh({"stage": stages}, microbatches=microbatches, engine="threads", timeout=timeout)


def points(shard: Any = None) -> oc.Tensor:
    return oc.data(POINTS, label="x", shard={"batch": "microbatch"} if shard is None else shard)


def test_a_stage_that_reads_what_a_later_one_computes():
    with oc.stage(1):
        h = nn.linear(out_dim=3)(points()).named("h")
    with (
        oc.stage(0),
        pytest.raises(oc.OcannlError, match=r"py:\d+: stage 0 reads `h`, which stage 1 computes"),
    ):
        oc.relu(h)


@pytest.mark.parametrize("number", [-1, 1.5, "first"])
def test_a_number_that_is_no_stage(number: Any) -> None:
    with pytest.raises(oc.ArgumentError, match="the number of a stage is"):
        oc.stage(number)


def test_a_stage_that_the_mesh_has_not():
    with oc.stage(2):
        y = nn.linear(out_dim=3)(points())
    with pytest.raises(
        oc.OcannlError, match=r'py:\d+: there is no stage 2: the mesh has 2 ranks along "stage"'
    ):
        oc.Context.cpu(mesh=mesh()).compile(oc.forward(y))


def test_microbatches_that_do_not_divide():
    with oc.stage(0):
        y = nn.linear(out_dim=3)(points())
    with pytest.raises(oc.OcannlError, match=r"py:\d+: 4 microbatches do not divide the 6 positions of `x`"):
        oc.Context.cpu(mesh=mesh(4)).compile(oc.forward(y))


def test_microbatches_that_do_not_divide_the_part_of_a_rank():
    x = oc.data(np.zeros((6, 3)), label="x", shard={"batch": ("data", "microbatch")})
    axes = oc.Mesh({"data": 2}, microbatches=2, engine="threads")
    with pytest.raises(oc.OcannlError, match=r"2 microbatches .* 3 positions of `x` that a rank has"):
        oc.Context.cpu(mesh=axes).compile(oc.forward(oc.param("w", output=2) @ x))


def test_microbatches_are_no_ranks():
    with pytest.raises(oc.ArgumentError, match="microbatches are no axis of ranks"):
        oc.Mesh({"microbatch": 2})
    with pytest.raises(oc.ArgumentError, match="there are 1024 microbatches at most, found 65536: each is"):
        oc.Mesh({"stage": 2}, microbatches=65536)
    with pytest.raises(oc.ArgumentError, match="the number of microbatches is at least 1"):
        oc.Mesh({"stage": 2}, microbatches=0)


def test_statistics_of_a_batch():
    with oc.stage(0):
        h = nn.batch_norm1d()(nn.linear(out_dim=3)(points()), train_step=oc.constant(1))
    with oc.stage(1):
        loss = (nn.linear(out_dim=2)(h) ** 2).sum()
    with pytest.raises(
        oc.OcannlError, match=r"py:\d+: .* needs all microbatches, which are computed one after"
    ):
        oc.Context.cpu(mesh=mesh()).compile(train.grad_update(loss))


def test_what_microbatches_would_compute_twice():
    with oc.stage(0):
        w = oc.param("w", 1.0, output=3)
        h = w @ points()
    with oc.stage(1):
        y = (oc.param("v", 1.0, output=3) @ h).sum()
    code = oc.forward(y) + oc.set(w, 2.0) + oc.forward(y)
    with pytest.raises(oc.OcannlError, match=r"py:\d+: microbatches compute this twice in one routine"):
        oc.Context.cpu(mesh=mesh()).compile(code)


def test_what_is_for_one_function():
    with oc.stage(0):
        h = nn.linear(out_dim=3)(points())
    with oc.stage(1):
        y = nn.linear(out_dim=3)(h).sum()
    ctx = oc.Context.cpu(mesh=mesh())
    step = ctx.compile(oc.forward(y), name="step")
    ctx.init_params(y)
    assert step.schedule().startswith("stage 0\n")
    assert "\nstage 1\n" in step.schedule()
    assert "stage 1" in step.memory()
    with pytest.raises(oc.OcannlError, match=r"py:\d+: C has no exchanges among ranks"):
        step.ir("c")
