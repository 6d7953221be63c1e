"""The lowering of statements to assignments, in order, and of the expressions that they need.

An expression is computed where code first needs it, once, until memory that it depends on is written again;
one that is kept holds for good.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects.builtin import LocationAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ocannl.dialects import assign, texpr
from ocannl.dialects.index.linear import Linear, Map, Space
from ocannl.dialects.ir.errors import OcannlError, ShapeError, at_line
from ocannl.dialects.ir.op_helpers import given
from ocannl.dialects.ir.origins import merge, union
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import IndicesAttr
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg, Term, simplify, substitute
from ocannl.dialects.texpr.collectives import AllGatherOp, CollectiveOp
from ocannl.dialects.texpr.messages import ComputePartOp, ReceiveOp, SendOp
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.lowering.buckets import Joining, SmallSum
from ocannl.lowering.collectives import CollectiveSteps
from ocannl.lowering.expression_nodes import OF_COLLECTIVES, ExpressionNodes, memory_of
from ocannl.lowering.gather_buckets import Gathering, SmallGather
from ocannl.lowering.wide_values import wide_values
from ocannl.passes.analysis.costs.heights import heights
from ocannl.passes.analysis.equality.layers import Layers
from ocannl.passes.analysis.projection import whole


@dataclass(frozen=True, slots=True)
class View:
    """A value that is one position of a node along an axis."""

    scan: texpr.ScanOp
    node: SSAValue
    axis: int
    position: Linear

    def map(self, indices: Sequence[Linear]) -> Map:
        """The indices of the node, given those of the value."""
        return (*indices[: self.axis], self.position, *indices[self.axis :])


@dataclass
class StatementLowering(ExpressionNodes, ABC):
    """The nodes and assignments of the statements in a block, with a clock that tells which computed values
    are still good.
    """

    block: Block
    name: str
    indices: tuple[tuple[str, int | None], ...]
    bodies: list[assign.AssignRoutineOp]
    """The bodies of scans, each after those that it repeats."""
    scalars: list[Operation] = field(default_factory=list[Operation])
    code: list[Operation] = field(default_factory=list[Operation])
    embeds: dict[tuple[Linear, Attribute], assign.EmbedOp] = field(
        default_factory=dict[tuple[Linear, Attribute], assign.EmbedOp]
    )
    clock: int = 0
    memory_written: int = 0
    mesh: IndicesAttr | None = None
    layers: Layers | None = None
    """The layers that are equal, if there are any."""
    small_sums: list[SmallSum] = field(default_factory=list[SmallSum])
    small_gathers: list[SmallGather] = field(default_factory=list[SmallGather])
    written: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    computed: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    memory: dict[SSAValue, frozenset[SSAValue]] = field(default_factory=dict[SSAValue, frozenset[SSAValue]])
    heights: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """How many operations a value depends on, one upon the other, where values are computed again: what is
    higher is computed first (Sethi and Ullman, 1970), so that they wait until all else is there.
    """
    held: set[SSAValue] = field(default_factory=set[SSAValue])
    views: dict[SSAValue, View] = field(default_factory=dict[SSAValue, View])
    """Values that are read in place, as parts of nodes."""

    def run(self, attributes: dict[str, Attribute], location: LocationAttr) -> assign.AssignRoutineOp:
        """Lowers the block to a routine."""
        self._lower()
        routine = assign.AssignRoutineOp(self.name, self.indices, attributes=attributes)
        routine.properties |= given(mesh=self.mesh)
        routine.location = location
        taken = frozenset(dict(self.indices))
        code = Gathering(self.declare_bucket, taken).run(self.code, self.small_gathers)
        code = Joining(self.declare_bucket, taken).run(code, self.small_sums)
        exchanged = [*(each.rows for each in self.small_sums), *(each.target for each in self.small_gathers)]
        joined = {rows for rows in exchanged if not rows.uses}
        nodes = [node for node in self.nodes if joined.isdisjoint(node.results)]
        routine.body.block.add_ops([*nodes, *self.scalars, *code])
        return routine

    def _lower(self) -> None:
        block = self.block
        for op in block.ops:
            self.declare_use(op)
            if isinstance(op, texpr.TensorOp):
                self.memory.update(dict.fromkeys(op.results, self._memory(op)))
        if any(isinstance(op, texpr.ApplyOp) and op.again is not None for op in block.ops):
            self.heights = heights(block)
        self.wide = wide_values(block)
        kept = self.forwarded | self.valued | self.materialized
        computed = [value for value in kept if not isinstance(value.owner, texpr.MemoryOp)]
        self.kept_names = frozenset(value.name_hint for value in computed if value.name_hint)
        for op in block.ops:
            if isinstance(op, texpr.MemoryOp | texpr.OfOp):
                self.node(op.result)
        for op in block.ops:
            self._statement(op)

    def _statement(self, op: Operation) -> None:
        match op:
            case texpr.ForwardOp():
                self._ensure(op.tensor)
                if op.keep is not None:
                    self.held.add(op.tensor)
            case texpr.AssignOp():
                self._assign(op)
            case SendOp():
                self._ensure(op.tensor)
                message = op.number.data, op.peer.data
                self._emit(op, assign.CollectiveOp("send", [self.node(op.tensor)], op.mesh.data, message))
            case ComputePartOp():
                self._compute_part(op)
            case texpr.CommentOp():
                self._emit(op, assign.CommentOp(op.text.data))
            case texpr.TensorOp() | texpr.YieldOp():
                pass
            case _:
                raise OcannlError(at_line(op, f"`{op.name}` must be gone before the code is lowered"))

    def _assign(self, op: texpr.AssignOp) -> None:
        if op.result_map is None or op.value_map is None or op.space is None:
            raise OcannlError(at_line(op, "an assignment has no index maps yet: run infer-projections first"))
        for value in (op.value, *op.ids):
            self._ensure(value)
        combination = self._combination(Arg(0), [op.value], [op.value_map.data])
        target = memory_of(op.target)
        self._emit(
            op,
            assign.AccumOp(
                self.node(op.target),
                op.result_map.data,
                combination,
                op.space.data,
                op.accum_name,
                op.reset is not None,
                [(self.node(ids), m) for ids, m in zip(op.ids, op.maps_of_ids, strict=True)],
            ),
        )
        self._mark_written(target)
        self.memory_written = self.clock

    def _mark_written(self, memory: SSAValue) -> None:
        self.clock += 1
        self.written[memory] = self.clock

    def _ensure(self, value: SSAValue) -> None:
        """Emits the computation of what `value` needs and does not have, operands first."""
        stack = [(value, False)]
        while stack:
            current, ready = stack.pop()
            op = current.owner
            if isinstance(op, texpr.MemoryOp | texpr.OfOp) or self._is_good(current):
                continue
            if isinstance(op, Block) and current not in self.views:
                continue
            is_number = isinstance(op, texpr.ConstantOp | texpr.EmbedOp)
            if is_number and not self.is_kept(current) and current not in self.passed:
                continue
            if not ready and isinstance(op, texpr.ApplyOp | UniformOp | CollectiveOp | texpr.ScanOp):
                stack.append((current, True))
                operands = sorted(self._read_from_nodes(op), key=lambda value: -self.heights.get(value, 0))
                stack += [(operand, False) for operand in reversed(operands)]
            else:
                self._compute(current)

    def _read_from_nodes(self, op: texpr.ApplyOp | UniformOp | CollectiveOp | texpr.ScanOp) -> list[SSAValue]:
        """The operands that are computed before an operation, into nodes."""
        match op:
            case UniformOp():
                return [op.counter]
            case CollectiveOp():
                return [op.tensor]
            case texpr.ApplyOp():
                return [operand for operand in op.args if operand not in self.views]
            case _:
                inits = [operand for operand in op.inits if operand not in self.views]
                return [*inits, *op.operands[op.carried.data :]]

    def _is_good(self, value: SSAValue) -> bool:
        if value in self.held:
            return True
        when = self.computed.get(value)
        if when is None or self.memory_written <= when:
            return when is not None
        return all(self.written.get(m, 0) <= when for m in self.memory[value])

    def _memory(self, op: texpr.TensorOp) -> frozenset[SSAValue]:
        """The memory that an expression reads, at any depth; its operands' is known."""
        if isinstance(op, texpr.MemoryOp | texpr.OfOp):
            return frozenset([memory_of(op.result)])
        found = [self.memory[v] for v in op.operands]
        largest = max(found, key=len, default=frozenset[SSAValue]())
        others = [memory for memory in found if not memory <= largest]
        return largest.union(*others) if others else largest

    def _compute(self, value: SSAValue) -> None:
        op = value.owner
        if isinstance(op, texpr.ScanOp):
            self._scan(op)
            return
        node = self.node(value)
        match op:
            case Block():
                self._store(node, value, self.views[value].scan)
            case texpr.ConstantOp():
                maps, space = self._whole(value)
                self._emit(op, assign.AccumOp(node, maps, Combination(op.term.data, (), ()), space))
            case texpr.EmbedOp():
                maps, space = self._whole(value)
                combination = Combination(Arg(0), (self._embed(op),), ((),))
                self._emit(op, assign.AccumOp(node, maps, combination, space))
            case texpr.RangeOp():
                self._emit(op, assign.RangeOp(node))
            case UniformOp():
                self._emit(op, assign.UniformOp(node, op.stream.data, self._counter(op)))
            case texpr.ApplyOp():
                self._apply(op, node)
            case CollectiveOp():
                self._collective(op, node)
            case ReceiveOp():
                message = op.number.data, op.peer.data
                self._emit(op, assign.CollectiveOp("receive", [node], op.mesh.data, message))
            case _:
                assert isinstance(op, Operation)
                raise OcannlError(at_line(op, f"`{op.name}` must be gone before the code is lowered"))
        self._mark_written(value)
        self.computed[value] = self.clock

    def _collective(self, op: CollectiveOp, node: SSAValue) -> None:
        def fresh(suffix: str, sizes: tuple[int, ...]) -> SSAValue:
            return self.declare(op.result, "local", OF_COLLECTIVES, f"{hint}_{suffix}", sizes)

        assert self.mesh is not None
        hint = op.result.name_hint or "n"
        ranks = dict(self.mesh.data)[op.mesh.data] or 1
        lowered = CollectiveSteps(op.mesh.data, ranks, dict(self.indices), fresh)
        lowered.add(op, node, self.node(op.tensor))
        for step in lowered.steps:
            self._emit(op, step)
        layer = None if self.layers is None else self.layers.number(hint)
        if isinstance(op, AllGatherOp):
            self.small_gathers += SmallGather.of(lowered.steps, layer)
        else:
            self.small_sums += SmallSum.of(lowered.steps, layer)

    def _whole(self, value: SSAValue) -> tuple[Map, Space]:
        return whole(shape_of(value).memory_sizes, dict(self.indices))

    @abstractmethod
    def _scan(self, op: texpr.ScanOp) -> None:
        """Emits the loop of a scan."""

    def _store(self, node: SSAValue, value: SSAValue, source: Operation, view: View | None = None) -> None:
        """Sets a node, or a part of one, to a value."""
        maps, space = self._whole(value)
        combination = self._combination(Arg(0), [value], [maps])
        place = maps if view is None else view.map(maps)
        self._emit(source, assign.AccumOp(node, place, combination, space, reset=view is None))

    def _apply(self, op: texpr.ApplyOp, node: SSAValue) -> None:
        """Assigns the parts of an operation. Without an accumulation they cover the node; else the first
        resets it.
        """
        if not op.is_projected:
            raise OcannlError(at_line(op, "an operation has no index maps yet: run infer-projections first"))
        for number in range(len(op.parts)):
            self._part(op, node, number)

    def _part(self, op: texpr.ApplyOp, node: SSAValue, number: int) -> None:
        parts = op.parts
        part, own = parts[number], parts[number].combination
        combination = self._combination(own.term, own.operands, own.maps)
        reset = len(parts) == 1 or (op.accum is not None and number == 0)
        accum = assign.AccumOp(node, part.result_map, combination, part.space, op.accum_name, reset)
        self._emit(op, accum)

    def _compute_part(self, statement: ComputePartOp) -> None:
        """Computes one part of an operation, which is computed with the last one."""
        value, number = statement.tensor, statement.number.data
        op = value.owner
        assert isinstance(op, texpr.ApplyOp)
        part = op.parts[number]
        for operand in part.combination.operands:
            self._ensure(operand)
        self._part(op, self.node(value), number)
        self._mark_written(value)
        if number == len(op.parts) - 1:
            self.computed[value] = self.clock

    def _emit(self, source: Operation, op: Operation) -> None:
        numbers = [value.owner for value in source.operands if isinstance(value.owner, texpr.ConstantOp)]
        op.location = union(source.location, *(number.location for number in numbers))
        self.code.append(op)

    def _combination(
        self, term: Term, args: Sequence[SSAValue], maps: Sequence[tuple[Linear, ...]]
    ) -> Combination:
        """Numbers go into the term; static indices become scalars; everything else is read from its node."""
        constants: dict[int, Term] = {}
        operands, indices = list(args), list(maps)
        for i, arg in enumerate(args):
            op = arg.owner
            if isinstance(op, texpr.ConstantOp):
                constants[i] = op.term.data
            elif isinstance(op, texpr.EmbedOp):
                operands[i], indices[i] = self._embed(op), ()
            elif arg in self.views and arg not in self.computed:
                view = self.views[arg]
                operands[i], indices[i] = view.node, view.map(maps[i])
            else:
                operands[i] = self.node(arg)
        return Combination.of(simplify(substitute(term, constants)), operands, indices)

    def _counter(self, op: UniformOp) -> SSAValue:
        """Whole numbers and static indices are exact; anything else is read from its node."""
        shape = shape_of(op.counter)
        if any(size != 1 for size in shape.memory_sizes):
            raise ShapeError(at_line(op, f"a counter is one number, found shape {shape}"))
        match op.counter.owner:
            case texpr.ConstantOp(value=value) if float(value).is_integer():
                return self._embed_index(Linear((), int(value)), i64, op)
            case texpr.ConstantOp(value=value):
                raise OcannlError(at_line(op, f"a counter is a whole number, found {value}"))
            case texpr.EmbedOp() as embed:
                return self._embed_index(embed.index, i64, embed)
            case _:
                return self.node(op.counter)

    def _embed(self, op: texpr.EmbedOp) -> SSAValue:
        return self._embed_index(op.index, tensor_type(op.result).element, op)

    def _embed_index(self, index: Linear, element: Attribute, source: Operation) -> SSAValue:
        key = (index, element)
        embed = self.embeds.get(key)
        if embed is None:
            embed = self.embeds[key] = assign.EmbedOp(index, element)
            self.scalars.append(embed)
        merge(embed, source)
        return embed.result
