"""Reverse mode through scans: the adjoint of a scan is a scan in the other direction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.ir.op_helpers import copied, operands_of, operations_of
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.precisions import is_float
from ocannl.dialects.scalar.terms import App, Arg, Const
from ocannl.dialects.shapes.shape import Row, Shape
from ocannl.dialects.texpr import ApplyOp, ConstantOp, EmbedOp, RangeOp, ScanOp, YieldOp
from ocannl.dialects.texpr.axes import Axis
from ocannl.dialects.texpr.derivatives import CustomOp
from ocannl.dialects.texpr.tensor_type import TensorType, tensor_type
from ocannl.passes.analysis.values.derivative_paths import dependencies, dependents
from ocannl.passes.analysis.values.slices import operands_with_body, slice_in
from ocannl.passes.texpr.differentiate.derivative_builder import (
    combined,
    constant,
    gradient_type,
    identity,
    insert,
    sum_to,
)

Pairs: TypeAlias = Iterator[tuple[SSAValue, SSAValue]]
Sweep: TypeAlias = Callable[
    [Sequence[Operation], Mapping[SSAValue, Sequence[SSAValue]], Collection[SSAValue], Operation], Pairs
]
"""The adjoints of targets from those of values, in a block."""
SAVED = Axis("batch", 0)
"""The axis of the iterations in what a scan saves for its adjoint: each iteration's part is in one piece."""


def active_arguments(scan: ScanOp, active: Collection[SSAValue]) -> set[SSAValue]:
    """The arguments of the body that depend on active operands, through carries too."""
    pairs = zip(scan.arguments, scan.operands, strict=True)
    found: set[SSAValue] = {a for a, value in pairs if value in active and is_differentiable(value)}
    carries = [*zip(scan.carry_arguments, scan.yielded.carries, strict=True)]
    while True:
        reached = dependents(scan.steps, found)
        more = [a for a, value in carries if value in reached and a not in found and is_differentiable(a)]
        if not more:
            return found
        found.update(more)


def is_differentiable(value: SSAValue) -> bool:
    return is_float(tensor_type(value).element)


def through_scan(
    scan: ScanOp,
    adjoints: Mapping[SSAValue, SSAValue],
    active: Collection[SSAValue],
    before: Operation,
    sweep: Sweep,
) -> Pairs:
    """The contributions of a scan to the adjoints of its active operands."""
    reverse = _Reverse(scan, active_arguments(scan, active), adjoints, before)
    reverse.differentiate(sweep)
    made = reverse.build()
    insert(made, before, scan)
    for operand, number in reverse.contributions():
        yield operand, sum_to(made.results[number], operand, before)


