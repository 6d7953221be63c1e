"""Meshes of GPUs, with stand-ins for the driver and for NCCL: what one device gives, and lost ranks."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.cuda_handles import CUresult
from support.cuda_on_cpu import FakeDriver, install
from support.fake_mpi import FakeWorld, Post
from support.fake_nccl import REMOTE_ERROR, FakeNccl, install_nccl
from support.layering import TESTS
from support.mesh_programs import divided_experts, divided_layers, divided_parameters, perceptron, recurrent

import ocannl as oc
from ocannl import train
from ocannl.dialects.ir.errors import DeviceError
from ocannl.program.location import user_line
from ocannl.runtime.collectives.engine import RankLost
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.collectives.mpi import MpiEngine
from ocannl.runtime.cuda import links
from ocannl.runtime.cuda import mesh as mesh_module
from ocannl.runtime.cuda import nccl as nccl_module
from ocannl.runtime.cuda.device import CudaDevice
from ocannl.runtime.cuda.gpu import SYNCHRONOUS
from ocannl.runtime.cuda.mesh import CudaMesh

Values = Mapping[str, NDArray[Any]]
MPIRUN = Path(sys.executable).parent / "mpirun"

# What happens when objects go away is tested, too.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    found.count = 8
    install(monkeypatch, found)
    return found


@pytest.fixture
def nccl(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> FakeNccl:
    return install_nccl(monkeypatch, driver)


def gpus(**axes: int) -> oc.Context:
    return oc.Context.cuda(mesh=oc.Mesh(axes, engine="threads", timeout=20))


def same(found: Values, expected: Values) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.sampled(13)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "program", [perceptron, recurrent, divided_parameters, divided_layers, divided_experts]
)
def test_gpus_give_what_one_device_gives(
    program: Callable[[oc.Context, Any], Values], ranks: int, nccl: FakeNccl
) -> None:
    same(program(gpus(data=ranks), {"batch": "data"}), program(oc.Context.cpu(1), None))
    assert nccl.messages()


@pytest.mark.exhaustive
def test_two_axes(nccl: FakeNccl) -> None:
    shard = {"batch": "data", "output": "model"}
    same(perceptron(gpus(data=2, model=2), shard), perceptron(oc.Context.cpu(1), None))


@pytest.mark.exhaustive
def test_uneven_parts_and_large_sums(nccl: FakeNccl) -> None:
    """Of sums beyond some size each rank adds up a part."""
    x = np.random.default_rng(0).normal(size=(7, 90))

    def gradient(ctx: oc.Context) -> Values:
        data = oc.data(x, label="x", shard={"batch": "data"})
        loss = ((oc.param("w", output=90) @ data) ** 2).sum()
        step = ctx.compile(train.grad_update(loss), name="step")
        ctx.init_params(loss)
        step()
        return {name: ctx[param.grad] for name, param in oc.params(loss).items()}

    found, expected = gradient(gpus(data=4)), gradient(oc.Context.cpu(1))
    np.testing.assert_allclose(found["w"], expected["w"], rtol=1e-12, atol=1e-11)
    assert {"ncclAllGather", "ncclGroupEnd"} <= {*nccl.calls}


def counted(ctx: oc.Context) -> tuple[oc.Tensor, oc.Routine]:
    """The sum of what ranks have, which later code uses."""
    x = oc.data(np.arange(8.0), label="x", shard={0: "data"})
    total = (x * 2.0).sum().named("total")
    last = (total * 3.0).named("last")
    step = ctx.compile(oc.forward(last), name="step")
    return last, step


def test_runs_are_launched_and_not_waited_for(driver: FakeDriver, nccl: FakeNccl) -> None:
    ctx = gpus(data=2)
    last, step = counted(ctx)
    step()
    driver.calls.clear()
    nccl.calls.clear()
    step()
    assert driver.calls.count("cuGraphLaunch") == 4
    assert nccl.calls == ["ncclAllGather"] * 2
    assert not any("Synchronize" in name or "Memcpy" in name or "Query" in name for name in driver.calls)
    assert ctx[last] == 168


def test_a_host_is_ahead_by_some_exchanges_at_most(
    driver: FakeDriver, nccl: FakeNccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MOST_STARTED", 3)
    ctx = gpus(data=2)
    last, step = counted(ctx)
    for _ in range(10):
        step()
    assert driver.calls.count("cuEventCreate") <= 2 * 5
    assert ctx[last] == 168


def test_kernels_one_by_one(driver: FakeDriver, nccl: FakeNccl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SYNCHRONOUS, "1")
    ctx = gpus(data=2)
    last, step = counted(ctx)
    step()
    assert "cuGraphLaunch" not in driver.calls
    assert ctx[last] == 168


def test_a_loop_that_looks_at_a_flag(nccl: FakeNccl) -> None:
    """The ranks go on as long as a sum over all of them is small."""

    def doubled(ctx: oc.Context) -> Values:
        x = oc.data(np.arange(1.0, 9.0), label="x", shard={0: "data"})
        found = oc.while_loop(lambda c: c.sum() < 1000.0, lambda c: 2.0 * c, x, 20)
        ctx.compile(oc.forward(found))()
        return {"found": ctx[found]}

    same(doubled(gpus(data=2)), doubled(oc.Context.cpu(1)))


def test_times_of_kernels_and_exchanges(driver: FakeDriver, nccl: FakeNccl) -> None:
    ctx = gpus(data=2)
    last, step = counted(ctx)
    step()
    _, *rows = step.profile(runs=2).splitlines()
    assert [row.split()[0] for row in rows] == ["last_part", "start", "wait", "last"]
    assert all(row.endswith(" us") for row in rows)
    assert ctx[last] == 168


def test_states_are_saved_in_parts(nccl: FakeNccl, tmp_path: Path) -> None:
    first, second = gpus(data=2), gpus(data=4)
    w = oc.param("w", output=6, input=3, shard={"output": "data"})
    code = oc.forward((w * 2.0).sum())
    for ctx in (first, second):
        ctx.compile(code)
    first.init_params(code)
    first.save(tmp_path / "state.safetensors", [w])
    second.load(tmp_path / "state.safetensors", [w])
    np.testing.assert_array_equal(first[w], second[w])
    assert len([*tmp_path.glob("state-*-of-00002.safetensors")]) == 2


def test_all_is_given_back(driver: FakeDriver, nccl: FakeNccl) -> None:
    ctx = gpus(data=2)
    last, step = counted(ctx)
    step()
    assert ctx[last] == 168
    step()
    del ctx, step
    gc.collect()
    assert all(comm.is_aborted for comm in nccl.comms.values())
    assert not driver.alive
    assert not driver.memory
    assert not any(context.retained for context in driver.contexts.values())


# What goes wrong.


def test_an_error_of_another_rank_ends_all(driver: FakeDriver, nccl: FakeNccl) -> None:
    ctx = gpus(data=2)
    last, step = counted(ctx)
    step()
    assert ctx[last] == 168
    for comm in nccl.comms.values():
        comm.error = REMOTE_ERROR
    with pytest.raises(DeviceError, match=r"py:\d+: NCCL failed in a collective: remote process exited"):
        step()
    assert all(comm.is_aborted for comm in nccl.comms.values())
    with pytest.raises(RankLost, match=r"exchange nothing any more: .*remote process exited"):
        step()


def test_a_kernel_that_fails_is_no_hang(driver: FakeDriver, nccl: FakeNccl) -> None:
    ctx = gpus(data=2)
    last, step = counted(ctx)
    step()
    assert ctx[last] == 168
    driver.fails = {driver.launched[0].kernel.name: CUresult.CUDA_ERROR_ILLEGAL_ADDRESS}
    step()
    with pytest.raises(DeviceError, match="illegal address"):
        _ = ctx[last]


class Engine(MpiEngine):
    """That of a process, which is a thread here: these compile in turn, and cannot compare texts."""

    def check_same(self, what: str, content: bytes) -> None:
        pass


class Processes:
    """Ranks as processes would be, each with an engine of its own."""

    def __init__(self, size: int, timeout: float) -> None:
        post = Post(size)
        self.pool = ThreadPoolExecutor(size)
        self.engines = [Engine(FakeWorld(rank, post), timeout, user_line) for rank in range(size)]

    def context(self, rank: int, mesh: oc.Mesh) -> oc.Context:
        gpu = CudaDevice(rank)
        device = CudaMesh(gpu, Grid(mesh.sizes), self.engines[rank], [gpu])
        return oc.Context("cuda", 1, device, arch=gpu.arch, mesh=mesh)

    def each(self, *functions: Callable[[], Any]) -> Sequence[Any]:
        """The results or the errors of what runs at the same time."""
        futures = [self.pool.submit(function) for function in functions]
        return [future.exception() or future.result() for future in futures]


def test_ranks_that_are_processes(nccl: FakeNccl) -> None:
    ranks, mesh = Processes(2, 20.0), oc.Mesh({"data": 2})

    def run(rank: int) -> float:
        ctx = ranks.context(rank, mesh)
        last, step = counted(ctx)
        step()
        return float(ctx[last])

    assert ranks.each(lambda: run(0), lambda: run(1)) == [168, 168]


@pytest.mark.exhaustive
def test_a_rank_that_does_not_come_has_a_name(nccl: FakeNccl) -> None:
    """The host of the other one does not wait for its GPU for ever."""
    ranks, mesh = Processes(2, 1.0), oc.Mesh({"data": 2})
    made = ranks.each(*(lambda k=k: (ctx := ranks.context(k, mesh), *counted(ctx)) for k in range(2)))
    ctx, last, step = made[0]
    step()

    (error,) = ranks.each(lambda: ctx[last])
    assert isinstance(error, RankLost)
    assert str(error).endswith("rank 1 did not come to this collective within 1 s")
    assert "test_cuda_meshes.py" in str(error)
    own, other = sorted(nccl.comms.values(), key=lambda comm: comm.rank)
    assert own.is_aborted
    assert not other.is_aborted
    with pytest.raises(RankLost, match="exchange nothing any more"):
        step()


def test_a_rank_that_does_not_come_to_the_first_routine(
    nccl: FakeNccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, mesh = Processes(2, 1.0), oc.Mesh({"data": 2})

    def leave() -> None:
        ctx = ranks.context(1, mesh)
        assert isinstance(ctx.device, CudaMesh)
        monkeypatch.setattr(ctx.device.links, "connect", lambda *_: None)
        counted(ctx)

    error, _ = ranks.each(lambda: counted(ranks.context(0, mesh)), leave)
    assert isinstance(error, RankLost)
    assert "rank 1 did not come to this collective within 1 s" in str(error)


def test_fewer_gpus_than_ranks(driver: FakeDriver, nccl: FakeNccl) -> None:
    driver.count = 2
    with pytest.raises(DeviceError, match="there is no GPU 2: this machine has GPUs 0 to 1"):
        gpus(data=4)
    with pytest.raises(DeviceError, match="there is no GPU 2"):
        oc.Context.cuda(1, mesh=oc.Mesh({"data": 2}, engine="threads"))


def test_without_nccl(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> ctypes.CDLL:
        raise OSError("no such file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    nccl_module.nccl.cache_clear()
    with pytest.raises(DeviceError, match=r"GPUs talk through NCCL: `pip install 'ocannl\[nccl\]'`"):
        counted(gpus(data=2))


def test_stages_are_for_cpus(nccl: FakeNccl) -> None:
    x = oc.data(np.ones((8, 6)), label="x", shard={"batch": "microbatch"})
    with oc.stage(0):
        h = oc.param("w", 0.5, output=4) @ x
    with oc.stage(1):
        y = (oc.param("v", 0.25, output=1) @ h).sum()
    ctx = oc.Context.cuda(mesh=oc.Mesh({"stage": 2}, microbatches=4, engine="threads"))
    with pytest.raises(DeviceError, match="stages run on CPUs so far, and not on GPUs"):
        ctx.compile(oc.forward(y))


def test_places_on_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks of one machine have its GPUs in order."""
    ranks = Processes(3, 5.0)
    names = dict(enumerate(["a", "b", "a"]))
    monkeypatch.setattr(mesh_module, "machine", lambda rank: names[rank])
    found = ranks.each(*(lambda e=e: mesh_module.places_on_machines(e) for e in ranks.engines))
    assert found == [[0], [0], [1]]


@pytest.mark.exhaustive
@pytest.mark.skipif(find_spec("mpi4py") is None or not MPIRUN.exists(), reason="mpi4py or MPICH is missing")
@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("whole", "found the same on <context cuda: Fake GPU>"),
        ("late", "rank 1 did not come to this collective within 5 s"),
    ],
)
def test_processes_of_mpi(mode: str, told: str, tmp_path: Path) -> None:
    """NCCL's names go by MPI, and so do questions for a rank that is lost."""
    command = [str(MPIRUN), "-n", "2", sys.executable, "-m", "support.gpu_ranks", str(tmp_path), mode]
    # The stand-in for the driver runs the kernels of PTX that was made in its own process.
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "OCANNL_CACHE": "off"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert told in run.stdout + run.stderr
    assert (run.returncode == 0) == (mode == "whole")
