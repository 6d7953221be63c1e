"""The lowering of scans: a loop that repeats a body, which is a routine of its own.

The body gets nodes of its caller: carries, sequences, captured values and stacks. What it reads or writes at
one position of a node, it reads or writes in place.
"""

from __future__ import annotations

from dataclasses import field
from itertools import count

from xdsl.ir import SSAValue

from ocannl.dialects import assign, texpr
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg, Const
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.lowering.statements_to_assign import StatementLowering, View
from ocannl.passes.analysis.projection import Projection, pointwise


class RoutineLowering(StatementLowering):
    """The nodes and assignments of one routine, or of the body of a scan."""

    def _scan(self, op: texpr.ScanOp) -> None:
        """Sets the carries, and repeats the body."""
        carried = op.carried.data
        results = [self.node(result) for result in op.results]
        for node, result, init in zip(results, op.results, op.inits, strict=False):
            projection = Projection(set(dict(self.indices)))
            maps = projection.result(shape_of(result))
            inner = pointwise(maps, shape_of(result), shape_of(init)).memory
            combination = self._combination(Arg(0), [init], [inner])
            space = tuple(projection.space.items())
            self._emit(op, assign.AccumOp(node, maps.memory, combination, space))
        hint = next((result.name_hint for result in op.results if result.name_hint), "scan")
        body = BodyLowering(
            op.block,
            self._symbol(hint),
            (*op.ranges.items(), *self.indices),
            self.bodies,
            mesh=self.mesh,
            scan=op,
        )
        self.bodies.append(body.run({}, op.location))
        given = [self.node(value) for value in op.operands[carried:]]
        bound = dict(zip(body.given, [*results[:carried], *given, *results[carried:]], strict=True))
        flag = None if op.flag is None else results[op.flag]
        if flag is not None:
            for node, result in zip(results[carried:], op.results[carried:], strict=True):
                maps, space = self._whole(result)
                self._emit(op, assign.AccumOp(node, maps, Combination(Const(0.0), (), ()), space))
        self._emit(op, assign.RepeatOp(body.name, op.index, op.size, bound, flag))
        for result in op.results:
            self._mark_written(result)
            self.computed[result] = self.clock

    def _symbol(self, hint: str) -> str:
        taken = {body.sym_name.data for body in self.bodies}
        names = (f"{self.name}.{hint}{number or ''}" for number in count())
        return next(name for name in names if name not in taken)


@dataclass(kw_only=True)
class BodyLowering(RoutineLowering):
    """The body of a scan: it gets nodes of its caller, by their labels in the body."""

    scan: texpr.ScanOp
    given: list[str] = field(default_factory=list[str])
    """The labels of what the body gets: carries, sequences, captured values, stacks."""
    copies: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Carries as they were before this iteration sets them."""

    def _lower(self) -> None:
        op = self.scan
        carried, position = op.carried.data, self._position()
        for argument in op.carry_arguments:
            self.node_of[argument] = self._given(argument, "carried from one iteration to the next")
        for argument, (value, axis) in zip(op.sequence_arguments, op.sequences, strict=True):
            node = self._given(value, "a position each iteration", argument.name_hint)
            self.views[argument] = View(op, node, axis.in_memory(shape_of(value)), position)
        for argument in op.captured_arguments:
            self.node_of[argument] = self._given(argument, "captured by a scan")
        stacks: list[tuple[SSAValue, SSAValue, View]] = []
        for result, (value, axis) in zip(op.results[carried:], op.yielded.stacked, strict=True):
            node = self._given(result, "stacked, one position each iteration")
            stacks.append((node, value, View(op, node, axis.in_memory(shape_of(result)), position)))
        self.memory.update(dict.fromkeys(op.arguments, frozenset[SSAValue]()))
        super()._lower()
        for value in dict.fromkeys(op.yielded.values):
            if value not in self.views:
                self._ensure(value)
        for node, value, view in stacks:
            self._store(node, value, op, view)
        self._store_carries()

    def _mode(self, memory: SSAValue) -> tuple[str, str]:
        mode, why = super()._mode(memory)
        # Memory that stays would be its caller's, and nothing outside reads this.
        return ("local", why) if memory in self.materialized else (mode, why)

    def _store_carries(self) -> None:
        """Sets the carries to what is yielded; those that are other carries now are copied first."""
        op = self.scan
        pairs = [*zip(op.carry_arguments, op.yielded.carries, strict=True)]
        changed = [(argument, value) for argument, value in pairs if value is not argument]
        for _, value in changed:
            if value in op.carry_arguments and value not in self.views:
                node = self.declare(value, "local", "carried elsewhere", value.name_hint)
                self._store(node, value, op)
                self.copies[value] = node
        for argument, value in changed:
            node = self.node_of[argument]
            if value in self.copies:
                maps, space = self._whole(value)
                self._emit(
                    op, assign.AccumOp(node, maps, Combination(Arg(0), (self.copies[value],), (maps,)), space)
                )
            else:
                self._store(node, value, op)

    def _position(self) -> Linear:
        op = self.scan
        place = Linear.var(op.index)
        return place if op.reversed is None else place * -1 + Linear((), op.size - 1)

    def _given(self, value: SSAValue, why: str, hint: str | None = None) -> SSAValue:
        node = self.declare(value, "on_device", why, hint or value.name_hint)
        owner = node.owner
        assert isinstance(owner, assign.NodeOp)
        self.given.append(owner.label.data)
        return node