@dataclass
class _Reverse:
    """The adjoint of one scan under construction."""

    scan: ScanOp
    active: set[SSAValue]
    """The arguments of the body that have adjoints."""
    adjoints: Mapping[SSAValue, SSAValue]
    """Those of the results."""
    before: Operation
    carries: list[BlockArgument] = field(default_factory=list[BlockArgument])
    """The arguments whose adjoint is carried."""
    found: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The adjoints of the arguments of the body, in it."""
    seeds: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The adjoints of what the body yields, by the result whose adjoint they have; else by the argument."""
    steps: list[Operation] = field(default_factory=list[Operation])
    """The operations that compute the adjoints."""
    forward: set[Operation] = field(default_factory=set[Operation])
    """The operations of the body that what it yields depends on, without those to be computed again."""

    def differentiate(self, sweep: Sweep) -> None:
        """Computes the adjoints of the body in the body, for a moment."""
        scan, block = self.scan, self.scan.block
        self.carries = [argument for argument in scan.carry_arguments if argument in self.active]
        own = set(operations_of(block))
        kept = slice_in(block, scan.yielded.values, values_read)
        self.forward = {op for op in kept if not (isinstance(op, ScanOp) and op.recompute)}
        given: dict[SSAValue, list[SSAValue]] = {}
        for argument, value in zip(scan.carry_arguments, scan.yielded.carries, strict=True):
            if argument in self.active:
                self.seeds[argument] = self._seed(given, value, argument)
        carried = scan.carried.data
        for result, (value, _) in zip(scan.results[carried:], scan.yielded.stacked, strict=True):
            if result in self.adjoints and is_differentiable(value):
                self.seeds[result] = self._seed(given, value, value)
        path = dependencies(block, given)
        self.found = dict(sweep(path, given, self.active, scan.yielded))
        needed = slice_in(block, self.found.values(), operands_with_body)
        made = [op for op in operations_of(block) if op not in own]
        self.steps = [op for op in needed if op not in own]
        steps = set(self.steps)
        for op in reversed(made):
            op.detach()
            if op not in steps:
                # Adjoints that nothing asked for: they would go on using those of the steps.
                op.erase()

    def _seed(self, given: dict[SSAValue, list[SSAValue]], value: SSAValue, like: SSAValue) -> SSAValue:
        block = self.scan.block
        seed = block.insert_arg(gradient_type(like), len(block.args))
        given.setdefault(value, []).append(seed)
        return seed

    def build(self) -> ScanOp:
        """The scan of the adjoints; the body is then as it was, and yields what the adjoints read of it."""
        scan = self.scan
        builder = _Builder(scan, self.forward)
        for argument in self.carries:
            init = self.adjoints.get(scan.results[argument.index]) or self._zero(argument)
            builder.carry(self.seeds[argument], init)
        sums = [argument for argument in scan.captured_arguments if argument in self.found]
        totals = [builder.carry(None, self._zero(argument)) for argument in sums]
        carried = scan.carried.data
        for result, (_, axis) in zip(scan.results[carried:], scan.yielded.stacked, strict=True):
            if result in self.seeds:
                builder.sequence(self.seeds[result], self.adjoints[result], axis)
        results = {result for op in self.steps for result in op.results}
        read = [*(operand for op in self.steps for operand in operands_of(op)), *self.found.values()]
        for value in dict.fromkeys(read):
            if value not in results and value not in builder.copies:
                builder.saved(value)
        ran = self._ran(builder)
        builder.add(self.steps)
        end = YieldOp((), ())
        end.location = scan.location
        builder.block.add_op(end)
        yielded: list[SSAValue] = []
        for argument in self.carries:
            kept = builder.copies[self.seeds[argument]]
            yielded.append(where_ran(ran, self._carried(argument, builder, end), kept, end))
        for argument, total in zip(sums, totals, strict=True):
            part = builder.copies[self.found[argument]]
            term = App("add", (Arg(0), Arg(1)))
            added = combined(term, [total, part], tensor_type(total), end)
            yielded.append(where_ran(ran, added, total, end))
        stacks = [
            (where_ran(ran, builder.copies[self.found[argument]], None, end), axis)
            for argument, (_, axis) in zip(scan.sequence_arguments, scan.sequences, strict=True)
            if argument in self.found
        ]
        end.detach()
        made = builder.scan(yielded, stacks, ran)
        for op in reversed(self.steps):
            op.erase()
        for seed in reversed(self.seeds.values()):
            assert isinstance(seed, BlockArgument)
            scan.block.erase_arg(seed)
        return made

    def _ran(self, builder: _Builder) -> SSAValue | None:
        """An argument that is 0 in the iterations that did not run, or of which nothing comes; None if there
        are none.
        """
        scan = self.scan
        if scan.flag is not None:
            one = constant(1.0, TensorType.of(Shape(Row(), Row(), Row()), f32), scan.yielded)
            one.name_hint = "ran"
            builder.sequence(one, *scan.stack(one, SAVED))
            return builder.copies[one]
        if scan.counted is None:
            return None
        counted = scan.sequence_arguments[scan.counted]
        if counted not in builder.copies:
            builder.saved(counted)
        return builder.copies[counted]

    def _zero(self, like: SSAValue) -> SSAValue:
        return constant(0.0, gradient_type(like), self.before)

    def _carried(self, argument: SSAValue, builder: _Builder, end: Operation) -> SSAValue:
        if argument in self.found:
            return builder.copies[self.found[argument]]
        return constant(0.0, gradient_type(argument), end)

    def contributions(self) -> Iterator[tuple[SSAValue, int]]:
        """The operands, each with the number of the result that adds to its adjoint."""
        scan, number = self.scan, 0
        for argument in self.carries:
            yield scan.inits[argument.index], number
            number += 1
        for argument, value in zip(scan.captured_arguments, scan.captured, strict=True):
            if argument in self.found:
                yield value, number
                number += 1
        for argument, (value, _) in zip(scan.sequence_arguments, scan.sequences, strict=True):
            if argument in self.found:
                yield value, number
                number += 1


