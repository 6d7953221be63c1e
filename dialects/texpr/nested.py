"""Operations with those in bodies of scans, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Block, Operation, SSAValue

from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.texpr.scan import ScanOp


def nested(block: Block) -> Iterator[Operation]:
    """The operations of a block in order, each followed by those in its body."""
    yield from nested_in(operations_of(block))


def nested_in(ops: Iterable[Operation]) -> Iterator[Operation]:
    """Operations in order, each followed by those in its body."""
    for op in ops:
        yield op
        if type(op) is ScanOp:  # `isinstance` takes several times as long
            yield from nested(op.block)


def values_in(ops: Iterable[Operation]) -> Iterator[SSAValue]:
    """The results of operations, and the arguments of their bodies."""
    for op in ops:
        yield from op.results
        if type(op) is ScanOp:
            yield from op.arguments
