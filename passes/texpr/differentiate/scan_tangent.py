"""Forward mode through scans: a scan that carries tangents, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    tangents = [tangent_of(value) for value in scan.operands]
    copy = copied(scan, {})
    before_block = before.parent_block()
    assert before_block is not None
    before_block.insert_op_before(copy, before)
    found = _ScanWithTangents(scan, copy, tangents, before).results(in_block)
    copy.detach()
    copy.erase()
    for result, tangent in found.items():
        tangent.name_hint = f"{result.name_hint}_tangent" if result.name_hint else None
    return found


class _ScanWithTangents:
    """A scan that computes what `scan` does and the tangents of that, made of a copy of it."""

    def __init__(
        self, scan: ScanOp, copy: ScanOp, tangents: Sequence[SSAValue | None], before: Operation
    ) -> None:
        self.scan = scan
        self.copy = copy
        self.arguments = copy.arguments
        """Those of the body as they are without tangents."""
        self.tangents = tangents
        """Those of the operands; None for zero."""
        self.before = before
        given = {value for value, tangent in zip(scan.operands, tangents, strict=True) if tangent is not None}
        self.active = active_arguments(scan, given)
        self.carries = [n for n, argument in enumerate(scan.carry_arguments) if argument in self.active]
        """The numbers of the carries that have tangents."""
        self.inits = [*scan.inits]
        self.sequences: list[tuple[SSAValue, Axis]] = [*scan.sequences]
        self.captured = [*scan.captured]
        self.given: list[tuple[SSAValue, SSAValue]] = []
        """Arguments of the body with their tangents."""

    def results(self, in_block: InBlock) -> dict[SSAValue, SSAValue]:
        """The tangents of the results of `scan`."""
        self._carry_tangents()
        self._read_tangents()
        scan, carried = self.scan, self.scan.carried.data
        stacks = self._yield_tangents(in_block(self.copy.block, self.given, self.copy.yielded))
        derive(self.copy.block.ops, scan.location)
        types = [tensor_type(result) for result in scan.results[:carried]]
        types += [tensor_type(init) for init in self.inits[carried:]]
        types += [scan.stack_type(*stack) for _, stack in stacks]
        made = insert(
            ScanOp(
                scan.index,
                scan.count,
                self.inits,
                self.sequences,
                self.captured,
                types,
                Region(block_copied(self.copy.block, {})),
                reverse=scan.reversed is not None,
                going=scan.flag,
                counting=scan.counted,
                recompute=scan.recompute is not None,
            ),
            self.before,
            scan,
        )
        with_tangents = [scan.results[n] for n in self.carries] + [result for result, _ in stacks]
        return dict(zip(with_tangents, made.results[carried:], strict=True))

    def _carry_tangents(self) -> None:
        """Adds the tangents of carries as carries, behind the others."""
        for number in self.carries:
            argument, tangent = self.arguments[number], self.tangents[number]
            if tangent is None:
                self.inits.append(constant(0.0, gradient_type(argument), self.before))
            else:
                self.inits.append(broadcast_to(tangent, argument, self.before))
            self._give(argument, len(self.inits) - 1)

    def _read_tangents(self) -> None:
        """Adds the tangents of sequences and of captured values, each behind those of its kind."""
        scan, carried = self.scan, self.scan.carried.data
        first = carried + len(self.carries)
        """The place of the first sequence among the arguments, those of tangents included."""
        read = [
            (place, self.arguments[place], tangent)
            for place, tangent in enumerate(self.tangents)
            if place >= carried and tangent is not None and scan.arguments[place] in self.active
        ]
        for place, argument, tangent in read:
            if place < carried + len(scan.sequences):
                at = first + len(self.sequences)
                self.sequences.append((tangent, scan.sequences[place - carried][1]))
            else:
                at = len(self.copy.block.args)
                self.captured.append(tangent)
            self._give(argument, at)

    def _give(self, argument: SSAValue, at: int) -> None:
        """Adds an argument of the body, at a place among these: the tangent of another one."""
        self.given.append((argument, self.copy.block.insert_arg(gradient_type(argument), at)))

    def _yield_tangents(self, inside: TangentOf) -> list[tuple[SSAValue, tuple[SSAValue, Axis]]]:
        """Ends the body with tangents alone behind the carries; returns the stacked ones by their results."""
        scan, yielded = self.scan, self.copy.yielded
        nexts = [*yielded.carries]
        for number in self.carries:
            value = yielded.carries[number]
            tangent = inside(value)
            nexts.append(constant(0.0, gradient_type(value), yielded) if tangent is None else tangent)
        stacks: list[tuple[SSAValue, tuple[SSAValue, Axis]]] = []
        for result, (value, axis) in zip(scan.results[scan.carried.data :], yielded.stacked, strict=True):
            tangent = inside(value) if is_differentiable(value) else None
            if tangent is not None:
                stacks.append((result, (tangent, axis)))
        end = YieldOp(nexts, [stack for _, stack in stacks])
        self.copy.block.insert_op_before(end, yielded)
        yielded.detach()
        yielded.erase()
        return stacks
