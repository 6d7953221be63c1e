"""Numbers beside tensors in eager mode: one that changes each time is data, so that it is no part of
the program.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from xdsl.dialects.builtin import f32, f64, i32, i64
from xdsl.ir import Attribute

from ocannl.dialects import texpr
from ocannl.dialects.scalar.precisions import BOOL, integer_range, is_integer
from ocannl.dialects.scalar.terms import Arg, Const, is_short_power
from ocannl.dialects.shapes.shape import Row, Shape
from ocannl.dialects.texpr.tensor_type import TensorType, tensor_type
from ocannl.program import graph
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.memory.added import add_data
from ocannl.program.types.dtypes import dtype_of
from ocannl.program.types.kinds import kind_of
from ocannl.program.values import Value

SCALAR = Shape(Row(), Row(), Row())


_are_fixed: ContextVar[bool] = ContextVar("are_fixed", default=False)


@contextmanager
def fixed_numbers() -> Generator[None]:
    """A context in which all numbers are part of the program: those of a function's own formula."""
    token = _are_fixed.set(True)
    try:
        yield
    finally:
        _are_fixed.reset(token)


def with_data(op: str, operands: Sequence[Value | float]) -> Sequence[Value | float]:
    """The operands of an operator, with data in place of numbers that change each time, such as learning
    rates.
    """
    numbers = tuple([operand for operand in operands if not isinstance(operand, Value)])
    if not numbers or _are_fixed.get() or is_part_of_program(op, operands):
        return operands
    key = op, *[operand if isinstance(operand, Value) else None for operand in operands]
    own = tuple(map(Const, numbers))
    before = RECORDER.numbers.setdefault(key, own)
    if before == own:
        return operands
    values = [operand for operand in operands if isinstance(operand, Value)]
    if not all(can_be_data(number, values) for number in numbers):
        return operands
    if before:
        first = iter(before)
        was = [operand if isinstance(operand, Value) else next(first).value for operand in operands]
        RECORDER.applied.pop(operator_key(op, was), None)
        RECORDER.numbers[key] = ()
    return [o if isinstance(o, Value) else number_data(o, values) for o in operands]


def operator_key(op: str, operands: Sequence[Value | float]) -> tuple[Hashable, ...]:
    """The key of an operator with numbers as part of the program: 0.0 is not -0.0, and 1 not 1.0."""
    return "pointwise", op, *[o if isinstance(o, Value) else repr(o) for o in operands]


def is_part_of_program(op: str, operands: Sequence[Value | float]) -> bool:
    """Whether a number says what is computed: small exponents are products."""
    if op != "pow" or isinstance(operands[1], Value):
        return False
    return is_short_power(operands[1])


def can_be_data(number: float, values: Sequence[Value]) -> bool:
    """Whether a number may be data beside values; an integer has to be one of their type."""
    if isinstance(number, float):
        return True
    kinds = {kind for value in values if is_integer(kind := kind_of(value)) and kind != BOOL}
    least, most = integer_range(next(iter(kinds), i32))
    return len(kinds) <= 1 and least <= number <= most


def number_data(number: float, values: Sequence[Value]) -> Value:
    """A number as data, in the type that it has beside values."""
    element = _element_beside(number, values)
    if element is not None:
        return _data(number, element)
    data = _data(number, f64 if isinstance(number, float) else i64)
    return RECORDER.once(("literal", data), lambda: _literal(data))


def _literal(data: Value) -> Value:
    literal = texpr.ApplyOp(Arg(0), [data], TensorType.of(SCALAR), logic=".", literal=True)
    return graph.add(literal, "number")


def _data(number: float, element: Attribute) -> Value:
    return add_data(np.asarray(number, dtype_of(element)), TensorType.of(SCALAR, element), "number")


def _element_beside(number: float, values: Sequence[Value]) -> Attribute | None:
    """The element type that a number has beside values, None where its uses tell it."""
    elements = {tensor_type(value).element_or_none for value in values} - {BOOL}
    if elements and elements <= {f32, f64}:
        return f64 if f64 in elements else f32
    (element, *others) = elements or [None]
    return element if isinstance(number, int) and is_integer(element) and not others else None
