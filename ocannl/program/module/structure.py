"""The structure of a part of the program: all that its types follow from, and no names.

Layers that are equal but for names have one structure, so that the types that were inferred for one of them
are those of all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.ir.op_helpers import operands_of
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp, ResultOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType
from ocannl.program.module.extract import Part
from ocannl.program.text.numbered_types import NumberedTypes
from ocannl.program.values import value_of
from ocannl.runtime.locks import shared

NAMES = frozenset({"label", "stream", "call", "declared"})
"""The properties and attributes of operations that name or count them."""
OF_SCANS = (ScanOp, ResultOp, ArgumentOp)
MOST = 2**8
"""The structures whose types are kept."""

Passes: TypeAlias = tuple[type[ModulePass], ...]
Inferred: TypeAlias = Sequence[TensorType]
"""The types of the results of a part's operations, in order."""

_inferred: dict[Hashable, Inferred] = {}


def inferred_before(structure: Hashable | None) -> Inferred | None:
    """The types that were inferred in a part of this structure; None if none are kept."""
    return _inferred.get(structure)


def keep_inferred(structure: Hashable | None, types: Inferred) -> None:
    """Keeps the types of a part of this structure, if it has one, in place of those that were kept first."""
    if structure is None:
        return
    with shared:
        while len(_inferred) >= MOST:
            del _inferred[next(iter(_inferred))]
        _inferred[structure] = types


def structure_of(part: Part, passes: Passes) -> Hashable | None:
    """The structure of a part, and what infers its types; None where it has loops, whose bodies are not
    compared.
    """
    if any(isinstance(op, OF_SCANS) for op in part.ops):
        return None
    types, numbers = NumberedTypes(), dict[SSAValue, int]()
    found: list[Hashable] = [passes]
    for op in part.ops:
        value = value_of(op)
        numbers[value] = len(numbers)
        found.append(types.of(value))
        if not part.ends(op):
            found += _parts(op, types, numbers)
    for op in part.statements:
        found += _parts(op, types, numbers)
    return tuple(found)


def _parts(op: Operation, types: NumberedTypes, numbers: dict[SSAValue, int]) -> Sequence[Hashable]:
    """An operation but for the type of its result: its kind, operands and properties."""
    properties = {
        name: types.dims_of(value) if isinstance(value, DimsAttr) else value
        for name, value in (*op.properties.items(), *op.attributes.items())
        if name not in NAMES
    }
    return type(op), tuple([numbers[operand] for operand in operands_of(op)]), tuple(properties.items())
