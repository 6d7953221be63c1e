"""The passes that make up each target's pipeline, in order: data, in this one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.math import Math
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ocannl.dialects.assign import ASSIGN
from ocannl.dialects.ir.locating_parser import LocatingParser
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.ir.origins import check_origins, without_origins
from ocannl.dialects.ir.text_printer import op_text
from ocannl.dialects.kernel import KERNEL
from ocannl.dialects.kernel.gpu import METAL_SHARED_BYTES, SHARED_BYTES, WARPGROUP_ARCH
from ocannl.dialects.loops import LOOPS
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import verify_steps
from ocannl.dialects.texpr import TEXPR
from ocannl.lowering.assign_to_loops import LowerAssignToLoopsPass
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.lowering.texpr_to_assign import LowerTexprToAssignPass
from ocannl.passes.analysis.schedules.schedule_candidates import FindChoices, no_choices
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.approximate_rounded import ApproximateRoundedPass
from ocannl.passes.loops.eliminate_common_subexpressions import EliminateCommonSubexpressionsPass
from ocannl.passes.loops.expand_math import ExpandMathPass
from ocannl.passes.loops.fuse import FusePass
from ocannl.passes.loops.fuse_operands import FuseOperandsPass
from ocannl.passes.loops.fuse_rows.fuse_rows import FuseRowsPass
from ocannl.passes.loops.fuse_sums import FuseSumsPass
from ocannl.passes.loops.gather_cells import GatherCellsPass
from ocannl.passes.loops.gather_windows import GatherWindowsPass
from ocannl.passes.loops.hoist_from_loops import HoistFromLoopsPass
from ocannl.passes.loops.index_by_comparison import IndexByComparisonPass
from ocannl.passes.loops.inline_nodes.inline_nodes import InlineNodesPass
from ocannl.passes.loops.loop_invariant_code_motion import LoopInvariantCodeMotionPass
from ocannl.passes.loops.narrow_nodes import NarrowNodesPass
from ocannl.passes.loops.nontemporal_stores import NontemporalStoresPass
from ocannl.passes.loops.online_softmax.online_softmax import OnlineSoftmaxPass
from ocannl.passes.loops.order_nests import OrderNestsPass
from ocannl.passes.loops.overlap_collectives import OverlapCollectivesPass
from ocannl.passes.loops.pad_rows import PadRowsPass
from ocannl.passes.loops.peel_borders import PeelBordersPass
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.rematerialize import RematerializePass
from ocannl.passes.loops.reuse_reductions import ReuseReductionsPass
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.passes.loops.simplify import SimplifyPass
from ocannl.passes.loops.split_k.split_k import SplitKPass
from ocannl.passes.loops.tile_and_fuse.tile_and_fuse import TileAndFusePass
from ocannl.passes.loops.trim_resets import TrimResetsPass
from ocannl.passes.loops.turn_factors import TurnFactorsPass
from ocannl.passes.loops.unfold_layers import IrregularLayers, UnfoldLayersPass
from ocannl.passes.loops.unfold_windows import UnfoldWindowsPass
from ocannl.passes.loops.winograd.winograd import WinogradPass
from ocannl.passes.texpr.autocast import AutocastPass
from ocannl.passes.texpr.differentiate.differentiate import DifferentiatePass
from ocannl.passes.texpr.distribute_scans.distribute_scans import DistributeScansPass
from ocannl.passes.texpr.fold_layers.fold_layers import FoldLayersPass
from ocannl.passes.texpr.infer_precisions import InferPrecisionsPass
from ocannl.passes.texpr.infer_projections.infer_projections import InferProjectionsPass
from ocannl.passes.texpr.infer_shapes.infer_shapes import InferShapesPass
from ocannl.passes.texpr.mask_padding import MaskPaddingPass
from ocannl.passes.texpr.partition.partition import PartitionPass
from ocannl.passes.texpr.split_stages.split_stages import SplitStagesPass

# The passes of all targets.
SHARED: tuple[type[ModulePass], ...] = (
    InferShapesPass,
    InferPrecisionsPass,
    FoldLayersPass,
    InferProjectionsPass,
    AutocastPass,
    MaskPaddingPass,
    DifferentiatePass,
    DistributeScansPass,
    PartitionPass,
    SplitStagesPass,
    LowerTexprToAssignPass,
    LowerAssignToLoopsPass,
    InlineNodesPass,
    IndexByComparisonPass,
    FusePass,
    SimplifyPass,
    LoopInvariantCodeMotionPass,
    EliminateCommonSubexpressionsPass,
    ReuseReductionsPass,
    ExpandMathPass,
    OrderNestsPass,
)
# Metal has no tensor cores like those of NVIDIA, fewer bytes of shared memory, and no asynchronous copies.
SPLIT_ON_METAL = (("tensor_cores", False),)
ON_METAL = (("tensor_cores", False), ("tile_bytes", METAL_SHARED_BYTES), ("stages", 2))

# Hopper has products of warpgroups, and more shared memory.
ON_HOPPER = (("warpgroups", True), ("shared_bytes", SHARED_BYTES[WARPGROUP_ARCH]))
# In the name of a pipeline: warps of their own copy for large products. No hardware has run these yet.
ROLES = "-roles"


@dataclass(frozen=True)
class WithOptions:
    """A pass of a pipeline with options."""

    made: type[ModulePass]
    options: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return self.made.name

    def __call__(self) -> ModulePass:
        return self.made(**dict(self.options))


PipelinePass: TypeAlias = type[ModulePass] | WithOptions

# The passes of all GPUs. Few elements search in parallel, in the kernel that uses what they find.
SEARCHING = WithOptions(IndexByComparisonPass, (("searched", 2**24),))
# To compute an exponential takes no longer than to store and load it where no cache holds the results. Tensor
# cores multiply numbers of 16 bits, and warpgroups those of 8.
LARGE = ("large", 2**28)
RECOMPUTING = WithOptions(InlineNodesPass, (LARGE,))
OF_HALVES = WithOptions(InlineNodesPass, (LARGE, ("factor_bits", 16)))
OF_QUARTERS = WithOptions(InlineNodesPass, (LARGE, ("factor_bits", 8)))
OF_GPUS: dict[type[ModulePass], PipelinePass] = {
    IndexByComparisonPass: SEARCHING,
    InlineNodesPass: RECOMPUTING,
}
ON_METAL_GPU: tuple[PipelinePass, ...] = (
    *(OF_GPUS.get(p, p) for p in SHARED),
    *(UnfoldLayersPass, HoistFromLoopsPass, GatherWindowsPass, TrimResetsPass, UnfoldWindowsPass, SplitKPass),
    *(FuseSumsPass, FuseRowsPass, NarrowNodesPass, PadRowsPass),
    *(WithOptions(OverlapCollectivesPass, (("kernels", True),)), PlanMemoryPass),
)

# Those of NVIDIA, whose shared memory holds blocks of attention, and which have approximate instructions. The
# passes look for functions, which expand-math replaces.
ON_GPU: tuple[PipelinePass, ...] = (
    *(OF_HALVES if p is RECOMPUTING else p for p in ON_METAL_GPU[: ON_METAL_GPU.index(ExpandMathPass)]),
    WithOptions(OnlineSoftmaxPass, (("kernels", True),)),
    ApproximateRoundedPass,
    *ON_METAL_GPU[ON_METAL_GPU.index(ExpandMathPass) :],
)

OF_HOPPER: dict[str, PipelinePass] = {
    OnlineSoftmaxPass.name: WithOptions(OnlineSoftmaxPass, (("kernels", True), ("warpgroups", True))),
    InlineNodesPass.name: OF_QUARTERS,
}


def on_hopper(tf32: bool) -> tuple[PipelinePass, ...]:
    """The passes for Hopper, where factors of 8 bits, and of TF32, lie along the sum."""
    options = (("tf32", tf32),)
    split = WithOptions(SplitKPass, (*options, ("warpgroups", True)))
    before, after = ON_GPU[: ON_GPU.index(SplitKPass)], ON_GPU[ON_GPU.index(SplitKPass) + 1 :]
    passes = (*before, WithOptions(TurnFactorsPass, options), split, *after)
    return tuple(OF_HOPPER.get(p.name, p) for p in passes)


ON_CPU: tuple[PipelinePass, ...] = (
    *SHARED[: SHARED.index(ExpandMathPass)],
    # It looks for exponentials, which expand-math replaces.
    OnlineSoftmaxPass,
    *SHARED[SHARED.index(ExpandMathPass) :],
    RematerializePass,
    WinogradPass,
    GatherCellsPass,
    TileAndFusePass,
    FuseOperandsPass,
    SchedulePass,
    PeelBordersPass,
    UnfoldLayersPass,
    HoistFromLoopsPass,
    OverlapCollectivesPass,
    NontemporalStoresPass,
    PlanMemoryPass,
)

PIPELINES: dict[str, tuple[PipelinePass, ...]] = {
    "cpu": ON_CPU,
    # C has the functions of mathematics.
    "c": tuple(p for p in ON_CPU if p is not ExpandMathPass),
    "gpu": (*ON_GPU, LowerLoopsToKernelsPass),
    "gpu-tf32": (*ON_GPU, WithOptions(LowerLoopsToKernelsPass, (("tf32", True),))),
    "gpu-sm_90a": (*on_hopper(tf32=False), WithOptions(LowerLoopsToKernelsPass, ON_HOPPER)),
    "gpu-sm_90a-tf32": (
        *on_hopper(tf32=True),
        WithOptions(LowerLoopsToKernelsPass, (("tf32", True), *ON_HOPPER)),
    ),
    f"gpu-sm_90a{ROLES}": (
        *on_hopper(tf32=False),
        WithOptions(LowerLoopsToKernelsPass, (*ON_HOPPER, ("roles", True))),
    ),
    f"gpu-sm_90a{ROLES}-tf32": (
        *on_hopper(tf32=True),
        WithOptions(LowerLoopsToKernelsPass, (("tf32", True), *ON_HOPPER, ("roles", True))),
    ),
    "metal": (
        *(WithOptions(p, SPLIT_ON_METAL) if p is SplitKPass else p for p in ON_METAL_GPU),
        WithOptions(LowerLoopsToKernelsPass, ON_METAL),
    ),
}
# The pipelines whose kernels are for NVIDIA GPUs; in those with tf32, products of f32 may be rounded.
GPU_PIPELINES = (
    *("gpu", "gpu-tf32", "gpu-sm_90a", "gpu-sm_90a-tf32"),
    *(f"gpu-sm_90a{ROLES}", f"gpu-sm_90a{ROLES}-tf32"),
)

# The other passes that weigh costs on a processor.
TARGETED = (
    OnlineSoftmaxPass,
    RematerializePass,
    WinogradPass,
    TileAndFusePass,
    FuseOperandsPass,
    NontemporalStoresPass,
)

# Stages by the name of their level: the last pass whose text is at that level.
LEVELS: dict[str, type[ModulePass]] = {
    "assign": LowerTexprToAssignPass,
    "loops": PlanMemoryPass,
    "kernels": LowerLoopsToKernelsPass,
}


@cache
def context_of_passes() -> Context:
    """The context that passes get, which change none: to load the dialects takes as long as small passes."""
    return new_context()


def gpu_pipeline(arch: str, tf32: bool, roles: bool = False) -> str:
    """The pipeline for an architecture of NVIDIA's GPUs; only Hopper has `roles`."""
    pipeline = f"gpu-{arch}{ROLES if roles else ''}" if arch == WARPGROUP_ARCH else "gpu"
    return f"{pipeline}-tf32" if tf32 else pipeline


