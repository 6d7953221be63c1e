"""Forward mode through scans: a scan that carries tangents, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from xdsl.ir import Block, Operation, Region, SSAValue

from ocannl.dialects.ir.op_helpers import block_copied, copied
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.texpr import ScanOp, YieldOp
from ocannl.dialects.texpr.axes import Axis
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.passes.texpr.differentiate.derivative_builder import broadcast_to, constant, gradient_type, insert
from ocannl.passes.texpr.differentiate.scan_adjoint import active_arguments, is_differentiable

TangentOf: TypeAlias = Callable[[SSAValue], SSAValue | None]
InBlock: TypeAlias = Callable[[Block, Iterable[tuple[SSAValue, SSAValue]], Operation], TangentOf]
"""Makes the tangents in a block, given those of some values, in front of an operation."""


def tangents_of_scan(
    scan: ScanOp, tangent_of: TangentOf, before: Operation, in_block: InBlock
) -> dict[SSAValue, SSAValue]:
    """The tangents of a scan's results by those of its operands, where they are not zero."""
    known = [(value, tangent_of(value)) for value in scan.operands]
    active = active_arguments(scan, {value for value, tangent in known if tangent is not None})
    copy = copied(scan, {})
    before_block = before.parent_block()
    assert before_block is not None
    before_block.insert_op_before(copy, before)
    block, yielded, arguments = copy.block, copy.yielded, copy.arguments
    given: list[tuple[SSAValue, SSAValue]] = []
    inits = [*scan.inits]
    carries = [n for n, argument in enumerate(scan.carry_arguments) if argument in active]
    for number in carries:
        argument, tangent = copy.carry_arguments[number], known[number][1]
        if tangent is None:
            inits.append(constant(0.0, gradient_type(argument), before))
        else:
            inits.append(broadcast_to(tangent, argument, before))
        given.append((argument, block.insert_arg(gradient_type(argument), len(inits) - 1)))
    sequences: list[tuple[SSAValue, Axis]] = [*scan.sequences]
    captured = [*scan.captured]
    carried = scan.carried.data
    for place, (_, tangent) in enumerate(known):
        if place < carried or tangent is None or scan.arguments[place] not in active:
            continue
        argument = arguments[place]
        if place < carried + len(scan.sequences):
            at = len(inits) + len(sequences)
            sequences.append((tangent, scan.sequences[place - carried][1]))
        else:
            at = len(block.args)
            captured.append(tangent)
        given.append((argument, block.insert_arg(gradient_type(argument), at)))
    inside = in_block(block, given, yielded)
    nexts = [*yielded.carries]
    for number in carries:
        value = yielded.carries[number]
        tangent = inside(value)
        nexts.append(constant(0.0, gradient_type(value), yielded) if tangent is None else tangent)
    stacks: list[tuple[SSAValue, tuple[SSAValue, Axis]]] = []
    for result, (value, axis) in zip(scan.results[carried:], yielded.stacked, strict=True):
        tangent = inside(value) if is_differentiable(value) else None
        if tangent is not None:
            stacks.append((result, (tangent, axis)))
    end = YieldOp(nexts, [stack for _, stack in stacks])
    block.insert_op_before(end, yielded)
    yielded.detach()
    yielded.erase()
    derive(block.ops, scan.location)
    types = [tensor_type(init) for init in inits[carried:]]
    types = [*(tensor_type(result) for result in scan.results[:carried]), *types]
    types += [scan.stack_type(value, axis) for _, (value, axis) in stacks]
    made = insert(
        ScanOp(
            scan.index,
            scan.count,
            inits,
            sequences,
            captured,
            types,
            Region(block_copied(block, {})),
            reverse=scan.reversed is not None,
            going=scan.flag,
            recompute=scan.recompute is not None,
        ),
        before,
        scan,
    )
    copy.detach()
    copy.erase()
    found: dict[SSAValue, SSAValue] = {}
    for place, number in enumerate(carries, carried):
        found[scan.results[number]] = made.results[place]
    for place, (result, _) in enumerate(stacks, len(inits)):
        found[result] = made.results[place]
    for result, tangent in found.items():
        tangent.name_hint = f"{result.name_hint}_tangent" if result.name_hint else None
    return found
