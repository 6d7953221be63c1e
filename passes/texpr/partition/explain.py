"""The reasons of the placement of a value, step by step, in words."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.texpr import MemoryOp, OfOp
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.analysis.infer_placements.problem import PARTIAL, WHOLE, Placements
from ocannl.passes.texpr.partition.program import Program, placement_of


def placement_text(program: Program, placements: Placements, number: int) -> str:
    """How a value is split; its sizes are those of the whole, if it is not rewritten yet."""
    split = placements.splits[number]
    if split == WHOLE:
        return f'whole over "{program.mesh}"'
    if split == PARTIAL:
        return f'partial over "{program.mesh}"'
    return f'split along axis {split} over "{program.mesh}"'


def chain(program: Program, placements: Placements, number: int) -> Iterator[tuple[Operation, str]]:
    """The operations from which the split of a value follows, each with what it says, the nearest first, and
    the placement that is given last.
    """
    fact = placements.facts[number]
    while fact.kind not in ("given", "open"):
        name = _name(program.owners[number])
        if fact.kind == "follows":
            yield program.owners[number], f"`{name}` follows `{_name(program.owners[fact.via])}`"
        else:
            op, way = program.ops[fact.step], placements.ways[fact.step]
            along = f"`{_made(op)}` is divided along `{way.along}`"
            yield op, f"{along}, and reads `{name}` so" if fact.kind == "need" else along
        number = fact.via
        fact = placements.facts[number]
    op = program.owners[number]
    if fact.kind == "given":
        asked = placement_of(op).asked_over(program.mesh)
        axis = f'is given {asked} over "{program.mesh}"' if asked is not None else "is given as whole"
        yield op, f"`{_name(op)}` {axis}"
    else:
        yield op, f'nothing says how `{_name(op)}` is split over "{program.mesh}"'


def _made(op: Operation) -> str:
    """The name of what an operation computes or writes."""
    return _name(op) if op.results else f"{_of(op.operands[0])} ="


def _name(op: Operation) -> str:
    if isinstance(op, MemoryOp):
        return op.label.data
    if isinstance(op, OfOp):
        return f"{_of(op.source)}.{op.name.removeprefix('texpr.')}"
    return _of(op.results[0])


def _of(value: SSAValue) -> str:
    owner = value.owner
    if isinstance(owner, MemoryOp | OfOp):
        return _name(owner)
    return value.name_hint or f"a tensor {shape_of(value)}"