def for_other_arch(pipeline: str, arch: str) -> str:
    """The pipeline of the same kind for another architecture of NVIDIA's GPUs."""
    return gpu_pipeline(arch, pipeline.endswith("-tf32"), ROLES in pipeline)


def new_context() -> Context:
    """A context that knows every dialect of the pipeline."""
    ctx = Context()
    for dialect in (Builtin, Arith, Math, TEXPR, ASSIGN, LOOPS, KERNEL):
        ctx.load_dialect(dialect)
    return ctx


def stage_names(target: str) -> Iterator[str]:
    """Everything that can be asked for as a stage of a target's pipeline: levels, and the text after any
    pass.
    """
    yield "texpr"
    names = [p.name for p in PIPELINES[target]]
    yield from (level for level, last in LEVELS.items() if last.name in names)
    yield from names


def passes_until(target: str, stage: str) -> Sequence[PipelinePass]:
    """The passes that lead from the program as built to a stage. Raises KeyError for an unknown stage."""
    if stage == "texpr":
        return ()
    passes = PIPELINES[target]
    names = [p.name for p in passes]
    last = LEVELS[stage].name if stage in LEVELS else stage
    if last not in names:
        raise KeyError(stage)
    return passes[: names.index(last) + 1]


def passes_since_folded(target: str) -> Sequence[PipelinePass]:
    """The passes that see all of the layers that were folded: unfold-layers, and those after it."""
    passes = PIPELINES[target]
    return passes[passes.index(UnfoldLayersPass) :]


