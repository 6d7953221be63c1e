"""Contexts of a mesh: their devices, and programs for them."""

from __future__ import annotations

from collections.abc import Mapping

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import DeviceError
from ocannl.dialects.routine import MICROBATCH, IndicesAttr
from ocannl.dialects.texpr.placement import AskedAxis, Placement, PlacementAttr, placement_in
from ocannl.execute.memory.nodes import Nodes
from ocannl.passes.texpr.partition.asked_axes import check_axes
from ocannl.program.location import here, user_line
from ocannl.program.meshes.mesh import Mesh
from ocannl.program.module.extract import ExtractedRoutine
from ocannl.program.values import Value
from ocannl.runtime.collectives.device import MeshDevice
from ocannl.runtime.collectives.engine import Engine
from ocannl.runtime.collectives.grid import Grid
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.collectives.mpi import mpi_engine
from ocannl.runtime.collectives.threads import ThreadsEngine
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.cuda.mesh import CudaMesh, cuda_mesh
from ocannl.runtime.device import Device

MOST_THREADS = 1024


def mesh_device(base: NativeDevice, mesh: Mesh) -> MeshDevice:
    """The device of the ranks in this process. Raises `DeviceError` for `"mpi"` where mpi4py is missing, or
    where there are not as many processes as ranks; for `"threads"` of more than 1024.
    """
    return MeshDevice(base, Grid(mesh.sizes), _engine(mesh))


def gpu_mesh_device(first: int | None, mesh: Mesh, arch: str | None) -> CudaMesh:
    """The GPUs of the ranks in this process: those of its machine in the order of ranks, from the `first` on,
    with code for an architecture. Raises `DeviceError` as `mesh_device` does, and where there are not as many
    GPUs.
    """
    return cuda_mesh(Grid(mesh.sizes), _engine(mesh), first, arch)


def _engine(mesh: Mesh) -> Engine:
    if mesh.engine != "threads":
        return mpi_engine(mesh.ranks, mesh.timeout, user_line)
    if mesh.ranks > MOST_THREADS:
        raise DeviceError(
            here(f"{mesh.ranks} ranks are too many threads for one process: {MOST_THREADS} at most, or MPI")
        )
    return ThreadsEngine(mesh.ranks, mesh.timeout)


def put_on_mesh(program: ExtractedRoutine, nodes: Nodes, mesh: Mapping[str, int]) -> None:
    """Says for which mesh a program is. Memory stays as the first routine that used it has split it.

    Raises `OcannlError` for placements over axes that the mesh has not.
    """
    if not mesh:
        return
    check_axes(program.routine, mesh)
    program.routine.properties["mesh"] = IndicesAttr(tuple(mesh.items()))
    for value, copy in program.copies.items():
        op = copy.owner
        if isinstance(op, texpr.MergeOp):
            continue  # its memory is that of another mesh, or of none
        if isinstance(value, Value) and isinstance(op, texpr.MemoryOp | texpr.OfOp | texpr.ApplyOp):
            node = nodes.find(value)
            memory = None if node is None else node.memory
            if isinstance(memory, MeshMemory) and memory.parts:
                given = tuple((split.mesh, AskedAxis(None, split.axis)) for split in memory.splits)
                asked = tuple(own for own in placement_in(op).asked or () if own[0] == MICROBATCH)
                stage = memory.stages[0] if len(memory.stages) == 1 else None
                op.properties["placement"] = PlacementAttr(Placement((*given, *asked), stage=stage))


def refuse_mesh(device: Device, done: str) -> None:
    """Raises `DeviceError` for a device of several ranks; `done` says what is for one device only."""
    if isinstance(device, MeshDevice):
        raise DeviceError(here(f"{done} for one device, not for a mesh: compile the program without one"))
