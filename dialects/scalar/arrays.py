"""Which types arrays in memory may have."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.scalar.precisions import is_stored, not_stored


def check_array(type: MemRefType[Attribute], what: str) -> None:
    """Checks that an array, called `what` in messages, has elements that can be stored, row by row."""
    if not is_stored(type.element_type):
        raise VerifyException(not_stored(type.element_type, f"the elements of {what}"))
    if not isinstance(type.layout, NoneAttr):
        raise VerifyException(f"the elements of {what} lie row by row, found the layout {type.layout}")
