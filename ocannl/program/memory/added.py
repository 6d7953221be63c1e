"""Memory that is added to the program under construction."""

from __future__ import annotations

import math

import numpy as np

from ocannl.dialects import texpr
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.program import graph
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.setting import is_eager
from ocannl.program.scopes import MemoryPath, memory_path
from ocannl.program.tracing.retracing import earlier_memory, note_memory
from ocannl.program.values import Contents, Value


def add_memory(op: texpr.MemoryOp, path: MemoryPath) -> Value:
    """Adds memory to the program, where its path says; or takes what an earlier trace of a function added."""
    known = earlier_memory(op, path.text)
    if known is not None:
        return known
    value = graph.add(op, path.text)
    value.path = path
    note_memory(value)
    return value


def add_data(contents: Contents, type: TensorType, label: str | None = None, *, flat: bool = False) -> Value:
    """Data with the contents of an array of a stored dtype."""
    path = memory_path(label or "data", in_scope=False)
    if is_eager() and not flat:
        assert isinstance(contents, np.ndarray), "the host computes with them"
        return ENGINE.only.data(contents, type, path.text)
    value = add_memory(texpr.DataOp(path.text, type, math.prod(contents.shape) if flat else None), path)
    value.array = contents
    return value
