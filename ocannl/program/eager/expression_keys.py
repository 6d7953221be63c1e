"""Keys of whole expressions, by which equal ones are found again whose operations are not: random numbers
without rows are different operations, as long as nothing has shaped them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ocannl.dialects import texpr
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp, ResultOp
from ocannl.dialects.texpr.tensor_type import DimsAttr
from ocannl.program import graph
from ocannl.program.module.needed import needed_for
from ocannl.program.values import Value, is_memory, value_of, values_of

LOOPS = ScanOp, ResultOp, ArgumentOp


def expression_key(value: Value) -> Hashable | None:
    """A key that expressions share which are the same of the same memory; None for one whose shapes are not
    known, that has loops or checks, or in which each call of random numbers has its own.
    """
    numbers: dict[Value, Any] = {}
    key: list[Hashable] = []
    for op in needed_for([value], _is_memory):
        made = value_of(op)
        if is_memory(made):
            numbers[made] = made
            continue
        shape = graph.known_shape(made)
        if not shape.is_final or made.id_checks or isinstance(op, LOOPS) or "call" in op.attributes:
            return None
        properties = [_attribute(each) for each in op.properties.values()]
        operands = [numbers[operand] for operand in values_of(op)]
        key.append(
            (op.name, *operands, *properties, *op.attributes.items(), shape, made.type.element_or_none)
        )
        numbers[made] = len(numbers)
    return tuple(key)


def _is_memory(op: texpr.TensorOp) -> bool:
    return is_memory(value_of(op))


def _attribute(attribute: Any) -> Hashable:
    """An attribute, with dimensions as far as they are known."""
    if not isinstance(attribute, DimsAttr):
        return attribute
    return tuple([(name, graph.known_dim(dim)) for name, dim in attribute.data])
