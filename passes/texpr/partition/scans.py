"""The ways to divide a scan: along an axis that goes through all of its body, so that no iteration waits for
other ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from ocannl.dialects.records import dataclass
from ocannl.dialects.texpr import ScanOp
from ocannl.dialects.texpr.axes import Axis
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.analysis.infer_placements.costs import Machine
from ocannl.passes.analysis.infer_placements.problem import WHOLE, Placements, Problem, Split, Way
from ocannl.passes.analysis.infer_placements.solver import ImpossiblePlacement, solve
from ocannl.passes.texpr.partition.program import Program
from ocannl.passes.texpr.partition.ways import Cut, Dividing


@dataclass(frozen=True, slots=True)
class ScanCut(Cut):
    """A way to divide a scan, and the placements in its body."""

    body: Program
    placements: Placements


def cuts_of_scan(op: ScanOp, mesh: str, dividing: Dividing) -> list[Cut]:
    """The ways of a scan: whole, and those that follow from an axis of what its body reads."""
    cuts = [Cut(Way("", (WHOLE,) * len(op.operands), (WHOLE,) * len(op.results)), ())]
    known: set[tuple[tuple[Split, ...], tuple[Split, ...]]] = set()
    for argument in op.arguments:
        for axis, size in enumerate(shape_of(argument).memory_sizes):
            cut = _cut(op, argument, axis, mesh, dividing) if size > 1 else None
            if cut is not None and (cut.way.needs, cut.way.gives) not in known:
                known.add((cut.way.needs, cut.way.gives))
                cuts.append(cut)
    return cuts


def _cut(op: ScanOp, argument: SSAValue, axis: int, mesh: str, dividing: Dividing) -> ScanCut | None:
    """The way that follows from a split of an argument of the body; None where something would move."""
    given: dict[SSAValue, Split] = {argument: axis}
    while True:
        body = Program(op.block, mesh, dividing, cuts_of_scan, given)
        problem = body.problem()
        try:
            placements = solve(problem)
        except ImpossiblePlacement:
            return None
        splits = {value: placements.splits[number] for value, number in body.numbers.items()}
        carried = dict(_carried_on(op, splits, given))
        if not carried:
            break
        given |= carried
    needs, gives = _outside(op, splits)
    if needs is None or gives is None or not _stays(op, splits, problem, placements):
        return None
    return ScanCut(Way(f"{op.index}: axis {axis}", needs, gives), (), body, placements)


def _carried_on(
    op: ScanOp, splits: dict[SSAValue, Split], given: dict[SSAValue, Split]
) -> Iterator[tuple[SSAValue, Split]]:
    """The carries that are split at the end of an iteration, and not yet at its beginning."""
    for argument, value in zip(op.carry_arguments, op.yielded.carries, strict=True):
        split = splits[value]
        if argument not in given and splits[argument] == WHOLE and split >= 0:
            yield argument, split


def _stays(op: ScanOp, splits: dict[SSAValue, Split], problem: Problem, placements: Placements) -> bool:
    """Whether nothing moves between ranks inside of the body, or from one iteration to the next."""
    machine, moves = Machine(), list[tuple[Split, Split]]()
    for step, way in zip(problem.steps, placements.ways, strict=True):
        moves += [(placements.splits[v], need) for v, need in zip(step.operands, way.needs, strict=True)]
        moves += [(given, placements.splits[v]) for v, given in zip(step.results, way.gives, strict=True)]
    pairs = zip(op.yielded.carries, op.carry_arguments, strict=True)
    moves += [(splits[value], splits[argument]) for value, argument in pairs]
    return all(machine.moving(1, source, target, problem.ranks) == 0 for source, target in moves)


def _outside(
    op: ScanOp, splits: dict[SSAValue, Split]
) -> tuple[tuple[Split, ...] | None, tuple[Split, ...] | None]:
    """The splits that a scan needs of its operands and gives its results; None where a carry is broadcast."""
    needs: list[Split] = []
    for argument, init in zip(op.carry_arguments, op.inits, strict=True):
        sizes, own = shape_of(argument).memory_sizes, shape_of(init).memory_sizes
        is_one = all(size == 1 for size in own)
        if sizes != own and not is_one and splits[argument] != WHOLE:
            return None, None
        needs.append(WHOLE if is_one and sizes != own else splits[argument])
    for argument, (value, axis) in zip(op.sequence_arguments, op.sequences, strict=True):
        needs.append(stacked(splits[argument], axis, value))
    needs += [splits[argument] for argument in op.captured_arguments]
    gives = [splits[argument] for argument in op.carry_arguments]
    stacks = op.results[op.carried.data :]
    for result, (value, axis) in zip(stacks, op.yielded.stacked, strict=True):
        gives.append(stacked(splits[value], axis, result))
    return tuple(needs), tuple(gives)


def stacked(split: Split, axis: Axis, stack: SSAValue) -> Split:
    """The split of a stack of values that are split; positions are along an axis of the stack."""
    return split + 1 if split >= axis.in_memory(shape_of(stack)) else split