def for_target(
    passes: Sequence[PassMaker],
    target: TargetDescription,
    find: FindChoices | None = None,
    *,
    keep: bool = False,
) -> Sequence[PassMaker]:
    """The passes for a processor, with schedules as they are found for the text of a nest or group. With
    `keep`, copies of parameters are kept between runs.
    """

    def chosen(made: PassMaker) -> PassMaker:
        if made is SchedulePass:
            return partial(SchedulePass, described=target, keep=keep, find=find or no_choices)
        return next((partial(kind, described=target) for kind in TARGETED if made is kind), made)

    return [chosen(made) for made in passes]


def module_text(module: ModuleOp, origins: bool = False) -> str:
    """The text of a module, as `ocannl-opt` writes it; on request, with the origins of each operation."""
    return op_text(module, origins) + "\n"


def parse_text(text: str) -> ModuleOp:
    """The module of a text that the pipeline wrote."""
    return LocatingParser(new_context(), text, "loops").parse_module()


# A pass with its options: a class if it has none.
PassMaker: TypeAlias = Callable[[], ModulePass]
Observer: TypeAlias = Callable[[str, ModuleOp, float], None]


def run_passes(
    module: ModuleOp, passes: Sequence[PassMaker], *, verify: bool = False, observe: Observer | None = None
) -> None:
    """Runs passes in order; `observe` sees each one's name, the module after it and the seconds it took.

    `verify` checks the module after each pass, and that no operation has lost its origins.
    """
    made = [make() for make in passes]
    has_origins = verify and not without_origins(module)
    start = time.perf_counter()
    for at in applied(made, context_of_passes(), module):
        if verify:
            module.verify()
            verify_steps(module)
            if has_origins:
                check_origins(module)
        if observe is not None:
            observe(made[at].name, module, time.perf_counter() - start)
        start = time.perf_counter()


def applied(passes: Sequence[ModulePass], ctx: Context, module: ModuleOp) -> Iterator[int]:
    """Runs passes in order, and yields the number of each when it has run.

    Where folded layers cannot be unfolded, those since are run again, on layers that are not folded.
    """
    at, folded_at, unfolded = 0, -1, list[Operation]()
    while at < len(passes):
        before = operations_of(module.body.block)
        try:
            passes[at].apply(ctx, module)
            if isinstance(passes[at], FoldLayersPass) and operations_of(module.body.block) != before:
                folded_at, unfolded = at, before
        except IrregularLayers:
            if folded_at < 0:
                raise
            for op in operations_of(module.body.block):
                op.detach()
            module.body.block.add_ops(unfolded)
            at, folded_at = folded_at, -1
        yield at
        at += 1
