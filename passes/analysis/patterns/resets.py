"""Nests that set all cells of a node to one number."""

from __future__ import annotations

from xdsl.dialects import arith

from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.loops import NestOp, StoreOp
from ocannl.passes.analysis.nests import Step


def reset_to(step: Step) -> arith.ConstantOp | None:
    """The constant that a step stores to each cell of one node, if it is a nest that does nothing else."""
    ops = list(step.body.block.ops) if isinstance(step, NestOp) else []
    stores = [op for op in ops if isinstance(op, StoreOp)]
    constants = [op for op in ops if isinstance(op, arith.ConstantOp)]
    if not isinstance(step, NestOp) or len(ops) != 2 or len(stores) != 1 or len(constants) != 1:
        return None
    is_plain = stores[0].value is constants[0].result and not stores[0].positions
    return constants[0] if is_plain and covers(step) else None


def covers(nest: NestOp) -> bool:
    """Whether a nest with one store stores to each cell of its node once."""
    (store,) = (op for op in nest.body.block.ops if isinstance(op, StoreOp))
    sizes, names = dict(nest.space.data), [index.variable for index in store.indices.data]
    extents = tuple(0 if name is None else sizes.get(name, 0) for name in names)
    return extents == memref_shape(store.node) and sorted(sizes) == sorted(name or "" for name in names)
