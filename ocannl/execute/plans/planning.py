"""Planning: what a program takes on a mesh and a machine that need not be there."""

from __future__ import annotations

from collections import Counter
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from ocannl.execute.plans.machines import Machine, machine_of
from ocannl.execute.plans.plan import Plan
from ocannl.execute.plans.planned_collectives import CollectivePlanner, FoundCollective, called, found_in
from ocannl.execute.plans.planned_memory import memory_of
from ocannl.execute.plans.planned_messages import messages_of
from ocannl.lowering.pipelines import WithOptions, for_target, passes_until, run_passes
from ocannl.passes.analysis.costs.roofline import StepWork, works_of
from ocannl.passes.analysis.nests import uncalled
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET
from ocannl.passes.loops.nontemporal_stores import NontemporalStoresPass
from ocannl.passes.loops.order_nests import OrderNestsPass
from ocannl.passes.loops.peel_borders import PeelBordersPass
from ocannl.passes.loops.rematerialize import RematerializePass
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.passes.loops.winograd.winograd import WinogradPass
from ocannl.passes.texpr.fold_layers.fold_layers import FoldLayersPass
from ocannl.passes.texpr.partition.asked_axes import check_axes
from ocannl.passes.texpr.split_stages.split_stages import SplitStagesPass
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.code import Code
from ocannl.program.meshes.mesh import Mesh
from ocannl.program.module.extract import extract
from ocannl.runtime.host.processor import chosen_target

PIPELINE = "cpu"
"""The pipeline of programs that run on meshes."""
OF_ONE_PROCESSOR = (WinogradPass, SchedulePass, PeelBordersPass, NontemporalStoresPass)
"""Passes that copy operands for the instructions of the processor at hand, which is not the machine's."""


class WithCode(Protocol):
    """An object with code: a routine, or a function that was lowered."""

    @property
    def code(self) -> Code: ...


def plan(step: Code | WithCode, mesh: Mesh, machine: str | Machine = "8xH100") -> Plan:
    """Plans a program on a mesh: memory of each device, messages and their bytes, and time; tables as text.

    The program is partitioned and compiled for one rank, or for one of each stage, up to its memory plan, and
    the messages of its collectives are counted one by one: nothing is run or allocated, and neither the mesh
    nor the machine has to be there.

    `step` is code, as `train.grad_update(loss) + train.adam_update(loss)`, a routine, or a function that was
    lowered for arguments, `f.lower(x, y)`. `machine` is an `oc.Machine`, or the name of one: `"8xH100"`, or
    16 nodes of 8 devices, `"16x8xH100"`. Ranks fill its nodes in order, so that the last axis of the mesh has
    the nearest ranks.

    Raises `ArgumentError` for a machine of fewer devices than the mesh has ranks, and what compiling raises.
    """
    code: object = step if isinstance(step, Code) else getattr(step, "code", None)
    if not isinstance(code, Code):
        raise ArgumentError(f"a plan is of code, a routine or a lowered function, found {step!r}")
    if not isinstance(mesh, Mesh):
        raise ArgumentError(f'a plan is for a mesh, as oc.Mesh({{"data": 8}}); found {mesh!r}')
    found = machine_of(machine)
    if found.devices is not None and found.devices < mesh.ranks:
        message = f"{mesh!r} has {mesh.ranks} ranks, and {machine!r} has {found.devices} devices"
        raise ArgumentError(message)
    return _Planning(code, mesh).plan(found, machine if isinstance(machine, str) else "a machine")


Products: TypeAlias = Counter[str]


class _Planning:
    """A program that is compiled for a rank of a mesh, observed on the way."""

    def __init__(self, code: Code, mesh: Mesh) -> None:
        self.name, self.mesh = code.label or "code", mesh
        self.collectives: list[list[FoundCollective]] = []
        self.needed, self.works = list[Products](), list[list[StepWork]]()
        """Of each stage; without stages there is one."""
        self.program = extract(code.statements, self.name)
        check_axes(self.program.routine, mesh.sizes)
        self.program.routine.set_mesh(mesh.program_axes)
        # All layers are counted; small exchanges are shared within each, as where layers are folded.
        keeping = WithOptions(FoldLayersPass, (("keep", True),))
        passes = [
            keeping if p is FoldLayersPass else p
            for p in passes_until(PIPELINE, "loops")
            if p not in OF_ONE_PROCESSOR
        ]
        run_passes(
            self.program.module,
            for_target(passes, chosen_target(None, DEFAULT_TARGET)),
            observe=self._observe,
        )
        self.stages = uncalled(self.program.module)

    def _observe(self, name: str, module: ModuleOp, _: float) -> None:
        if name == SplitStagesPass.name:
            self.collectives = [found_in(routine, self.mesh.sizes) for routine in module.body.block.ops]
        elif name == OrderNestsPass.name:
            self.needed = [products_of(works) for works in _works(module)]
        elif name == RematerializePass.name:  # the passes after it are about one kind of processor
            self.works = _works(module)

    def plan(self, machine: Machine, name: str) -> Plan:
        """The plan of the stage that computes longest, with the memory of the one that has most."""
        planner = CollectivePlanner(self.mesh.sizes, machine.links)
        seconds = [sum(work.times * seconds_of(work, machine) for work in works) for works in self.works]
        slowest = max(range(len(seconds)), key=seconds.__getitem__)
        memory = [memory_of(func, self.program) for func in self.stages]
        calls = called(self.collectives[slowest], self.stages[slowest])
        return Plan(
            self.name,
            name,
            machine,
            self.mesh.sizes,
            max(memory, key=lambda own: own.bytes),
            tuple(planner.plan(each, times) for each, times in calls),
            dict(self.needed[slowest]),
            dict(products_of(self.works[slowest])),
            seconds[slowest],
            self.mesh.microbatches,
            tuple(messages_of(self.stages, self.mesh.sizes, machine.links)),
            tuple(memory),
        )


def _works(module: ModuleOp) -> list[list[StepWork]]:
    """The work of each stage."""
    return [[*works_of(func)] for func in uncalled(module)]


def products_of(works: list[StepWork]) -> Products:
    """The floating-point operations of all products, by dtype."""
    found = Products()
    for work in works:
        for dtype, count in work.products.items():
            found[dtype] += work.times * count
    return found


def seconds_of(work: StepWork, machine: Machine) -> float:
    """The time of one run of a step: that of its operations or that of its bytes, whichever is longer."""
    computing = work.others / machine.vector_flops
    computing += sum(count / machine.product_flops(dtype) for dtype, count in work.products.items())
    return max(computing, work.bytes / machine.memory_bandwidth)
