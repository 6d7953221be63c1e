"""Plans: the bytes of published recipes, what engines send, memory, time, and machines."""

import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.planned import (
    BATCH,
    LAYERS,
    POSITIONS,
    WIDTH,
    Trained,
    counted,
    perceptron,
    sequence_parallel,
    transformer,
)

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.shapes.shape import RowKind
from ocannl.execute.plans.machines import MACHINES
from ocannl.program.meshes.sharding import Shard

MACHINE = "512x8xH100"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 64, 512, 4096])
def test_data_parallel_training_sums_each_gradient_once(ranks: int) -> None:
    plan = oc.plan(perceptron().step, oc.Mesh({"data": ranks}), MACHINE)
    sums = plan.collectives
    total = sum(each.times * each.bytes for each in sums)
    assert {each.kind for each in sums} == {"all_reduce"}
    assert total == plan.memory.parameters + 4  # and the loss
    assert sum(each.sent for each in sums) == pytest.approx(2 * total * (ranks - 1) / ranks, abs=3)
    assert sum(each.ring.messages for each in sums) == len(sums) * 2 * (ranks - 1) * ranks
    assert sum(each.ring.bytes for each in sums) == 2 * (ranks - 1) * total
    # Few bytes are gathered; sums of fewer numbers than there are ranks have parts of one number each.
    assert plan.engine_sent <= plan.sent * (1.25 if ranks > 512 else 1.02)


@pytest.mark.exhaustive
@pytest.mark.parametrize("ranks", [2, 4])
def test_tensor_parallel_layers_have_two_sums_in_each_direction(ranks: int) -> None:
    """Shoeybi et al., "Megatron-LM" (2019); 8bsh(t - 1)/t numbers a layer (Narayanan et al., 2021)."""
    plan = oc.plan(transformer(heads=True).step, oc.Mesh({"model": ranks}))
    assert [(each.kind, each.times) for each in plan.collectives] == [("all_reduce", 1)] * 4 * LAYERS
    numbers = 8 * BATCH * POSITIONS * WIDTH * (ranks - 1) // ranks
    assert plan.sent == 4 * LAYERS * numbers


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("ranks", [2, 4])
def test_positions_in_parts_between_layers_send_as_much(ranks: int) -> None:
    """Sequence parallelism (Korthikanti et al., 2022): a gather and a scattered sum for each of a layer's two
    parts and each direction; gradients of gains and biases are summed at once.
    """
    plan = oc.plan(sequence_parallel().step, oc.Mesh({"model": ranks}))
    size = 4 * BATCH * POSITIONS * WIDTH
    large = [each.kind for each in plan.collectives if each.bytes == size]
    assert [large.count(kind) for kind in ("all_gather", "reduce_scatter")] == [4 * LAYERS] * 2
    assert len(large) == 8 * LAYERS
    sent = sum(each.sent for each in plan.collectives if each.bytes == size)
    assert sent == 8 * LAYERS * size * (ranks - 1) // ranks
    (others,) = [each for each in plan.collectives if each.bytes not in (4, size)]
    assert (others.kind, others.bytes) == ("all_reduce", 4 * 5 * WIDTH * LAYERS)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("row", ["input", "output"])
def test_parameters_in_parts_send_one_and_a_half_times_as_much(row: RowKind, ranks: int) -> None:
    """ZeRO-3 (Rajbhandari et al., 2020). Nothing needs the first weight to go backwards, and small ones are
    gathered once for both directions.
    """
    mesh = oc.Mesh({"data": ranks})
    whole = oc.plan(perceptron().step, mesh, MACHINE)
    parts = oc.plan(perceptron({row: "data"}).step, mesh, MACHINE)
    first = 4 * 256 * 256
    assert {each.kind for each in parts.collectives if each.bytes > 4} == {"all_gather", "reduce_scatter"}
    most = 3 * whole.memory.parameters - first
    assert parts.sent == pytest.approx(most * (ranks - 1) / ranks, rel=1e-2)
    assert parts.sent <= most * (ranks - 1) / ranks
    assert parts.sent <= 1.5 * whole.sent


@pytest.mark.parametrize("is_whole", [False, True])
def test_moments_in_parts_send_what_data_parallel_training_sends(is_whole: bool) -> None:
    """ZeRO-1 and 2 (Rajbhandari et al., 2020); gradients that are whole are sent to all as well."""
    x = oc.data(np.ones((16, 256), np.float32), label="x", shard={"batch": "data"})
    w, opt = oc.param("w", output=256, shard={}), train.adamw(lr=1e-3)
    step = opt.step(oc.mean((w @ x) ** 2).named("loss"))
    alone = oc.plan(step, oc.Mesh({"data": 4}))
    for moment in opt.state_roots():
        if moment.label.endswith(("adam_mean", "adam_square")):
            oc.shard(moment, {"input": "data"})
    if is_whole:
        oc.shard(w.grad, {})
    plan = oc.plan(step, oc.Mesh({"data": 4}))
    numbers = 4 * 256 * 256
    assert plan.memory.parameters == numbers
    assert plan.memory.moments == 2 * numbers // 4
    assert plan.memory.gradients // numbers == is_whole
    assert plan.sent == pytest.approx((1.5 if is_whole else 1) * alone.sent, rel=1e-3)


