"""Collectives in compiled routines, on ranks that are threads of one process."""

import threading

import numpy as np
import pytest

from ocannl.dialects.index.splits import SplitAxis
from ocannl.dialects.ir.errors import DeviceError
from ocannl.lowering.pipelines import parse_text
from ocannl.runtime.collectives.device import MeshDevice
from ocannl.runtime.collectives.engine import RankLost
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.collectives.threads import ThreadsEngine
from ocannl.runtime.compile import compile_module
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.memory import ArgBlock

# Each rank has `part` rows of `x`; `tall` and `wide` are so large that the all-reduce goes in two steps.
PROGRAM = """
texpr.routine @step mesh (data = {ranks}) {{
  %x = texpr.data "x" split 0 of {rows} over "data" : !texpr.tensor<{part} | 300, f64>
  %sum = texpr.all_reduce %x add over "data" : !texpr.tensor<{part} | 300, f64>
  %most = texpr.all_reduce %x max over "data" : !texpr.tensor<{part} | 300, f64>
  %whole = texpr.all_gather %x at 0 of {rows} over "data" : !texpr.tensor<{rows} | 300, f64>
  %tall = texpr.all_reduce %whole add over "data" : !texpr.tensor<{rows} | 300, f64>
  %columns = texpr.all_to_all %x at 0 of {rows} to 1 over "data" : !texpr.tensor<{rows} | {columns}, f64>
  %wide = texpr.all_gather %columns at 1 of 300 over "data" : !texpr.tensor<{rows} | 300, f64>
  %own = texpr.reduce_scatter %whole add to 1 over "data" : !texpr.tensor<{rows} | {columns}, f64>
  %owns = texpr.all_gather %own at 1 of 300 over "data" : !texpr.tensor<{rows} | 300, f64>
  texpr.forward %sum
  texpr.forward %most
  texpr.forward %whole
  texpr.forward %tall
  texpr.forward %wide
  texpr.forward %owns
}}
"""


def device(ranks: int, timeout: float = 20.0) -> MeshDevice:
    return MeshDevice(NativeDevice(), Grid({"data": ranks}), ThreadsEngine(ranks, timeout))


