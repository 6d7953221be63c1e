"""`lower-texpr-to-assign`: nodes and their assignments, in order, for tensor expressions and code.

An expression is computed where code first needs it, once, until memory that it depends on is written again;
one that is kept holds for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects import assign, texpr
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.memref import array_type
from ocannl.dialects.ir.errors import OcannlError, ShapeError, at_line
from ocannl.dialects.ir.origins import merge, union
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg, Term, simplify, substitute
from ocannl.dialects.texpr.apply import MATERIALIZED, VIRTUAL
from ocannl.dialects.texpr.tensor_type import shape_of, tensor_type
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.passes.analysis.projection import whole

Memory = texpr.ParamOp | texpr.DataOp | texpr.NodeOp | texpr.GradOp | texpr.ValueOp


@dataclass
class Lowering:
    """One routine's nodes and assignments, with a clock that tells which computed values are still good."""

    source: texpr.TexprRoutineOp
    nodes: list[Operation] = field(default_factory=list[Operation])
    scalars: list[Operation] = field(default_factory=list[Operation])
    code: list[Operation] = field(default_factory=list[Operation])
    node_of: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    embeds: dict[tuple[Linear, Attribute], assign.EmbedOp] = field(
        default_factory=dict[tuple[Linear, Attribute], assign.EmbedOp]
    )
    labels: set[str] = field(default_factory=set[str])
    clock: int = 0
    memory_written: int = 0
    written: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    computed: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    memory: dict[SSAValue, frozenset[SSAValue]] = field(default_factory=dict[SSAValue, frozenset[SSAValue]])
    forwarded: set[SSAValue] = field(default_factory=set[SSAValue])
    held: set[SSAValue] = field(default_factory=set[SSAValue])
    valued: set[SSAValue] = field(default_factory=set[SSAValue])
    materialized: set[SSAValue] = field(default_factory=set[SSAValue])
    kept_names: frozenset[str] = frozenset()
    assigned: set[SSAValue] = field(default_factory=set[SSAValue])

    def run(self) -> assign.AssignRoutineOp:
        block = self.source.body.block
        for op in block.ops:
            self._declare_use(op)
            if isinstance(op, texpr.TensorOp):
                self.memory[op.result] = self._memory(op)
        kept = self.forwarded | self.valued | self.materialized
        computed = [value for value in kept if not isinstance(value.owner, texpr.MemoryOp)]
        self.kept_names = frozenset(value.name_hint for value in computed if value.name_hint)
        for op in block.ops:
            if isinstance(op, texpr.MemoryOp | texpr.OfOp):
                self._node(op.result)
        for op in block.ops:
            self._statement(op)
        routine = assign.AssignRoutineOp(
            self.source.sym_name.data, self.source.indices.data, attributes=dict(self.source.attributes)
        )
        routine.location = self.source.location
        routine.body.block.add_ops([*self.nodes, *self.scalars, *self.code])
        return routine

    def _declare_use(self, op: Operation) -> None:
        if isinstance(op, texpr.ForwardOp):
            self.forwarded.add(op.tensor)
        elif isinstance(op, texpr.AssignOp):
            self.assigned.add(memory_of(op.target))
        elif isinstance(op, texpr.ValueOp):
            self.valued.add(op.source)
        elif isinstance(op, texpr.ApplyOp) and op.mode_name == MATERIALIZED:
            self.materialized.add(op.result)

    def _statement(self, op: Operation) -> None:
        match op:
            case texpr.ForwardOp():
                self._ensure(op.tensor)
                if op.keep is not None:
                    self.held.add(op.tensor)
            case texpr.AssignOp():
                self._assign(op)
            case texpr.CommentOp():
                self._emit(op, assign.CommentOp(op.text.data))
            case texpr.TensorOp():
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
                self._node(op.target),
                op.result_map.data,
                combination,
                op.space.data,
                op.accum_name,
                op.reset is not None,
                [(self._node(ids), m) for ids, m in zip(op.ids, op.maps_of_ids, strict=True)],
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
            if isinstance(op, texpr.ConstantOp | texpr.EmbedOp) and not self._is_kept(current):
                continue
            if not ready and isinstance(op, texpr.ApplyOp | UniformOp):
                stack.append((current, True))
                read = op.args if isinstance(op, texpr.ApplyOp) else (op.counter,)
                stack += [(operand, False) for operand in reversed(list(read))]
            else:
                self._compute(current)

    def _is_kept(self, value: SSAValue) -> bool:
        return value in self.forwarded or value in self.valued or value in self.materialized

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
        node = self._node(value)
        match op:
            case texpr.ConstantOp():
                maps, space = whole(shape_of(value).memory_sizes, self.source.ranges)
                self._emit(op, assign.AccumOp(node, maps, Combination(op.term.data, (), ()), space))
            case texpr.EmbedOp():
                maps, space = whole(shape_of(value).memory_sizes, self.source.ranges)
                combination = Combination(Arg(0), (self._embed(op),), ((),))
                self._emit(op, assign.AccumOp(node, maps, combination, space))
            case texpr.RangeOp():
                self._emit(op, assign.RangeOp(node))
            case UniformOp():
                self._emit(op, assign.UniformOp(node, op.stream.data, self._counter(op)))
            case texpr.ApplyOp():
                self._apply(op, node)
            case _:
                assert isinstance(op, Operation)
                raise OcannlError(at_line(op, f"`{op.name}` must be gone before the code is lowered"))
        self._mark_written(value)
        self.computed[value] = self.clock

    def _apply(self, op: texpr.ApplyOp, node: SSAValue) -> None:
        """Assigns the parts of an operation. Without an accumulation they cover the node; else the first
        resets it.
        """
        if not op.is_projected:
            raise OcannlError(at_line(op, "an operation has no index maps yet: run infer-projections first"))
        parts = op.parts
        for number, part in enumerate(parts):
            own = part.combination
            combination = self._combination(own.term, own.operands, own.maps)
            reset = len(parts) == 1 or (op.accum is not None and number == 0)
            accum = assign.AccumOp(node, part.result_map, combination, part.space, op.accum_name, reset)
            self._emit(op, accum)

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
            else:
                operands[i] = self._node(arg)
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
                return self._node(op.counter)

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

    def _node(self, value: SSAValue) -> SSAValue:
        memory = memory_of(value)
        if memory not in self.node_of:
            mode, why = self._mode(memory)
            label = self._label(memory)
            element = tensor_type(memory).element_or_none
            op = memory.owner
            assert isinstance(op, Operation)
            if element is None or not shape_of(memory).is_final:
                missing = "final shape: run infer-shapes" if element else "element type: run infer-precisions"
                raise OcannlError(at_line(op, f"`{label}` has no {missing} first"))
            sizes = shape_of(memory).memory_sizes
            inlined = mode == "local" and is_virtual(memory)
            node = assign.NodeOp(label, mode, why, array_type(element, sizes), always_inline=inlined)
            node.result.name_hint = memory.name_hint
            node.location = op.location
            self.nodes.append(node)
            self.node_of[memory] = node.result
        return self.node_of[memory]

    def _mode(self, memory: SSAValue) -> tuple[str, str]:
        match memory.owner:
            case texpr.ParamOp():
                return "on_device", "parameter"
            case texpr.DataOp():
                return (
                    ("on_device", "data that code writes")
                    if memory in self.assigned
                    else ("constant", "data")
                )
            case texpr.NodeOp():
                return "on_device", "node"
            case texpr.GradOp():
                return "on_device", "gradient"
            case _:
                pass
        if memory in self.valued:
            return "on_device", "its value is asked for"
        if memory in self.forwarded:
            return "on_device", "computed by forward"
        if memory in self.materialized:
            return "on_device", "it is to be in memory"
        if is_virtual(memory):
            return "local", "it is to be computed where it is used"
        return "local", "intermediate value"

    def _label(self, memory: SSAValue) -> str:
        op = memory.owner
        if isinstance(op, texpr.MemoryOp):
            wanted = op.label.data
        elif isinstance(op, texpr.GradOp):
            wanted = f"{self._label_of_source(op.source)}.grad"
        else:
            wanted = memory.name_hint or "n"
        # Nodes that persist are known outside by their names: no other node may take these.
        reserved = frozenset[str]() if self._is_kept(memory) else self.kept_names
        label, count = wanted, 0
        while label in self.labels or label in reserved:
            count += 1
            label = f"{wanted}_{count}"
        self.labels.add(label)
        return label

    def _label_of_source(self, source: SSAValue) -> str:
        node = self._node(source).owner
        assert isinstance(node, assign.NodeOp)
        return node.label.data


def memory_of(value: SSAValue) -> SSAValue:
    """The value that owns the memory: all gradients of a tensor are one node, `texpr.value %x` is the node
    of `%x`.
    """
    op = value.owner
    if isinstance(op, texpr.ValueOp):
        return op.source
    if isinstance(op, texpr.GradOp):
        for use in op.source.uses:
            if isinstance(use.operation, texpr.GradOp):
                return use.operation.result
    return value


def is_virtual(value: SSAValue) -> bool:
    """Whether the program says that a value has no memory."""
    return isinstance(value.owner, texpr.ApplyOp) and value.owner.mode_name == VIRTUAL


@dataclass(frozen=True)
class LowerTexprToAssignPass(ModulePass):
    """Turns every `texpr.routine` into an `assign.routine`."""

    name = "lower-texpr-to-assign"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for routine in list(op.body.block.ops):
            if isinstance(routine, texpr.TexprRoutineOp):
                Rewriter.replace_op(routine, Lowering(routine).run())