@pytest.mark.exhaustive
def test_two_axes_of_a_mesh_have_collectives_of_their_own() -> None:
    plan = oc.plan(transformer(batch=True, heads=True).step, oc.Mesh({"data": 2, "model": 2}))
    own = [each for each in plan.collectives if each.axis == "model"]
    assert len(own) == 4 * LAYERS
    assert {each.bytes for each in own} == {4 * BATCH // 2 * POSITIONS * WIDTH}


PROGRAMS: list[tuple[str, Callable[[], Trained]]] = [
    ("data", perceptron),
    ("data", lambda: perceptron({"input": "data"})),
    ("data", lambda: perceptron({"output": "data"})),
    ("data", lambda: transformer(batch=True)),
    ("model", lambda: transformer(heads=True)),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(9)
@pytest.mark.parametrize("ranks", [4, 2])
@pytest.mark.parametrize(("axis", "program"), PROGRAMS)
def test_engines_send_what_is_planned(axis: str, program: Callable[[], Trained], ranks: int) -> None:
    mesh = oc.Mesh({axis: ranks}, engine="threads", timeout=30)
    trained = program()
    plan = oc.plan(trained.step, mesh)
    ctx = oc.Context.cpu(mesh=mesh)
    routine = ctx.compile(trained.step)
    ctx.init_params(trained.loss)
    with counted() as sent:
        routine()
    assert sent.bytes == ranks * plan.engine_sent
    assert sent.messages == sum(each.times * each.engine_messages for each in plan.collectives)
    assert plan.engine_sent >= plan.sent


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", ["data", "model"])
def test_memory_is_that_of_the_routine_without_copies(axis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCANNL_TARGET", "host")
    mesh = oc.Mesh({axis: 2}, engine="threads")
    step = (perceptron() if axis == "data" else transformer(heads=True)).step
    routine = oc.Context.cpu(mesh=mesh).compile(step)
    memory = oc.plan(step, mesh).memory
    *lines, last = routine.memory().splitlines()
    copies = sum(int(line.split()[1]) for line in lines if "contiguous copy" in line)
    total, arena = map(int, re.findall(r"\d+", last)[:2])
    assert total - copies <= memory.bytes <= total
    assert arena - copies <= memory.activations + memory.exchanged <= arena
    assert oc.plan(routine, mesh).memory == memory


def test_kinds_of_memory() -> None:
    parts_of_weights: Shard = {"input": "data"}
    whole, divided = (
        oc.plan(perceptron(placement).step, oc.Mesh({"data": 4})).memory
        for placement in (None, parts_of_weights)
    )
    parameters = 4 * (2 * 256 * 256 + 8 * 256)
    for memory, parts in ((whole, 1), (divided, 4)):
        assert memory.parameters == parameters // parts
        assert memory.gradients == parameters // parts + 4  # and that of the loss
        assert memory.moments == 2 * parameters // parts
        assert memory.data == 4 * 16 * (256 + 8) // 4
    assert whole.others == divided.others == 4 + 8  # the loss, and a counter


@pytest.mark.exhaustive
def test_nothing_is_allocated() -> None:
    """Four thousand ranks, and a weight of 4 TB."""
    x = oc.data(np.broadcast_to(np.float32(1), (2**20,)), label="x", axes="o")
    loss = oc.sum(oc.param("w", output=2**20, shard={"output": "model"}) @ oc.einsum("o => o", x))
    tracemalloc.start()
    plan = oc.plan(train.grad_update(loss), oc.Mesh({"model": 4096}), MACHINE)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plan.memory.parameters == 4 * 2**40 // 4096
    assert most < 2**28


def test_a_plan_of_one_rank_has_no_collectives() -> None:
    plan = oc.plan(perceptron().step, oc.Mesh({"data": 1}), "1xH100")
    assert (plan.collectives, plan.sent, plan.communication_seconds) == ((), 0, 0)
    assert plan.seconds == plan.compute_seconds


@pytest.mark.exhaustive
def test_time_is_that_of_operations_or_of_bytes() -> None:
    """Each step takes the longer of both, collectives come on top."""
    step, mesh = perceptron().step, oc.Mesh({"data": 8})
    usual = oc.plan(step, mesh, MACHINES["H100"])
    endless = replace(MACHINES["H100"], memory_bandwidth=1e30)
    free = replace(
        endless, vector_flops=1e30, flops={"float32": 1e12}, inside_latency=0, inside_bandwidth=1e30
    )
    computed = oc.plan(step, mesh, free)
    assert computed.seconds == pytest.approx(sum(computed.flops.values()) / 1e12)
    assert computed.utilization == pytest.approx(1)
    # Two rows a rank, by all weights, twice backwards, but not before the first one.
    assert computed.needed_flops == {"float32": 2 * 2 * (5 * 256 * 256 + 3 * 8 * 256)}
    assert usual.seconds == usual.compute_seconds + usual.communication_seconds
    assert usual.least_seconds < usual.seconds
    assert usual.compute_seconds > oc.plan(step, mesh, endless).compute_seconds


@pytest.mark.exhaustive
def test_trees_are_faster_for_few_bytes_and_many_ranks() -> None:
    plan = oc.plan(perceptron().step, oc.Mesh({"data": 4096}), MACHINE)
    scalar = next(each for each in plan.collectives if each.bytes == 4)
    assert scalar.tree is not None
    assert scalar.fastest is scalar.tree
    assert scalar.seconds < scalar.ring.seconds / 100


def test_a_plan_as_text() -> None:
    lines = str(oc.plan(perceptron().step, oc.Mesh({"data": 4}), "2x2xA100")).splitlines()
    assert lines[0] == "'loss gradient update' on a mesh (data = 4), 2x2xA100"
    first = next(line for line in lines if line.startswith("all_reduce"))
    *cells, line = first.split()[1:]
    assert cells[:5] == ["into_grad", "data", "262", "kB", "1"]
    assert line.startswith("planned.py:")
    assert lines[-4].startswith("time of a run: ")


def test_what_is_planned() -> None:
    mesh = oc.Mesh({"data": 2})

    @oc.function
    def double(x: oc.Tensor) -> oc.Tensor:
        return x * 2.0

    lowered = double.lower(np.ones((4, 3), np.float32))
    assert oc.plan(lowered, mesh).memory.bytes > 0
    for wrong in (double, "step", None):
        with pytest.raises(
            oc.ArgumentError, match=r"py:\d+: a plan is of code, a routine or a lowered function"
        ):
            oc.plan(wrong, mesh)  # pyright: ignore[reportArgumentType]
    with pytest.raises(oc.ArgumentError, match=r"py:\d+: a plan is for a mesh"):
        oc.plan(lowered, {"data": 2})  # pyright: ignore[reportArgumentType]


def test_placements_are_checked() -> None:
    with pytest.raises(oc.OcannlError, match=r'planned.py:\d+: the mesh \(model = 2\) has no axis "data"'):
        oc.plan(perceptron().step, oc.Mesh({"model": 2}))


@pytest.mark.parametrize(
    ("name", "devices", "on_a_node"),
    [("8xH100", 8, 8), ("4xA100", 4, 8), ("16x8xH100", 128, 8), ("2x4xA100", 8, 4), ("32xH100", 32, 8)],
)
def test_machines_by_name(name: str, devices: int, on_a_node: int) -> None:
    machine = oc.plan(perceptron().step, oc.Mesh({"data": 2}), name).machine
    assert (machine.devices, machine.devices_a_node) == (devices, on_a_node)


@pytest.mark.parametrize("name", ["8xB300", "H100", "x8xH100", "0xH100", "8xH100 ", "", 8, None])
def test_what_is_no_machine(name: Any) -> None:
    with pytest.raises(oc.ArgumentError, match=r"a machine is|the number of devices is at least 1"):
        oc.plan(perceptron().step, oc.Mesh({"data": 2}), name)


def test_a_machine_of_too_few_devices() -> None:
    with pytest.raises(
        oc.ArgumentError, match=r"py:\d+: .*data = 16.* has 16 ranks, and '8xH100' has 8 devices"
    ):
        oc.plan(perceptron().step, oc.Mesh({"data": 16}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"vector_flops": 0},
        {"memory": -1},
        {"memory_bandwidth": "fast"},
        {"devices_a_node": 0},
        {"inside_latency": -1e-6},
        {"flops": {"float32": 0}},
        {"flops": {"f4": 1e12}},
    ],
)
def test_numbers_that_no_machine_has(wrong: dict[str, Any]) -> None:
    with pytest.raises(oc.ArgumentError):
        replace(MACHINES["H100"], **wrong)


def test_what_loops_do_counts_each_time() -> None:
    def flops(length: int) -> int:
        x = oc.data(np.ones((length, 8, 6), np.float32), axes="bbo", label="x", shard={("batch", 1): "data"})
        plan = oc.plan(oc.forward(nn.lstm(5)(x)), oc.Mesh({"data": 2}))
        return sum(plan.flops.values())

    assert flops(12) == 2 * flops(6) == 12 * 2 * 4 * (6 + 5) * 4 * 5
