"""`lower-loops-to-kernels`: a kernel for each nest or group."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.kernel.mma import FRAGMENTS, QUARTERS
from ocannl.dialects.loops import FuncOp, GroupOp, NestOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.loops_to_kernels.accumulators import Accumulator, take_resets
from ocannl.lowering.loops_to_kernels.blocks_in_turn import blocks_in_turn, has_products
from ocannl.lowering.loops_to_kernels.contraction import contraction
from ocannl.lowering.loops_to_kernels.fused_rows import row_kernel
from ocannl.lowering.loops_to_kernels.options import KernelOptions
from ocannl.lowering.loops_to_kernels.owned_rows import owned_rows
from ocannl.lowering.loops_to_kernels.padded_stores import accessed_columns, fill_rows, relax_bounds
from ocannl.lowering.loops_to_kernels.phases import in_phases
from ocannl.lowering.loops_to_kernels.pointwise import pointwise
from ocannl.lowering.loops_to_kernels.register_blocks import RegisterKernel
from ocannl.lowering.loops_to_kernels.register_plan import plan
from ocannl.lowering.loops_to_kernels.rows import row_reductions
from ocannl.lowering.loops_to_kernels.transposing import transposing
from ocannl.passes.analysis.nests import functions, has_points, nests, nests_of, steps


def lower_nest(nest: NestOp, options: KernelOptions) -> LaunchOp:
    """The kernel of a nest, by the first strategy that fits it."""
    if nest.clashing:
        return in_phases(nest) or owned_rows(nest) or pointwise(nest)
    return contraction(nest, options) or row_reductions(nest) or transposing(nest) or pointwise(nest)


def goes_in_turn(group: GroupOp) -> bool:
    """Whether the kernel of a group goes through blocks in turn; it is one of rows otherwise."""
    return bool(group.clashing or group.bounds) or has_products(group)


def lower_group(group: GroupOp, options: KernelOptions, kept: Sequence[Accumulator]) -> LaunchOp:
    """The kernel of a group and of the resets of what it adds up in, and of nests after it that it takes.

    Raises `OcannlError` where points of one of its nests store to one cell.
    """
    for nest in group.nests:
        if nest.clashing:
            raise OcannlError(at_line(nest, "the points of a nest in a group store to different cells"))
    if goes_in_turn(group):
        found = plan(group, options, kept)
        if found is not None:
            kernel = RegisterKernel(group, found, {one.node: one for one in kept})
            launch = kernel.launch()
            for nest in kernel.taken:
                Rewriter.erase_op(nest)
            return launch
        return blocks_in_turn(group, options, kept)
    return row_kernel(group)


def lower_function(func: FuncOp, options: KernelOptions) -> None:
    """Puts kernels in place of a function's nests, and of its groups."""
    for nest in nests(func):
        if not has_points(nest):
            Rewriter.erase_op(nest)
    columns = accessed_columns(func)
    for step in steps(func) if columns else ():
        for nest in nests_of(step):
            fill_rows(nest, columns)
    kept = {
        step: take_resets(func, step)
        for step in steps(func)
        if isinstance(step, GroupOp) and has_points(step) and goes_in_turn(step)
    }
    for step in steps(func):
        if step.parent is None:
            continue
        if has_points(step) and nests_of(step):
            launch = (
                lower_group(step, options, kept.get(step, []))
                if isinstance(step, GroupOp)
                else lower_nest(step, options)
            )
            relax_bounds(launch, columns)
            derive([launch], step.location)
            Rewriter.insert_op(launch, InsertPoint.before(step))
        Rewriter.erase_op(step)


@dataclass(frozen=True)
class LowerLoopsToKernelsPass(ModulePass):
    """Turns every nest into a kernel for a GPU; its schedule, which is for a CPU, is ignored.

    A contraction is computed in tiles, from tiles of its operands in shared memory. Where a nest has few
    points and long reductions, threads share these. Else each point has a thread; points that store to one
    cell run in turn, in one thread. Nests without points vanish. A routine's results do not depend on the
    order of threads.

    Attributes:
        tensor_cores: contractions of 16-bit floats and f64 are for tensor cores, which multiply them exactly.
        tf32: so are those of f32, which they round to TF32.
        tile_bytes: what the tiles of other contractions may take of the shared memory of a block.
        stages: the most stages of their software pipelines.
        warpgroups: those of floats of 8 and 16 bits and of TF32 may have the shape that warpgroups multiply.
        shared_bytes: what tiles for tensor cores may take of the shared memory of a block.
        roles: warps of their own copy tiles for warpgroups, where a sum has more steps than fit in memory.
        processors: with `roles`, at most so many blocks compute all tiles of a product.
    """

    name = "lower-loops-to-kernels"
    tensor_cores: bool = True
    tf32: bool = False
    tile_bytes: int = KernelOptions.tile_bytes
    stages: int = KernelOptions.stages
    warpgroups: bool = KernelOptions.warpgroups
    shared_bytes: int = KernelOptions.shared_bytes
    roles: bool = KernelOptions.roles
    processors: int = KernelOptions.processors

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fragments = [t for t in FRAGMENTS if t not in QUARTERS]
        types = [t for t in fragments if (self.tf32 if t is Float32Type else self.tensor_cores)]
        options = KernelOptions(
            types,
            self.tile_bytes,
            self.stages,
            self.warpgroups,
            self.shared_bytes,
            self.roles,
            self.processors,
        )
        for func in functions(op):
            lower_function(func, options)
