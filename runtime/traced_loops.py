"""Routines whose nodes are kept in memory, those of loops for each iteration.

A node of a loop's body gets memory of its own, and more of it with an axis for the loop in front, where each
iteration leaves the node's value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field, replace
from itertools import count
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.assign import (
    AccumOp,
    AssignRoutineOp,
    CollectiveOp,
    NodeOp,
    RangeOp,
    RepeatOp,
    UniformOp,
)
from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.index.splits import SplitAxis
from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.ir.text_printer import op_text
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg, Const
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.projection import whole
from ocannl.runtime.assignments import Assignment, Kept

TRACED = "its value is traced"
MOST_BYTES = 2**28
"""A node whose values in all iterations take more is seen after the last one only."""


@dataclass
class KeptBody:
    """The body of a loop whose nodes are kept: those that its callers have to give it, of these the ones with
    all iterations, and its assignments, with the labels that memory has there.
    """

    given: list[NodeOp]
    iterations: list[NodeOp] = field(default_factory=list[NodeOp])
    assignments: list[Assignment] = field(default_factory=list[Assignment])


@dataclass
class KeptRoutines:
    """Gives the nodes of routines memory of their own, and those of the loops in them."""

    _bodies: dict[str, KeptBody] = field(default_factory=dict[str, KeptBody])
    _operations: int = 0
    """Those of the routines so far."""

    def keep(self, routine: AssignRoutineOp) -> list[Assignment]:
        """Keeps the nodes of a routine that is no body; its assignments, after those of the routines before
        it.
        """
        start = self._operations
        self._operations += len(operations_of(routine.body.block))
        found = self._with_loops(routine, start)
        for node in _local(routine):
            _give_memory(node)
        return found

    def _with_loops(self, routine: AssignRoutineOp, start: int = 0) -> list[Assignment]:
        found: list[Assignment] = []
        for node in _nodes(routine):
            if node.result.name_hint is None and SSAValue.is_valid_name(_label(node.result)):
                node.result.name_hint = _label(node.result)
        for order, op in enumerate(operations_of(routine.body.block), start):
            if not isinstance(op, AccumOp | RangeOp | UniformOp | RepeatOp | CollectiveOp):
                continue
            own = [_assignment(op, written, order) for written in _written(op)]
            if isinstance(op, RepeatOp):
                found += self._kept_loop(op, routine, order)
            found += own
        return found

    def _kept_loop(self, loop: RepeatOp, caller: AssignRoutineOp, order: int) -> list[Assignment]:
        """Keeps the nodes of a loop, in nodes of its caller; the assignments of its body."""
        body = loop.routine
        assert isinstance(body, AssignRoutineOp)
        name = body.sym_name.data
        if name not in self._bodies:
            self._bodies[name] = self._kept_body(body, loop)
        kept = self._bodies[name]
        taken = {node.label.data for node in _nodes(caller)}
        for node in (*kept.given, *kept.iterations):
            # Where the caller is a body, all of its iterations are kept of what is local in it.
            mode = "local" if node in kept.iterations else "on_device"
            label, splits = _unused(f"{name}.{node.label.data}", taken), _splits(node)
            given = NodeOp(label, mode, TRACED, _type(node), splits=splits)
            given.location = node.location
            caller.body.block.insert_op_before(given, operations_of(caller.body.block)[0])
            loop.bind(node.label.data, given.result)
            if node in kept.iterations and loop.flag is not None:
                caller.body.block.insert_op_before(_zeros(given.result, loop, caller), loop)
        memory = {label: _label(node) for label, node in loop.bound.items()}
        return [one.moved(order, memory) for one in kept.assignments]

    def _kept_body(self, body: AssignRoutineOp, loop: RepeatOp) -> KeptBody:
        assignments = self._with_loops(body)
        kept = KeptBody([node for node in _nodes(body) if node.why.data == TRACED and not _is_local(node)])
        own, stacked = _local(body), _stacked(body, loop)
        parts = [_Part.of_node(node, body) for node in (*_carried(body, loop), *own)]
        memory: dict[str, str] = {}
        for part in (*parts, *stacked):
            if part.bytes * loop.count.data <= MOST_BYTES:
                iterations = _iterations(part, loop, body)
                kept.iterations.append(iterations)
                memory[part.node.label.data] = iterations.label.data
        for node in own:
            _give_memory(node)
        kept.given += own
        # What is carried is known as an iteration begins; what one writes to it is seen after the loop.
        written = {node.label.data for node in (*own, *(part.node for part in stacked))}
        seen, index = memory.keys() & written, loop.index.data
        kept.assignments = [_in_loop(one, index, memory) for one in assignments if one.written.memory in seen]
        return kept


@dataclass(frozen=True)
class _Part:
    """The part of a node that one iteration computes: its cells there, and its sizes, with the cells of an
    array of these sizes.
    """

    node: NodeOp
    place: Map
    space: Space
    sizes: tuple[int, ...]
    cells: Map

    @staticmethod
    def of_node(node: NodeOp, body: AssignRoutineOp) -> _Part:
        """All of it."""
        sizes = tuple(memref_shape(node.result))
        cells, space = whole(sizes, body.ranges)
        return _Part(node, cells, space, sizes, cells)

    @property
    def bytes(self) -> int:
        return byte_size(self.node) * prod(self.sizes) // max(prod(memref_shape(self.node.result)), 1)

    def splits(self, loop: str) -> list[SplitAxis]:
        """Those of the node, in an array that has an axis for a loop in front."""
        axes = [axis for axis, index in enumerate(self.place) if loop not in index.names]
        return [replace(own, axis=axes.index(own.axis) + 1) for own in _splits(self.node) if own.axis in axes]


def _stacked(body: AssignRoutineOp, loop: RepeatOp) -> list[_Part]:
    """The parts that a body sets of nodes of its caller, one in each iteration."""
    found: dict[NodeOp, list[AccumOp]] = {}
    for op in operations_of(body.body.block):
        if isinstance(op, AccumOp) and isinstance(op.lhs.owner, NodeOp) and not _is_local(op.lhs.owner):
            found.setdefault(op.lhs.owner, []).append(op)
    parts: list[_Part] = []
    for node, ops in found.items():
        places = [loop.index.data in index.names for index in ops[0].lhs_map.data]
        if len(ops) > 1 or ops[0].accum is not None or ops[0].ids or sum(places) != 1:
            continue
        space = ops[0].space.data
        cells = [index for index, is_stack in zip(ops[0].lhs_map.data, places, strict=True) if not is_stack]
        if all(cell.variable is not None or cell == Linear() for cell in cells):
            sizes = tuple([dict(space).get(cell.variable or "", 1) for cell in cells])
            parts.append(_Part(node, ops[0].lhs_map.data, space, sizes, tuple(cells)))
    return parts


def _carried(body: AssignRoutineOp, loop: RepeatOp) -> list[NodeOp]:
    """The nodes of the caller that a body reads and writes."""
    read = {value for op in body.walk() if isinstance(op, AccumOp) for value in op.rhs}
    written = {label for label, node in loop.bound.items() if node in loop.written}
    return [node for node in _nodes(body) if node.label.data in written and node.result in read]


def _iterations(part: _Part, loop: RepeatOp, body: AssignRoutineOp) -> NodeOp:
    """A node with what all iterations compute of another: as it is in the end of each, or, of what is
    carried, in the beginning.
    """
    block, taken, node = body.body.block, {one.label.data for one in _nodes(body)}, part.node
    kind = MemRefType(element_type(node.result), [loop.count.data, *part.sizes])
    splits = part.splits(loop.index.data)
    made = NodeOp(_unused(f"{node.label.data}.iterations", taken), "on_device", TRACED, kind, splits=splits)
    made.location = node.location
    copied = Combination(Arg(0), (node.result,), (part.place,))
    place = (Linear.var(loop.index.data), *part.cells)
    copy = AccumOp(made.result, place, copied, part.space, reset=False)
    copy.location = node.location
    code = operations_of(block)
    block.insert_op_before(made, code[0])
    if node in _carried(body, loop):
        block.insert_op_before(copy, next(op for op in code if not isinstance(op, NodeOp)))
    else:
        block.add_op(copy)
    return made


def _zeros(node: SSAValue, loop: RepeatOp, caller: AssignRoutineOp) -> AccumOp:
    """Sets what a loop that may stop early writes in its iterations."""
    cells, space = whole(memref_shape(node), caller.ranges)
    zeros = AccumOp(node, cells, Combination(Const(0.0), (), ()), space)
    zeros.location = loop.location
    return zeros


def _in_loop(assignment: Assignment, index: str, memory: dict[str, str]) -> Assignment:
    """An assignment of a body with its nodes where their values in all iterations are."""

    def moved(kept: Kept) -> Kept:
        iterations = memory.get(kept.memory)
        return kept if iterations is None else Kept(kept.name, iterations, (index, *kept.loops))

    read = tuple([moved(kept) for kept in assignment.read])
    return replace(assignment, written=moved(assignment.written), read=read)


def _assignment(op: Operation, written: SSAValue, order: int) -> Assignment:
    reads_itself = isinstance(op, AccumOp) and op.accum is not None and op.reset is None
    operands = [value for value in op.operands if value is not written or reads_itself]
    read = dict.fromkeys(_label(value) for value in operands if isinstance(value.owner, NodeOp))
    label, place = _label(written), location_text(op)
    return Assignment(Kept(label, label), tuple([Kept(one, one) for one in read]), _text(op), place, (order,))


def _text(op: Operation) -> str:
    return op_text(op).strip()


def _written(op: Operation) -> list[SSAValue]:
    if isinstance(op, AccumOp | RangeOp | UniformOp):
        return [op.lhs]
    assert isinstance(op, CollectiveOp | RepeatOp)
    return op.written


def _nodes(routine: AssignRoutineOp) -> list[NodeOp]:
    return [op for op in operations_of(routine.body.block) if isinstance(op, NodeOp)]


def _local(routine: AssignRoutineOp) -> list[NodeOp]:
    return [node for node in _nodes(routine) if _is_local(node)]


def _is_local(node: NodeOp) -> bool:
    return node.mode.data == "local"


def _give_memory(node: NodeOp) -> None:
    node.set_mode("on_device", TRACED)


def _type(node: NodeOp) -> MemRefType[Attribute]:
    assert isinstance(node.result.type, MemRefType)
    return node.result.type


def _splits(node: NodeOp) -> tuple[SplitAxis, ...]:
    return () if node.splits is None else node.splits.data


def _label(node: SSAValue) -> str:
    assert isinstance(node.owner, NodeOp)
    return node.owner.label.data


def _unused(label: str, taken: Collection[str]) -> str:
    names: Iterable[str] = (f"{label}{number or ''}" for number in count())
    return next(name for name in names if name not in taken)
