"""Programs on a mesh of ranks as threads: what one device gives."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.mesh_programs import POINTS, TARGETS, divided_positions, mlp, perceptron, recurrent

import ocannl as oc
from ocannl import nn, train
from ocannl.lowering.pipelines import PIPELINES, module_text, run_passes
from ocannl.program.module.extract import extract

Values = Mapping[str, NDArray[Any]]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("program", [perceptron, recurrent, divided_positions])
def test_a_program_gives_on_a_mesh_what_it_gives_on_one_device(
    program: Callable[[oc.Context, Any], Values], ranks: int
) -> None:
    expected = program(oc.Context.cpu(1), None)
    mesh = oc.Mesh({"data": ranks}, engine="threads", timeout=20)
    found = program(oc.Context.cpu(mesh=mesh), {"batch": "data"})
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


def test_runs_on_a_mesh_have_the_same_bits_each_time() -> None:
    mesh = oc.Mesh({"data": 2, "model": 2}, engine="threads", timeout=20)
    first, second = (perceptron(oc.Context.cpu(mesh=mesh), {"batch": "data"}) for _ in range(2))
    assert all((first[name] == second[name]).all() for name in first)


def test_an_axis_that_the_mesh_has_not():
    x = oc.data(np.ones((8, 6), np.float32), label="x", shard={"batch": "modle"})
    ctx = oc.Context.cpu(mesh=oc.Mesh({"model": 2}, engine="threads"))
    with pytest.raises(oc.OcannlError, match=r'py:\d+: the mesh \(model = 2\) has no axis "modle"'):
        ctx.compile(oc.forward(x * 2.0))


def test_more_ranks_than_threads():
    mesh = oc.Mesh({"data": 10**6}, engine="threads")
    with pytest.raises(
        oc.DeviceError, match=r"py:\d+: 1000000 ranks are too many threads for one process: 1024"
    ):
        oc.Context.cpu(1, mesh=mesh)


def test_what_is_for_one_device_alone(tmp_path: Path):
    x = oc.data(np.ones((8, 6), np.float32), label="x", shard={"batch": "data"})
    total = oc.sum((oc.param("w", 2.0, output=3) @ x) ** 2)
    ctx = oc.Context.cpu(mesh=oc.Mesh({"data": 2}, engine="threads"))
    step = ctx.compile(oc.forward(total), name="step")
    ctx.init_params(total)
    step()
    with pytest.raises(oc.DeviceError, match="schedules are tuned for one device, not for a mesh"):
        oc.tune(step, seconds=1)
    with pytest.raises(oc.DeviceError, match="libraries are made for one device, not for a mesh"):
        oc.export(step, tmp_path / "step.o")
    ctx.save(tmp_path / "state.safetensors", step)
    ctx[next(iter(oc.params(total).values()))] = 0
    ctx.load(tmp_path / "state.safetensors", step)
    step()
    assert float(ctx[total]) == 8 * 3 * 12.0**2


@pytest.mark.exhaustive
def test_the_text_of_a_routine_is_that_for_its_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    """At all levels, whatever mesh was made last, before memory is split and after."""
    monkeypatch.setenv("OCANNL_TARGET", "host")
    ctx = oc.Context.cpu(mesh=oc.Mesh({"data": 2}, engine="threads"))
    oc.Mesh({"other": 3})
    x, y = (oc.data(own, label="x", shard={"batch": "data"}) for own in (POINTS, TARGETS))
    loss = nn.mse(mlp()(x), y)
    routine = ctx.compile(train.grad_update(loss), name="step")
    for _ in range(2):
        for stage, exchange in (("partition", "all_reduce"), ("schedule", "all_gather")):
            assert exchange in routine.ir(stage)
        nodes, loops = [line.split()[0] for line in routine.memory().splitlines()[1:-1]], routine.ir("loops")
        assert [name for name in nodes if f'"{name}"' not in loops] == []
        assert any(name.endswith("bucket_rows") for name in nodes)
        ctx.init_params(loss)
        routine()


def test_layers_that_exchange_something_are_compiled_once() -> None:
    """No pass runs twice, and the exchange of each layer is there."""
    h = oc.data(POINTS, label="x")
    for k in range(6):
        h = oc.tanh(oc.param(f"w{k}", output=4, shard={"input": "data"}) @ h)
    program = extract(oc.forward((h**2).sum()).statements, "step")
    program.routine.set_mesh({"data": 2})
    seen: list[str] = []
    run_passes(program.module, PIPELINES["cpu"], observe=lambda name, *_: seen.append(name))
    assert seen == [each.name for each in PIPELINES["cpu"]]
    assert module_text(program.module).count("loops.collective start") >= 6
