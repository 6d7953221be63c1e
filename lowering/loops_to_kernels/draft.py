"""A kernel in the making: which variables are blocks, threads and registers, and what a nest's own become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, Region

from ocannl.dialects.index.bounds import Bound, BoundsAttr
from ocannl.dialects.index.linear import Linear, SpaceAttr
from ocannl.dialects.kernel import LaunchOp, WhereOp
from ocannl.dialects.loops import FuncOp, GroupOp, NestOp, ReduceOp
from ocannl.passes.analysis.divisors import largest_divisor
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import with_reduced
from ocannl.passes.rewrites.indices import substitute_indices

Variables = list[tuple[str, int]]

# How many rows of tiles go through the columns together, at most.
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
        """Makes an own variable one of the grid, one of `threads` and some of `registers`.

        The last register variable moves fastest along it, then the threads, then the other registers.
        """
        inner, groups = registers[-1:], list(reversed(registers[:-1]))
        parts = [("reg", extent) for extent in inner] + [("thread", threads)]
        fresh = self.compose(name, [*parts, *(("group", extent) for extent in groups)])
        self.block += fresh.get("thread", ())
        self.registers += [*reversed(fresh.get("group", ())), *fresh.get("reg", ())]

    def compose(self, name: str, parts: Sequence[tuple[str, int]]) -> dict[str, Variables]:
        """Makes an own variable a sum of new ones, the first of which moves fastest, and of one of the grid.

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
        """Has blocks that run at the same time read the same operands, where there are many along both.

        A band of some rows of tiles goes through the columns before the next one.
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
        """The kernel, with a body that is in terms of its variables."""
        region = Region(Block(body))
        return LaunchOp(nest.label.data, tuple(self.grid), tuple(self.block), tuple(self.registers), region)

    def substitute(self, ops: Sequence[Operation]) -> None:
        """Puts the kernel's variables into operations of the nest."""
        inner = with_reduced(ops)
        substitute_indices(inner, self.values)


def guarded(bounds: Sequence[Bound], ops: Sequence[Operation]) -> list[Operation]:
    """The operations where the bounds hold."""
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
