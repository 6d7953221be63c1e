"""Accumulations in which no two elements meet: what they give are elements of an operand."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, SSAValue

from ocannl.dialects.scalar.terms import ZERO, App, Arg, Term
from ocannl.dialects.shapes.spec import (
    Affine,
    Anything,
    Axis,
    Concat,
    Fixed,
    Name,
    Product,
    Slot,
    Spec,
    names_of,
)
from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec
from ocannl.dialects.shapes.spec_parts import PartSpace, part_spaces
from ocannl.dialects.texpr import ApplyOp, RangeOp, ScanOp

NO_SPECS = (".", "@", "T")
SOME = "_"
"""In place of the name of an axis that nothing else can have."""


def only_moves(op: ApplyOp) -> bool:
    """Whether each element of an accumulation is at most one of an operand, by the operation's spec: of an
    einsum of one operand without reduction, a concatenation, or a gather, which reduces over an axis of
    which it takes one position.
    """
    spec = _spec(op)
    if spec is None or any(map(_overlaps, _axes(spec.result))):
        return False
    spaces, taken = part_spaces(spec), _taken(op, spec)
    is_one = _is_choice(op.term.data) or all(len(space.reads) == 1 for space in spaces)
    return is_one and _is_operand(op.term.data) and all(_reduced(spec, space) <= taken for space in spaces)


def _is_operand(term: Term) -> bool:
    """Whether a term is an operand, where only one of those that it combines is there."""
    if isinstance(term, App) and term.op in ("add", "mul"):
        return all(map(_is_operand, term.args))
    return isinstance(term, Arg) or _is_choice(term)


def _is_choice(term: Term) -> bool:
    """Whether a term is an operand where a condition holds, and 0 elsewhere."""
    return (
        isinstance(term, App)
        and term.op == "where"
        and isinstance(term.args[1], Arg)
        and term.args[2] == ZERO
    )


def _spec(op: ApplyOp) -> Spec | None:
    """The spec of an operation; None if it has none, or a malformed one."""
    if op.logic is None or op.logic.data in NO_SPECS:
        return None
    try:
        return parse_spec(op.logic.data, len(op.args))
    except SpecSyntaxError:
        return None


def _axes(slot: Slot) -> list[Axis]:
    return [axis for row in slot.rows for axis in row.axes]


def _overlaps(axis: Axis) -> bool:
    """Whether several positions of a result's axis may be one."""
    return isinstance(axis, Affine) and len(axis.terms) > 1


def _taken(op: ApplyOp, spec: Spec) -> set[str]:
    """The axes of which a choice takes one position: that which an id equals."""
    term, found = op.term.data, set[str]()
    if isinstance(term, App) and _is_choice(term):
        for id, position in _equal(term.args[0]):
            axes = _axes(spec.operands[position])
            if len(axes) == 1 and isinstance(axes[0], Name) and _is_range(op.args[position]):
                found |= {axes[0].name} - _names(spec.operands[id])
    return found


def _equal(condition: Term) -> Iterator[tuple[int, int]]:
    """The pairs of operands that are equal where a condition holds."""
    match condition:
        case App("and", (x, y)):
            yield from _equal(x)
            yield from _equal(y)
        case App("eq", (Arg(x), Arg(y))):
            yield x, y
        case _:
            pass


def _is_range(value: SSAValue) -> bool:
    """Whether a value is positions; in a scan, those that it reads from outside."""
    scan = value.owner.parent_op() if isinstance(value.owner, Block) else None
    if isinstance(scan, ScanOp) and value in scan.captured_arguments:
        return _is_range(scan.operands[scan.arguments.index(value)])
    return isinstance(value.owner, RangeOp)


def _names(slot: Slot) -> set[str]:
    return {name for axis in _axes(slot) for name in names_of(axis)}


def _reduced(spec: Spec, space: PartSpace) -> set[str]:
    """The axes and row variables of operands that the result of a space has not."""
    read = {name for operand in space.reads for name in _in_space(spec, operand, space)}
    return read - {name for name in _in_space(spec, len(spec.operands), space) if name != SOME}


def _in_space(spec: Spec, slot: int, space: PartSpace) -> Iterator[str]:
    """The names of a slot's axes and row variables, of concatenations those of the part."""
    for kind, row in enumerate(spec.slots[slot].rows):
        if row.var is not None:
            yield f"..{row.var}.."
        for place, axis in enumerate(row.axes):
            match axis:
                case Concat(parts):
                    part = parts[space.parts[slot, kind, place]]
                    yield SOME if isinstance(part, Fixed) else part.name
                case Anything():
                    yield SOME
                case Product(factors):
                    yield from (f.name if isinstance(f, Name) else f"..{f.name}.." for f in factors)
                case _:
                    yield from names_of(axis)
