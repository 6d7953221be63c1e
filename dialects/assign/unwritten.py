"""A check that no routine reads cells of a node that lives inside of a run, and that nothing has written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.assign.collective import CollectiveBase
from ocannl.dialects.assign.node import OWN_MEMORY, NodeOp
from ocannl.dialects.assign.repeat import RepeatBase
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import Map
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.index.written_cells import WrittenCells
from ocannl.dialects.ir.errors import at_line
from ocannl.dialects.records import dataclass
from ocannl.dialects.routine import RoutineOp


@dataclass(frozen=True, slots=True)
class Access:
    """Cells of a node that an operation reads or writes, at points of a space; all cells, or some that are
    not known, without a map. Of variables `around`, such as those of groups, a point has one value.
    """

    op: Operation
    node: SSAValue
    writes: bool
    indices: Map | None = None
    space: Mapping[str, int] = field(default_factory=dict[str, int])
    around: Mapping[str, int] = field(default_factory=dict[str, int])
    bounds: Sequence[Bound] = ()


AccessesOf = Callable[[Operation], Iterable[Access]]
"""The accesses of an operation at the top of a routine, in the order in which they happen."""


def check_written(routine: RoutineOp, accesses_of: AccessesOf) -> None:
    """Raises `VerifyException` where a local node is read before it is written."""
    for access, where in unwritten_reads(routine, accesses_of, persistent=False):
        assert isinstance(access.node.owner, NodeOp)
        name = f"{where}{access.node.owner.label.data!r}"
        message = f"`{access.op.name}`: {name} lives inside a run, and is read before anything has written it"
        raise VerifyException(at_line(access.op, message))


def unwritten_reads(
    routine: RoutineOp, accesses_of: AccessesOf, *, persistent: bool
) -> Iterator[tuple[Access, str]]:
    """Reads of what the routine has not written before, of nodes that persist across runs or of others, and
    which cells these are.
    """
    written: dict[SSAValue, WrittenCells] = {}
    for access in accesses(routine, accesses_of):
        owner = access.node.owner
        if not isinstance(owner, NodeOp) or (owner.mode.data in OWN_MEMORY) != persistent:
            continue
        cells = written.get(access.node)
        if access.writes:
            cells = written.setdefault(access.node, WrittenCells(memref_shape(access.node)))
            if access.indices is None:
                cells.add_all()
            else:
                cells.add(access.indices, access.space, access.around, access.bounds)
        elif cells is None:
            if 0 not in access.space.values():
                yield access, ""
        elif access.indices is not None:
            missing = cells.missing(access.indices, access.space, access.around, access.bounds)
            if missing is not None:
                yield access, f"{missing} of "


def accesses(routine: RoutineOp, accesses_of: AccessesOf) -> Iterator[Access]:
    for op in routine.body.block.ops:
        if isinstance(op, CollectiveBase):
            yield from exchanged(op)
        elif isinstance(op, RepeatBase):
            yield from repeated(op, accesses_of)
        else:
            yield from accesses_of(op)


def exchanged(op: CollectiveBase) -> Iterator[Access]:
    """The accesses of an exchange. Some rows of its source may be of no use."""
    if not op.is_wait:
        yield from (Access(op, node, writes=False) for node in op.read)
    yield from (Access(op, node, writes=True) for node in op.written)


def repeated(op: RepeatBase, accesses_of: AccessesOf) -> Iterator[Access]:
    """The accesses of a loop: what its first iteration reads before it writes it has to be there."""
    if op.flag is not None:
        yield Access(op, op.flag, writes=False)
    body, bound = op.find_routine(), op.bound
    if body is None or op.count.data == 0:
        return
    for access, _ in unwritten_reads(body, accesses_of, persistent=True):
        assert isinstance(access.node.owner, NodeOp)
        if access.node.owner.label.data in bound:
            yield Access(op, bound[access.node.owner.label.data], writes=False)
    yield from (Access(op, node, writes=True) for node in op.written)
