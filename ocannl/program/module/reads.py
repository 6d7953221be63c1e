"""The memory that expressions read and statements write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.program.module.needed import needed, needed_for
from ocannl.program.values import Value, is_memory, memory_key, value_of, values_of

Key: TypeAlias = tuple[Value, bool]
"""A value that owns memory, and whether that is its gradient."""


def reads_of(value: Value, known: dict[Value, frozenset[Key]]) -> frozenset[Key]:
    """The memory that a value reads, at any depth; `known` has what was found before, and gets the rest."""
    if value not in known:
        for op in needed_for([value], lambda op: value_of(op) in known):
            each = value_of(op)
            if each not in known:
                is_leaf = is_memory(each)
                known[each] = (
                    frozenset([memory_key(each)]) if is_leaf else _union([known[o] for o in values_of(op)])
                )
    return known[value]


def _union(found: Sequence[frozenset[Key]]) -> frozenset[Key]:
    largest = max(found, key=len, default=frozenset[Key]())
    others = [keys for keys in found if not keys <= largest]
    return largest.union(*others) if others else largest


def written_by(statement: Operation) -> list[Key]:
    """The memory that a statement writes."""
    match statement:
        case texpr.AssignOp():
            return [memory_key(values_of(statement)[0])]
        case texpr.ForwardOp():
            (value,) = values_of(statement)
            return [(value, False)] if texpr.ValueOp in value.asked else []
        case texpr.BackpropOp() | texpr.ZeroGradsOp():
            (value,) = values_of(statement)
            values = [value, *map(value_of, needed([value.op]))]
            return [(each, True) for each in values if texpr.GradOp in each.asked]
        case _:
            return []
