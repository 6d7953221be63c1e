"""Derivatives of fixed points, by the implicit function theorem (Bai et al., "Deep Equilibrium Models",
2019).

At `x = f(x, a)` the tangent is the fixed point of `t = f_x t + f_a da`, and the adjoint is what `f` pulls
back to `a` from the fixed point of `u = f_x' u + x_bar`. Both are fixed points of what is linear, and have
such derivatives themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from ocannl.dialects.ir.op_helpers import copied
from ocannl.dialects.scalar.terms import App, Arg
from ocannl.dialects.texpr import ScanOp, YieldOp
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.passes.analysis.values.derivative_paths import dependencies
from ocannl.passes.analysis.values.slices import slice_in
from ocannl.passes.texpr.differentiate.derivative_builder import (
    broadcast_to,
    combined,
    constant,
    gradient_type,
    insert,
    sum_to,
)
from ocannl.passes.texpr.differentiate.scan_adjoint import Pairs, Sweep
from ocannl.passes.texpr.differentiate.scan_tangent import InBlock, TangentOf


def through_fixed_point(
    scan: ScanOp,
    adjoints: Mapping[SSAValue, SSAValue],
    active: Collection[SSAValue],
    before: Operation,
    sweep: Sweep,
) -> Pairs:
    """The contributions of a fixed point to the adjoints of its active operands."""
    (found_for_result,) = adjoints.values()
    adjoint = broadcast_to(found_for_result, scan.result, before)
    solver = _Solver(scan, adjoint, before)
    own = solver.argument_of(adjoint, "cotangent")
    targets = {solver.known[argument]: value for argument, value in _captured(scan) if value in active}
    path = dependencies(solver.block, [solver.next])
    found = dict(sweep(path, {solver.next: [solver.moved]}, [solver.at, *targets], solver.end))
    solver.solve([own, found[solver.at]] if solver.at in found else [own])
    for argument, value in targets.items():
        if argument in found:
            yield value, sum_to(solver.outside(found[argument], solver.result, before), value, before)


def tangent_of_fixed_point(
    scan: ScanOp, tangent_of: TangentOf, before: Operation, in_block: InBlock
) -> dict[SSAValue, SSAValue]:
    """The tangent of a fixed point by those of its captured operands, where it is not zero."""
    tangents = {argument: tangent_of(value) for argument, value in _captured(scan)}
    given = {argument: tangent for argument, tangent in tangents.items() if tangent is not None}
    if not given:
        return {}
    zero = constant(0.0, gradient_type(scan.result), before)
    solver = _Solver(scan, zero, before)
    directions = [
        (solver.known[argument], solver.argument_of(tangent, "tangent"))
        for argument, tangent in given.items()
    ]
    tangent = in_block(solver.block, [(solver.at, solver.moved), *directions], solver.end)(solver.next)
    if tangent is None:
        solver.drop()
        return {}
    solver.solve([tangent])
    solver.begin_with(solver.outside(tangent, zero, solver.made))
    return {scan.result: solver.result}


def _captured(scan: ScanOp) -> Iterable[tuple[SSAValue, SSAValue]]:
    return zip(scan.captured_arguments, scan.captured, strict=True)


class _Solver:
    """A fixed point of what is linear in its carry, whose body computes a step of another at its solution."""

    def __init__(self, scan: ScanOp, begin: SSAValue, before: Operation) -> None:
        type, tolerance = gradient_type(scan.result), scan.tolerance
        self.block = Block(arg_types=[type])
        self.end = YieldOp(self.block.args, ())
        self.block.add_op(self.end)
        self.made = insert(
            ScanOp(
                scan.index,
                scan.count,
                [begin],
                (),
                (),
                [type],
                Region(self.block),
                within=tolerance,
                relative=True,
            ),
            before,
            scan,
        )
        self.at = self.argument_of(scan.result, "at")
        """The solution that derivatives are taken at."""
        self.known: dict[SSAValue, SSAValue] = {scan.arguments[0]: self.at}
        for argument, value in _captured(scan):
            self.known[argument] = self.argument_of(value, argument.name_hint)
        for step in scan.steps:
            insert(copied(step, self.known), self.end, step)
        (value,) = scan.yielded.carries
        self.next = self.known[value]

    @property
    def moved(self) -> BlockArgument:
        """A change of the solution, or of the loss by it."""
        return self.made.arguments[0]

    @property
    def result(self) -> OpResult:
        return self.made.result

    def argument_of(self, value: SSAValue, name: str | None) -> BlockArgument:
        """The argument of the body that is a value from outside."""
        argument = self.block.insert_arg(value.type, len(self.block.args))
        argument.name_hint = name
        self.made.operands = [*self.made.operands, value]
        return argument

    def solve(self, terms: Sequence[SSAValue]) -> None:
        """Makes a step the sum of terms."""
        value = terms[0]
        for term in terms[1:]:
            value = combined(App("add", (Arg(0), Arg(1))), [value, term], tensor_type(value), self.end)
        self.end.operands = [value]

    def begin_with(self, value: SSAValue) -> None:
        self.made.operands = [value, *self.made.operands[1:]]

    def outside(self, value: SSAValue, moved: SSAValue, before: Operation) -> SSAValue:
        """A value of the body for a change, in front of an operation."""
        values: dict[SSAValue, SSAValue] = dict(zip(self.made.arguments, self.made.operands, strict=True))
        values[self.moved] = moved
        for op in slice_in(self.block, [value]):
            insert(copied(op, values), before, op)
        return values[value]

    def drop(self) -> None:
        self.made.detach()
        self.made.erase()
