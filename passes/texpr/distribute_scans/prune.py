"""Removes from scans what nothing uses: results, operations, and arguments of the body."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, Region, SSAValue

from ocannl.dialects.ir.op_helpers import block_copied
from ocannl.dialects.texpr import ScanOp, YieldOp
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.passes.analysis.values.derivative_paths import all_operands
from ocannl.passes.analysis.values.slices import slice_in


def needed_carries(scan: ScanOp) -> set[int]:
    """The carries that results which are used depend on."""
    carried = scan.carried.data
    needed = {number for number, result in enumerate(scan.results[:carried]) if result.uses}
    needed |= {scan.flag} if scan.flag is not None and any(result.uses for result in scan.results) else set()
    stacks = scan.yielded.stacked
    values = [v for (v, _), r in zip(stacks, scan.results[carried:], strict=True) if r.uses]
    while True:
        values += [scan.yielded.carries[number] for number in needed]
        ops = slice_in(scan.block, values, all_operands)
        read = {*values, *(operand for op in ops for operand in op.operands)}
        found = {number for number, argument in enumerate(scan.carry_arguments) if argument in read}
        if found <= needed:
            return needed
        needed |= found


def pruned(scan: ScanOp) -> None:
    """Replaces a scan by one without what nothing uses; erases it, if that is all of it."""
    kept = sorted(needed_carries(scan))
    results = scan.results[scan.carried.data :]
    stacks = [n for n, result in enumerate(results) if result.uses]
    if kept or stacks:
        _yield_only(scan, kept, stacks)
        _erase_unused(scan)
        remaining = [*(scan.results[n] for n in kept), *(results[n] for n in stacks)]
        arguments = _used_arguments(scan, kept)
        if len(arguments) == len(scan.arguments) and len(remaining) == len(scan.results):
            return
        _replace(scan, kept, arguments, remaining)
    scan.detach()
    scan.erase()


def _yield_only(scan: ScanOp, carries: Sequence[int], stacks: Sequence[int]) -> None:
    """Ends the body with some of the values that it yields."""
    yielded = scan.yielded
    end = YieldOp([yielded.carries[n] for n in carries], [yielded.stacked[n] for n in stacks])
    end.location = yielded.location
    scan.block.insert_op_before(end, yielded)
    yielded.detach()
    yielded.erase()


def _used_arguments(scan: ScanOp, carries: Sequence[int]) -> list[SSAValue]:
    """The arguments of some carries, and all others that are used."""
    others = [*scan.sequence_arguments, *scan.captured_arguments]
    return [*(scan.carry_arguments[n] for n in carries), *(argument for argument in others if argument.uses)]


def _replace(
    scan: ScanOp, carries: Sequence[int], arguments: Sequence[SSAValue], remaining: Sequence[SSAValue]
) -> None:
    """Puts a scan with some carries, arguments and results in front of another, whose results it replaces."""
    inits = [scan.inits[n] for n in carries]
    sequences = [s for s, a in zip(scan.sequences, scan.sequence_arguments, strict=True) if a in arguments]
    captured = [v for v, a in zip(scan.captured, scan.captured_arguments, strict=True) if a in arguments]
    counted = None if scan.counted is None else scan.sequence_arguments[scan.counted]
    counting = arguments.index(counted) - len(inits) if counted in arguments else None
    for argument in reversed(scan.arguments):
        if argument not in arguments:
            scan.block.erase_arg(argument)
    made = ScanOp(
        scan.index,
        scan.count,
        inits,
        sequences,
        captured,
        [tensor_type(result) for result in remaining],
        Region(block_copied(scan.block, {})),
        reverse=scan.reversed is not None,
        recompute=scan.recompute is not None,
        going=None if scan.flag is None else carries.index(scan.flag),
        counting=counting,
    )
    made.location = scan.location
    parent = scan.parent_block()
    assert parent is not None
    parent.insert_op_before(made, scan)
    for result, new in zip(remaining, made.results, strict=True):
        new.name_hint = result.name_hint
        result.replace_all_uses_with(new)


def _erase_unused(scan: ScanOp) -> None:
    """Erases operations of the body that what it yields does not depend on."""
    used: set[Operation] = {*slice_in(scan.block, scan.yielded.values, all_operands)}
    for op in reversed(scan.steps):
        if op not in used:
            op.detach()
            op.erase()
