"""Nests that set all cells of a node to one number."""

from __future__ import annotations

from xdsl.dialects import arith

from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.loops import NestOp, StoreOp
from ocannl.passes.analysis.nests import ZERO, Step


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
    indices, sizes = store.indices.data, dict(nest.space.data)
    is_whole = all(
        (index == ZERO and size == 1) or sizes.get(index.variable or "") == size
        for index, size in zip(indices, memref_shape(store.node), strict=True)
    )
    return is_whole and sorted(sizes) == sorted(name for index in indices for name in index.names)
