"""The element types of values while a program is being built, as far as operands tell them."""

from __future__ import annotations

from ocannl.passes.texpr.infer_precisions.whole_numbers import Element, WholeNumbers, given_element
from ocannl.program.module.needed import needed_for
from ocannl.program.values import Value, value_of


def kind_of(value: Value) -> Element:
    """That of integers and truth values, some float of floats, None of whole numbers that are either."""
    whole = WholeNumbers()
    for op in needed_for([value], lambda op: value_of(op).element is not ...):
        found = value_of(op)
        if found.element is ...:
            found.element = given_element(found) or whole.kind(op)
        whole.kinds[found] = found.element
    return whole.kinds[value]
