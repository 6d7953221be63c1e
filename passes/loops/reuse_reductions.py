"""`reuse-reductions`: a reduction that an earlier nest has stored is loaded instead of computed."""

from __future__ import annotations

from collections import Counter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ocannl.dialects.index.linear import Linear, MapAttr
from ocannl.dialects.ir.origins import derive
from ocannl.dialects.loops import LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import Opaque, operations, substituted, ungrouped, ungrouped_steps
from ocannl.passes.analysis.values.value_numbering import Key, ValueNumbering
from ocannl.passes.rewrites.dead_code import remove_unused_operations


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a nest has stored a reduction: the node, the number of stores to it so far, and the index map."""

    node: SSAValue
    stores: int
    indices: MapAttr


class Reuser:
    """Visits the nests of a function in order, with value numbers for them all: variables of nests are
    identified by position.
    """

    def __init__(self) -> None:
        self.stores: Counter[SSAValue] = Counter()
        self.numbers: dict[Key, int] = {}
        self.stored: dict[Key, Stored] = {}

    def run(self, nest: NestOp) -> None:
        ops = operations(nest.body.block)
        written = Counter(op.node for op in ops if isinstance(op, StoreOp))
        is_simple = not any(isinstance(op, LoadOp) and op.node in written for op in ops)
        new = self.follow(nest, written) if is_simple else {}
        self.stores.update(written)
        for op in nest.body.block.ops:
            if isinstance(op, StoreOp) and op.value in new and written[op.node] == 1 and not op.positions:
                indices = substituted(op.indices, by_position(nest))
                self.stored[new[op.value]] = Stored(op.node, self.stores[op.node], indices)

    def follow(self, nest: NestOp, written: Counter[SSAValue]) -> dict[SSAValue, Key]:
        """Replaces the reductions of a nest that are stored somewhere by loads; returns the keys of the
        others.
        """
        keys = ValueNumbering(self.stores, by_position(nest))
        new: dict[SSAValue, Key] = {}
        for op in nest.body.block.ops:
            if isinstance(op, StoreOp):
                continue
            key = keys.of(op)
            results: list[SSAValue] = list(op.results)
            if isinstance(op, ReduceOp):
                key = tuple(size for _, size in nest.space.data), key
                load = self.load(key, nest, written)
                if load is None:
                    new[op.result] = key
                else:
                    derive([load], op.location)
                    Rewriter.replace_op(op, load)
                    results = [load.result]
            for place, result in enumerate(results):
                keys.positions[result] = self.numbers.setdefault((key, place), len(self.numbers))
        remove_unused_operations(nest.body.block)
        return new

    def load(self, key: Key, nest: NestOp, written: Counter[SSAValue]) -> LoadOp | None:
        """A load of a stored reduction, if it is still there and the nest does not store to its node; else
        None.
        """
        known = self.stored.get(key)
        is_there = known is not None and self.stores[known.node] == known.stores
        if known is None or not is_there or known.node in written or nest.schedule is not None:
            return None
        own = {f"#{k}": Linear.var(name) for k, name in enumerate(nest.space.names)}
        return LoadOp(known.node, substituted(known.indices, own).data)


def by_position(nest: NestOp) -> dict[str, Linear]:
    """Canonical names of the variables of a nest, which no program uses."""
    return {name: Linear.var(f"#{k}") for k, name in enumerate(nest.space.names)}


@dataclass(frozen=True)
class ReuseReductionsPass(ModulePass):
    """Common-subexpression elimination between nests: a reduction that an earlier nest over as many points
    has stored is loaded.

    Reductions are equal if their bodies are, up to the names of variables, and nothing that they read has
    been stored to in between. Nests that load from nodes that they store to are left alone.
    """

    name = "reuse-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in ungrouped(op):
            reuser = Reuser()
            for step in ungrouped_steps(func):
                if isinstance(step, Opaque):
                    reuser.stores.update(step.written)
                else:
                    reuser.run(step)
