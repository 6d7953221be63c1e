"""Nests and groups as loops of C, in the order of their schedules. Tiles are left to its compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, f64
from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.index.memref import loaded_type, memref_shape
from ocannl.dialects.loops import GroupOp, LoadOp, NestOp, PositionOp, ReduceOp, StoreOp, YieldOp
from ocannl.dialects.loops.schedule import Schedule
from ocannl.dialects.scalar.accumulation import neutral_number
from ocannl.dialects.scalar.precisions import is_integer
from ocannl.lowering.loops_to_c.scalar import accumulation, bare
from ocannl.lowering.loops_to_c.types import c_type, float_literal, int_literal, literal
from ocannl.lowering.loops_to_c.values import ValueWriter
from ocannl.lowering.placement import Level, Placement, place
from ocannl.passes.analysis.nests import has_points, nodes, stores_by_node

# What accumulators are called.
TOTALS = {"add": "sum", "mul": "product", "max": "most", "min": "least", "or": "any", "and": "all"}
# Those that threads and vectors may accumulate in parts.
IN_PARTS = {"add": "+", "mul": "*"}
# Longer expressions get a name of their own, unless all that is done with them is to store them.
MOST_LETTERS, MOST_STORED = 60, 90


def declared(type: str, name: str, shape: Sequence[int], qualifier: str = "") -> str:
    """The declaration of an array; one number is an array, too."""
    first, *inner = [max(size, 1) for size in shape] or [1]
    return f"{type} {name}[{qualifier}{first}]{''.join(f'[{size}]' for size in inner)}"


class NestWriter(ValueWriter):
    """Writes the body of a function for nests and groups."""

    stored: Mapping[SSAValue, object] = {}
    placement = Placement([], [], {}, {})
    vector: str | None = None
    """The variable of the present nest that becomes vectors."""

    def write(self, step: NestOp | GroupOp) -> None:
        if isinstance(step, NestOp):
            self.nest(step)
        else:
            self.group(step)

    def group(self, group: GroupOp) -> None:
        """The loops of a group, with its own nodes and its nests in them."""
        levels = [Level(name, size) for name, size in group.space.data]
        self.levels(levels, parallel_of(group), lambda: self.within_bounds(group))

    def within_bounds(self, group: GroupOp) -> None:
        """The code that runs at a point, if its bounds hold."""
        sizes = dict(group.space.data)
        bounds = [f"{self.linear(b.index.terms, b.index.constant, sizes)} < {b.below}" for b in group.bounds]
        if bounds:
            with self.braces(f"if ({' && '.join(bounds)})"):
                self.inside(group)
        else:
            self.inside(group)

    def inside(self, group: GroupOp) -> None:
        for node in nodes(group):
            self.arrays[node.result] = name = self.variables.of(node.result, node.label.data)
            type = c_type(loaded_type(node.result))
            self.line(f"{declared(type, name, memref_shape(node.result))};")
        for nest in group.nests:
            self.line(f"// {nest.label.data}")
            self.nest(nest)

    def nest(self, nest: NestOp) -> None:
        if not has_points(nest):
            return
        schedule = Schedule() if nest.schedule is None else nest.schedule.data
        self.vector = None if schedule.lanes is None else unmerged([schedule.lanes[0]])[-1]
        self.stored = stores_by_node(nest)
        self.live = set(live_ops(nest.body.block))
        self.placement = place(nest, Schedule(order=unmerged(schedule.order)))
        self.ops(self.placement.root)
        self.levels(self.placement.levels, parallel_of(nest))

    def levels(
        self, levels: Sequence[Level], parallel: Sequence[str], inside: Callable[[], None] | None = None
    ) -> None:
        """The loops over levels; the outermost parallel one is shared by threads."""
        if not levels:
            if inside is not None:
                inside()
            return
        level, inner = levels[0], levels[1:]
        is_shared = level.variable in parallel
        self.pragma([*(["parallel for"] if is_shared else []), *self.vectors(levels, "")])
        with self.braces(self.heading(level.variable, level.size)):
            self.ops(level.ops)
            self.levels(inner, () if is_shared else parallel, inside)

    def vectors(self, levels: Sequence[Level], clause: str) -> list[str]:
        """The directive for vectors, where the last of the levels becomes some."""
        level = levels[0]
        is_innermost = len(levels) == 1 and not any(isinstance(op, ReduceOp) for op in level.ops)
        return [f"simd{clause}"] if is_innermost and level.variable == self.vector else []

    def pragma(self, parts: Sequence[str]) -> None:
        if parts:
            self.line(f"OMP({' '.join(parts)})")

    def ops(self, ops: Sequence[Operation]) -> None:
        """Operations at one place, in order; what is used once there stands where it is used."""
        here = set(ops)
        for op in ops:
            match op:
                case arith.ConstantOp():
                    self.values[op.result] = literal(op.value)
                case StoreOp():
                    self.line(f"{self.element(op)} = {bare(self.values[op.value])};")
                case _ if op not in self.live:
                    pass
                case ReduceOp():
                    self.reduce(op)
                case PositionOp():
                    self.position(op)
                case _:
                    self.value(op, here)

    def value(self, op: Operation, here: set[Operation]) -> None:
        result, text = op.results[0], self.text(op)
        users = [use.operation for use in result.uses if use.operation in self.live]
        use = users[0]
        is_inside = len(users) == 1 and (use in here or isinstance(use, YieldOp))
        is_fixed = not isinstance(op, LoadOp) or op.node not in self.stored
        most = MOST_STORED if isinstance(use, StoreOp) else MOST_LETTERS
        if is_inside and is_fixed and len(text) <= most:
            self.values[result] = text
        else:
            self.values[result] = self.named(c_type(result.type), text)

    def reduce(self, op: ReduceOp) -> None:
        """An accumulation in loops. Where an f32 adds up so much that it has blocks, a double does."""
        reduction, accum, type = self.placement.reductions[op], op.accum.data, op.result.type
        if reduction.product is not None:
            reduction.levels[-1].ops.append(reduction.product)
        is_wide = op.blocks is not None and isinstance(type, Float32Type)
        held = f64 if is_wide else type
        total, start = self.fresh(TOTALS[accum]), neutral_number(accum, type)
        number = int_literal(int(start), type) if is_integer(type) else float_literal(start, held)
        self.line(f"{c_type(held)} {total} = {bare(number)};")
        self.accumulate(op, reduction.levels, total)
        self.values[op.result] = f"((float){total})" if is_wide else total

    def accumulate(self, op: ReduceOp, levels: Sequence[Level], total: str) -> None:
        if not levels:
            value = self.values[op.yielded]
            self.line(f"{accumulation(op.accum.data, op.result.type, total, value)};")
            return
        level, inner, sign = levels[0], levels[1:], IN_PARTS.get(op.accum.data)
        if sign is not None:
            self.pragma(self.vectors(levels, f" reduction({sign}:{total})"))
        with self.braces(self.heading(level.variable, level.size)):
            self.ops(level.ops)
            self.accumulate(op, inner, total)


def live_ops(block: Block) -> list[Operation]:
    """The operations on which a store depends, from the last one on."""
    found = dict[Operation, None]()
    for op in reversed(block.ops):
        if isinstance(op, StoreOp | YieldOp) or any(u.operation in found for r in op.results for u in r.uses):
            found[op] = None
            for region in op.regions:
                found |= dict.fromkeys(live_ops(region.block))
    return [*found]


def unmerged(loops: Iterable[str]) -> tuple[str, ...]:
    """The variables of loops, each of which may run over several."""
    return tuple(name for loop in loops for name in loop.split("*"))


def parallel_of(step: NestOp | GroupOp) -> tuple[str, ...]:
    """The variables whose points threads share."""
    schedule = Schedule() if step.schedule is None else step.schedule.data
    return unmerged(name for name, _ in schedule.parallel)
