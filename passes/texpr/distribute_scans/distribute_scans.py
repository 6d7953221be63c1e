"""`distribute-scans`: what a scan computes at each position apart becomes one operation over all of them."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import App, Arg
from ocannl.dialects.texpr import ApplyOp, ConstantOp, ScanOp, TexprRoutineOp
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.passes.analysis.values.derivative_paths import all_operands, dependents
from ocannl.passes.analysis.values.slices import slice_in
from ocannl.passes.texpr.distribute_scans.positions import Positions, is_movable, users
from ocannl.passes.texpr.distribute_scans.prune import pruned

SUM = App("add", (Arg(0), Arg(1)))


def distribute(block: Block) -> None:
    """Distributes the scans of a block, those in bodies first."""
    for op in operations_of(block):
        if isinstance(op, ScanOp):
            distribute(op.block)
            forward_copies(op)
            if op.size and op.flag is None and not saves_memory(op):
                move_behind(op)
            if op.size:
                move_ahead(op)
            pruned(op)


def saves_memory(scan: ScanOp) -> bool:
    """Whether a scan computes again what its adjoint reads, so that no stacks of that are made."""
    return any(isinstance(op, ScanOp) and op.recompute is not None for op in scan.steps)


def forward_copies(scan: ScanOp) -> None:
    """Values that are copies of others in the body are those."""
    for op in scan.steps:
        if isinstance(op, ApplyOp) and is_copy(op):
            op.result.replace_all_uses_with(op.args[0])
            op.detach()
            op.erase()


def is_copy(op: ApplyOp) -> bool:
    """Whether an operation is the value of its operand, of the same type."""
    if not op.is_projected or op.accum is not None or op.term.data != Arg(0) or op.mode is not None:
        return False
    (part, *others) = op.parts
    whole = all(index.variable or index.is_constant for index in part.result_map)
    same = part.combination.maps[0] == part.result_map
    return not others and whole and same and tensor_type(op.args[0]) == op.result.type


@dataclass(frozen=True, slots=True)
class SumCarry:
    """A carry that is nothing but the sum of what the iterations add to it."""

    number: int
    op: ApplyOp
    added: SSAValue


def sum_carries(scan: ScanOp) -> list[SumCarry]:
    """The carries that are sums of values of the body which are accumulations."""
    found: list[SumCarry] = []
    pairs = zip(scan.carry_arguments, scan.yielded.carries, strict=True)
    for number, (argument, value) in enumerate(pairs):
        op = value.owner
        if (
            not isinstance(op, ApplyOp)
            or op.term.data != SUM
            or users(argument) != [op]
            or users(value) != [scan.yielded]
        ):
            continue
        if op.accum is not None or len(op.parts) != 1 or argument not in op.args:
            continue
        (other,) = [operand for operand in op.args if operand is not argument] or [argument]
        (part,) = op.parts
        owner, init = other.owner, scan.inits[number]
        if (
            isinstance(owner, ApplyOp)
            and owner.accum_name == "add"
            and set(part.combination.maps) == {part.result_map}
            and tensor_type(other) == tensor_type(argument)
            and (is_zero(init) or tensor_type(init) == tensor_type(argument))
        ):
            found.append(SumCarry(number, op, other))
    return found


def move_behind(scan: ScanOp) -> None:
    """Moves accumulations that no carry depends on, and what is computed from them, behind the scan; sums
    of such over all iterations are one accumulation.
    """
    sums = sum_carries(scan)
    own = {carry.number for carry in sums}
    carries = [value for n, value in enumerate(scan.yielded.carries) if n not in own]
    needed = {*slice_in(scan.block, carries, all_operands)}
    adds = {carry.op for carry in sums}
    free = [op for op in scan.steps if op not in needed and op not in adds and is_movable(op, scan)]
    moved = with_accumulations(free)
    keep_together(moved, {*adds, scan.yielded})
    if not moved:
        return
    positions = Positions(scan, moved, before=False)
    carried = scan.carried.data
    stacks = [
        (result, value, axis)
        for result, (value, axis) in zip(scan.results[carried:], scan.yielded.stacked, strict=True)
        if value.owner in moved and result.uses
    ]
    replaced: list[tuple[SSAValue, SSAValue]] = []
    for carry in sums:
        if carry.added.owner in moved:
            assert isinstance(carry.added.owner, ApplyOp)
            total = positions.total(carry.added.owner)
            replaced.append((scan.results[carry.number], with_init(scan, carry, total, positions)))
    for result, value, axis in stacks:
        assert isinstance(value.owner, ApplyOp)
        replaced.append((result, positions.whole(value.owner, axis).result))
    parent = scan.parent_block()
    assert parent is not None
    parent.insert_ops_after(positions.made, scan)
    for result, value in replaced:
        value.name_hint = result.name_hint or value.name_hint
        result.replace_all_uses_with(value)


def with_init(scan: ScanOp, carry: SumCarry, total: ApplyOp, positions: Positions) -> SSAValue:
    """The sum of what a carry begins with, unless that is 0, and of what is added."""
    init = scan.inits[carry.number]
    if is_zero(init):
        return total.result
    (part,) = carry.op.parts
    combination = Combination.of(SUM, [init, total.result], [part.result_map] * 2)
    made = ApplyOp.projected(combination, total.result.type, None, part.result_map, part.space)
    made.location = total.location
    positions.made.append(made)
    return made.result


def is_zero(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp) and value.owner.value == 0


def move_ahead(scan: ScanOp) -> None:
    """Moves accumulations that depend on no carry before the scan, with what they are computed from."""
    steps = scan.steps
    bound = dependents(steps, scan.carry_arguments, all_operands)
    free: set[Operation] = set()
    for op in steps:
        if is_movable(op, scan) and not any(is_bound(operand, free, bound) for operand in op.operands):
            free.add(op)
    accumulations = [op for op in steps if op in free and isinstance(op, ApplyOp) and op.accum is not None]
    used = slice_in(scan.block, [op.result for op in accumulations], all_operands)
    wanted = [op for op in accumulations if not {*users(op.result)} <= {*used}]
    if not wanted:
        return
    positions = Positions(scan, {op for op in used if op in free}, before=True)
    parent = scan.parent_block()
    assert parent is not None
    for op in wanted:
        assert isinstance(op, ApplyOp)
        axis = positions.axis(op)
        argument = scan.add_sequence(positions.stack(op.result).value, axis, op.result)
        op.result.replace_all_uses_with(argument)
    parent.insert_ops_before(positions.made, scan)


def is_bound(operand: SSAValue, free: set[Operation], bound: set[SSAValue]) -> bool:
    """Whether a value is one of each iteration."""
    owner = operand.owner
    return operand in bound or not (isinstance(owner, Block | ConstantOp) or owner in free)


def with_accumulations(ops: Iterable[Operation]) -> set[Operation]:
    """The accumulations among operations in order, and those that depend on them."""
    found: set[Operation] = set()
    for op in ops:
        is_accumulation = isinstance(op, ApplyOp) and op.accum is not None
        if is_accumulation or any(operand.owner in found for operand in op.operands):
            found.add(op)
    return found


def keep_together(moved: set[Operation], ends: set[Operation]) -> None:
    """Leaves out operations that others use which stay."""
    while True:
        kept = {
            op
            for op in moved
            if not all(user in moved or user in ends for result in op.results for user in users(result))
        }
        if not kept:
            return
        moved -= kept


@dataclass(frozen=True)
class DistributeScansPass(ModulePass):
    """Loop distribution, for scans: accumulations that do not depend on a carry move before the loop, those
    that no carry depends on behind it, each as one operation over all positions; a carry that only adds up
    becomes a reduction over the positions. So the input half of a recurrent layer is one product, and so are
    its weights' gradients.
    """

    name = "distribute-scans"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in op.body.block.ops:
            if isinstance(routine, TexprRoutineOp):
                distribute(routine.body.block)
