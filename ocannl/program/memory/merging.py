"""Merge buffers: the values that memory has in other contexts, as routines read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ocannl.dialects import texpr
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.program import graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.default_context import DEFAULT
from ocannl.program.scopes import memory_path
from ocannl.program.values import Value, label_of, memory_key

SUFFIX = "merge"


class Shared(Protocol):
    """A context whose memory others read."""

    def let_merge(self) -> None:
        """From now on its runs and those that read its memory take turns."""
        ...


@dataclass(frozen=True)
class Merged:
    """The memory that a merge buffer has the value of: that of a value, or of its gradient, in a context."""

    context: Any
    value: Value
    is_gradient: bool


def merge(memory: Value, context: Shared) -> Value:
    """A merge buffer. Raises `ArgumentError` for what is not a context, and for a merge of a merge."""
    if context not in DEFAULT.living:
        raise ArgumentError(
            f"`{label_of(memory)}.merge` takes the context whose value is read, an oc.Context, "
            f"found {context!r}"
        )
    if memory.merged is not None:
        raise ArgumentError(f"`{label_of(memory)}` has the value of a context already: merge what it is of")
    owner, is_gradient = memory_key(memory)
    context.let_merge()
    label = f"{label_of(memory)}.{SUFFIX}"
    value = graph.add(texpr.MergeOp(label, memory, 0, tensor_type(memory)), label)
    named = label.removeprefix(f"{label_of(owner)}.")
    if owner.path is None:
        value.path = memory_path(label, in_scope=False)
    else:
        value.path = memory_path(named, in_scope=False, of=owner.path)
    value.merged = Merged(context, owner, is_gradient)
    return value
