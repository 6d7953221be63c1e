"""Messages about objects that cannot stand in a tensor expression."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as short
from typing import Any, cast

import numpy as np

from ocannl.program.arguments.arrays import is_array
from ocannl.program.arithmetic import Arithmetic


def no_tensor(value: object) -> str:
    """The kind of the object, and how to make a tensor of it."""
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        items = cast(Sequence[object], value)
        if has_tensors(items):
            return f'a {kind} of tensors: oc.stack([...], axis="batch") makes one tensor of them'
        return f"the {kind} {short(items)}: write `oc.data({short(items)})`"
    if is_array(value) and not isinstance(value, np.generic):
        kind = np.ndarray.__name__ if isinstance(value, np.ndarray) else kind
        return f"an array ({kind}): write `oc.data(array)`"
    return short(value) if value is None or isinstance(value, str) else f"an object of type {kind}"


def has_tensors(items: Sequence[object]) -> bool:
    """Whether some of nested lists or tuples are tensors."""
    nested = [cast(Sequence[Any], item) for item in items if isinstance(item, list | tuple)]
    return any(isinstance(item, Arithmetic) for item in items) or any(map(has_tensors, nested))
