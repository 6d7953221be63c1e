"""A kernel under construction: its variables for blocks, threads and registers, by those of the nest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from xdsl.ir import Block, Operation, Region

from ocannl.dialects.index.bounds import Bound, BoundsAttr
from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.kernel import LaunchOp, WhereOp
from ocannl.dialects.loops import FuncOp, GroupOp, NestOp, ReduceOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import with_reduced
from ocannl.passes.analysis.schedules.divisors import largest_divisor
from ocannl.passes.rewrites.indices import substitute_indices

Variables = list[tuple[str, int]]

# Rows of tiles that are computed together, column by column, at most.
GROUPED = 8


@dataclass
class Draft:
    """`values` are the nest's own variables in terms of the kernel's; `bounds` hold at points of the nest."""

    names: Names
    sizes: dict[str, int]
    grid: Variables = field(default_factory=Variables)
    block: Variables = field(default_factory=Variables)
    registers: Variables = field(default_factory=Variables)
    values: dict[str, Linear] = field(default_factory=dict[str, Linear])
    bounds: list[Bound] = field(default_factory=list[Bound])

    @staticmethod
    def of(nest: NestOp) -> Draft:
        func = nest.parent_op()
        assert isinstance(func, FuncOp)
        return Draft(Names.of(func, nest), dict(nest.space.data))

    def split(self, name: str, threads: int, registers: Sequence[int] = ()) -> None:
        """Splits a variable of the nest into one of the grid, one of `threads` and some of `registers`.

        The last register variable moves fastest along it, then the threads, then the other registers.
        """
        inner, groups = registers[-1:], list(reversed(registers[:-1]))
        parts = [("reg", extent) for extent in inner] + [("thread", threads)]
        fresh = self.compose(name, [*parts, *(("group", extent) for extent in groups)])
        self.block += fresh.get("thread", ())
        self.registers += [*reversed(fresh.get("group", ())), *fresh.get("reg", ())]

    def compose(self, name: str, parts: Sequence[tuple[str, int]]) -> dict[str, Variables]:
        """Splits a variable of the nest into new ones, of which the first varies fastest, and one of the
        grid.

        Returns the new variables by suffix, but for those with one value.
        """
        size, step, total = self.sizes[name], 1, Linear()
        found: dict[str, Variables] = {}
        for suffix, extent in parts:
            if extent > 1:
                fresh = self.names.fresh(f"{name}_{suffix}")
                found.setdefault(suffix, []).append((fresh, extent))
                total += Linear.of({fresh: step})
                step *= extent
        if step < size:
            fresh = self.names.fresh(f"{name}_block")
            self.grid.append((fresh, -(-size // step)))
            total += Linear.of({fresh: step})
            step *= -(-size // step)
        self.values[name] = total
        if step != size:
            self.bounds.append(Bound(total, size))
        return found

    def group_blocks(self, row: str, column: str) -> None:
        """Orders the blocks so that those which run at the same time share operands in the second-level
        cache.

        Some rows of tiles, a band, are computed column by column before the next band (block swizzling).
        """
        sizes = dict(self.grid)
        blocks = [[name for name, _ in self.values[own].terms if name in sizes] for own in (row, column)]
        if not all(blocks) or min(sizes[name] for (name,) in blocks) <= GROUPED:
            return
        (rows,), (columns,) = blocks
        count = largest_divisor(sizes[rows], GROUPED)
        if count == 1:
            return
        band, place = self.names.fresh(f"{row}_band"), self.grid.index((columns, sizes[columns]))
        self.grid.insert(place + 1, (rows, count))
        self.grid[self.grid.index((rows, sizes[rows]))] = (band, sizes[rows] // count)
        value = Linear.of({band: count, rows: 1})
        self.values[row] = self.values[row].substitute({rows: value})
        self.bounds = [Bound(bound.index.substitute({rows: value}), bound.below) for bound in self.bounds]

    def launch(self, nest: NestOp | GroupOp, body: Iterable[Operation]) -> LaunchOp:
        """The kernel with a body, whose operations use the kernel's variables."""
        region = Region(Block(body))
        return LaunchOp(nest.label.data, tuple(self.grid), tuple(self.block), tuple(self.registers), region)

    def substitute(self, ops: Sequence[Operation]) -> None:
        """Replaces variables of the nest by those of the kernel in index maps of operations."""
        inner = with_reduced(ops)
        substitute_indices(inner, self.values)


def guarded(bounds: Sequence[Bound], ops: Sequence[Operation]) -> list[Operation]:
    """The operations, in a `kernel.where` if there are bounds."""
    return [WhereOp(bounds, Region(Block(ops)))] if bounds else list(ops)


def detached(nest: NestOp) -> list[Operation]:
    """The operations of a nest's body, taken out of it."""
    ops = list(nest.body.block.ops)
    for op in ops:
        op.detach()
    return ops


def split_reduction(reduce: ReduceOp, name: str, new: str, count: int, bounds: Sequence[Bound]) -> None:
    """Replaces a variable of a reduction by `new`, where the bounds hold."""
    space = tuple((new, count) if n == name else (n, s) for n, s in reduce.space.data)
    reduce.properties["space"] = SpaceAttr(space)
    if bounds:
        reduce.properties["where"] = BoundsAttr(tuple(bounds))