@pytest.mark.parametrize(("ranks", "rows"), [(2, 40), (3, 40), (4, 37), (8, 9)])
def test_collectives_give_what_they_say(ranks: int, rows: int) -> None:
    part, columns = -(-rows // ranks), -(-300 // ranks)
    text = PROGRAM.format(ranks=ranks, rows=rows, part=part, columns=columns)
    mesh = device(ranks)
    executable = compile_module(parse_text(text), "cpu", mesh)
    layout = executable.interface.layout
    args = ArgBlock(layout.slots)
    arena = mesh.memory((layout.arena_bytes,), np.uint8)
    args.set_address(layout.arena_slot, 0, arena)
    memory: dict[str, MeshMemory] = {}
    for label, slot in layout.node_slots.items():
        facts = executable.interface.nodes[label]
        memory[label] = mesh.memory(facts.whole, facts.dtype)
        args.set_address(slot, 0, memory[label])
    x = np.random.default_rng(0).normal(size=(rows, 300))
    memory["x"].write(x)
    run = executable.program.bind(args)
    for _ in range(2):
        run.call()
        padded = np.concatenate([x, np.zeros((ranks * part - rows, 300))]).reshape(ranks, part, 300)
        np.testing.assert_allclose(memory["sum"].read(), padded.sum(axis=0), rtol=0, atol=1e-14)
        assert (memory["most"].read() == padded.max(axis=0)).all()
        for label in ("whole", "wide"):
            assert (memory[label].read() == x).all()
        for label in ("tall", "owns"):
            np.testing.assert_allclose(memory[label].read(), ranks * x, rtol=1e-15)
        for label in ("sum", "tall", "owns"):
            first, *others = [own.read() for own in memory[label].parts]
            assert all((own == first).all() for own in others)


def test_the_first_error_of_a_rank_is_raised() -> None:
    engine = ThreadsEngine(3, 20.0)
    both = threading.Barrier(2)

    def failing() -> None:
        both.wait()
        engine.fail()
        raise ZeroDivisionError("rank 1 of 3")

    def exchanging(rank: int) -> None:
        if rank == 0:
            both.wait()
        target, source = np.zeros(6, np.uint8), np.zeros(2, np.uint8)
        engine.exchange(rank, (0, 1, 2), "all_gather", target, source, "line 7")

    with pytest.raises(ZeroDivisionError, match="rank 1 of 3"):
        engine.together([lambda: exchanging(0), failing, lambda: exchanging(2)])


def test_a_rank_that_does_not_come_is_a_timeout_with_the_line() -> None:
    engine = ThreadsEngine(2, 0.05)
    target, source = np.zeros(4, np.uint8), np.zeros(2, np.uint8)
    with pytest.raises(RankLost, match=r"train\.py:7: rank 1 did not come to this collective within 0\.05 s"):
        engine.together(
            [lambda: engine.exchange(0, (0, 1), "all_gather", target, source, "train.py:7"), lambda: None]
        )


def test_threads_have_several_exchanges_on_their_way() -> None:
    """Those of a group, started in one order and waited for in another one."""
    engine = ThreadsEngine(2, 20.0)

    def run(rank: int) -> list[list[int]]:
        given = [(np.zeros(2, np.uint8), np.full(1, 10 * rank + k, np.uint8)) for k in range(3)]
        ready = [engine.repeated(rank, (0, 1), "all_gather", *own, "") for own in given]
        for each in ready:
            each.start()
        for each in reversed(ready):
            each.finish()
        return [target.tolist() for target, _ in given]

    assert engine.together([lambda: run(0), lambda: run(1)]) == [[[k, 10 + k] for k in range(3)]] * 2


def test_parts_of_two_mesh_axes_make_the_whole() -> None:
    grid = Grid({"data": 2, "model": 3})
    assert [grid.place(rank) for rank in (0, 4)] == [{"data": 0, "model": 0}, {"data": 1, "model": 1}]
    assert grid.group(4, "data") == (1, 4)
    assert grid.group(4, "model") == (3, 4, 5)
    whole = np.arange(7 * 5.0).reshape(7, 5)
    apart = (SplitAxis(0, 7, "data"), SplitAxis(1, 5, "model"))
    nested = (SplitAxis(0, 7, "data"), SplitAxis(0, 4, "model"))
    for splits in ((), apart, nested):
        parts = [grid.cut(whole, splits, rank) for rank in range(6)]
        assert (grid.joined(parts, splits, (7, 5)) == whole).all()


def test_memory_has_one_placement() -> None:
    memory = device(2).memory((4,), np.float32)
    memory.write([1, 2, 3, 4])
    first, second = memory.place((SplitAxis(0, 4, "data"),), "w")
    assert (first.read().tolist(), second.read().tolist()) == ([1, 2], [3, 4])
    with pytest.raises(DeviceError, match="`w` is whole on all ranks in this routine, but another"):
        memory.place((), "w")
    memory.write([5, 6, 7, 8])
    assert second.read().tolist() == [7, 8]
    assert memory.read().tolist() == [5, 6, 7, 8]


MESSAGES = """
texpr.routine @step.0 mesh (stage = 2) {
  %x = texpr.data "x" : !texpr.tensor<3, f64>
  %back = texpr.receive 1 from 1 over "stage" : !texpr.tensor<3, f64>
  texpr.send %x as 0 to 1 over "stage"
  texpr.forward %back
}
texpr.routine @step.1 mesh (stage = 2) {
  %x = texpr.receive 0 from 0 over "stage" : !texpr.tensor<3, f64>
  %twice = texpr.apply [i] = add(%x[i], %x[i]) over (i = 3) : !texpr.tensor<3, f64>
  texpr.send %twice as 1 to 0 over "stage"
}
"""


def test_messages_between_stages() -> None:
    mesh = MeshDevice(NativeDevice(), Grid({"stage": 2}), ThreadsEngine(2, 20.0))
    executable = compile_module(parse_text(MESSAGES), "cpu", mesh)
    layout, nodes = executable.interface.layout, executable.interface.nodes
    assert {label: facts.stages for label, facts in nodes.items()} == {"x": (0,), "back": (0,)}
    args = ArgBlock(layout.slots)
    args.set_address(layout.arena_slot, 0, mesh.memory((max(1, layout.arena_bytes),), np.uint8))
    memory = {label: mesh.memory(facts.whole, facts.dtype) for label, facts in nodes.items()}
    for label, slot in layout.node_slots.items():
        args.set_address(slot, 0, memory[label])
    memory["x"].write(np.arange(3.0))
    run = executable.program.bind(args)
    for _ in range(3):
        run.call()
        assert (memory["back"].read() == 2 * np.arange(3.0)).all()
    assert [part.read().size for part in memory["x"].parts] == [3, 0]
    assert memory["x"].shards() == {0: (slice(0, 3),)}


def test_a_message_that_does_not_come() -> None:
    engine = ThreadsEngine(2, 0.2)
    received = np.zeros(8, np.uint8)
    with pytest.raises(RankLost, match=r"model\.py:3: rank 1 did not come to this collective within 0.2 s"):
        engine.together([lambda: engine.receive(0, 1, 0, received, "model.py:3")])


def test_messages_have_numbers() -> None:
    engine = ThreadsEngine(2, 5.0)
    received = [np.zeros(1, np.uint8) for _ in range(2)]
    for number in range(2):
        engine.send(0, 1, number, np.full(1, number + 1, np.uint8), "")
    for number in (1, 0):
        engine.receive(1, 0, number, received[number], "")
    assert [int(own[0]) for own in received] == [1, 2]