def values_read(op: Operation) -> Sequence[SSAValue]:
    """The operands that the value of an operation depends on."""
    return [op.source] if isinstance(op, CustomOp) else op.operands


def where_ran(ran: SSAValue | None, value: SSAValue, other: SSAValue | None, before: Operation) -> SSAValue:
    """A value in the iterations that ran, and another, or 0, in those that did not."""
    if ran is None:
        return value
    maps, space = identity(value, before)
    operands = [ran, value] if other is None else [ran, value, other]
    term = App("where", (Arg(0), Arg(1), Const(0.0) if other is None else Arg(2)))
    combination = Combination.of(term, operands, [(), *[maps] * (len(operands) - 1)])
    made = ApplyOp.projected(combination, tensor_type(value), None, maps, space)
    return insert(made, before, value).result


@dataclass
class _Builder:
    """A scan in the other direction of the positions of another."""

    source: ScanOp
    forward: set[Operation]
    block: Block = field(default_factory=Block)
    copies: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The values of the new body, by those of the other one that they stand for."""
    inits: list[SSAValue] = field(default_factory=list[SSAValue])
    sequences: list[tuple[SSAValue, Axis]] = field(default_factory=list[tuple[SSAValue, Axis]])
    captured: list[SSAValue] = field(default_factory=list[SSAValue])

    def carry(self, value: SSAValue | None, init: SSAValue) -> SSAValue:
        """An argument that is carried, and stands for a value."""
        argument = self._argument(tensor_type(init), len(self.inits), value)
        self.inits.append(init)
        return argument

    def sequence(self, value: SSAValue, whole: SSAValue, axis: Axis) -> None:
        """An argument that is a position of a tensor, and stands for a value."""
        place = len(self.inits) + len(self.sequences)
        self._argument(tensor_type(value), place, value)
        self.sequences.append((whole, axis))

    def saved(self, value: SSAValue) -> None:
        """An argument or number that stands for a value of the other body, which yields it if need be. What
        that computes for its derivative alone is computed here.
        """
        source, owner = self.source, value.owner
        if isinstance(owner, ConstantOp | RangeOp):
            self.block.add_op(copied(owner, self.copies))
        elif isinstance(owner, EmbedOp):
            back = Linear.var(source.index) * -1 + Linear((), source.size - 1)
            copy = copied(owner, self.copies)
            copy.properties["indices"] = MapAttr((owner.index.substitute({source.index: back}),))
            self.block.add_op(copy)
        elif value in source.captured_arguments:
            operand = source.captured[source.captured_arguments.index(value)]
            place = len(self.inits) + len(self.sequences) + len(self.captured)
            self._argument(tensor_type(value), place, value)
            self.captured.append(operand)
        elif value in source.sequence_arguments:
            self.sequence(value, *source.sequences[source.sequence_arguments.index(value)])
        elif isinstance(owner, Operation) and owner not in self.forward:
            for operand in operands_of(owner):
                if operand not in self.copies:
                    self.saved(operand)
            self.block.add_op(copied(owner, self.copies))
        else:
            self.sequence(value, *source.stack(value, SAVED))

    def _argument(self, type: TensorType, place: int, value: SSAValue | None) -> SSAValue:
        argument = self.block.insert_arg(type, place)
        if value is not None:
            argument.name_hint = value.name_hint
            self.copies[value] = argument
        return argument

    def add(self, ops: Sequence[Operation]) -> None:
        self.block.add_ops([copied(op, self.copies) for op in ops])

    def scan(
        self, carries: Sequence[SSAValue], stacks: Sequence[tuple[SSAValue, Axis]], ran: SSAValue | None
    ) -> ScanOp:
        """The scan with these results, of which iterations count where an argument is not 0."""
        source = self.source
        end = YieldOp(carries, stacks)
        self.block.add_op(end)
        derive(self.block.ops, source.location)
        types = [tensor_type(init) for init in self.inits]
        types += [source.stack_type(value, axis) for value, axis in stacks]
        made = ScanOp(
            source.index,
            source.count,
            self.inits,
            self.sequences,
            self.captured,
            types,
            Region(self.block),
            reverse=source.reversed is None,
            counting=ran.index - len(self.inits) if isinstance(ran, BlockArgument) else None,
        )
        for result, value in zip(made.results, end.values, strict=True):
            result.name_hint = value.name_hint
        return made
