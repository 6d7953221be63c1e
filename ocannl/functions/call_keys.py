"""Keys of calls: what is quick to see of arguments, by which the trace of an earlier call is found."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ocannl.functions.arguments import array_of
from ocannl.program.arguments.arrays import signed
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.trees import children
from ocannl.program.tensor import Expression

CallKey: TypeAlias = tuple[Hashable, ...]


def call_key(args: Sequence[Any], named: Mapping[str, Any]) -> tuple[CallKey, list[NDArray[Any]]] | None:
    """A key that calls of one signature share if they are written alike, with their arrays in order; None
    for a call that has to be looked at closely.
    """
    key: list[Hashable] = [len(args), *named]
    arrays: list[NDArray[Any]] = []
    try:
        fits = all(_add(tree, key, arrays) for trees in (args, named.values()) for tree in trees)
        return (tuple(key), arrays) if fits else None
    except (ArgumentError, TypeError):
        # The close look has a message that names the argument.
        return None


def _add(tree: Any, key: list[Hashable], arrays: list[NDArray[Any]]) -> bool:
    """Adds the forms and types of a tree to a key. False for a leaf that is no array and no number."""
    kind = cast("type[Any]", type(tree))
    if kind is np.ndarray:
        array = signed(tree)
    elif kind is float:
        array = np.array(tree, np.float32)
    elif (parts := children(tree)) is not None:
        key.append((kind, *parts))
        return all(_add(part, key, arrays) for part in parts.values())
    else:
        array = None if isinstance(tree, Expression) else array_of(tree, "")
    if array is None:
        return False
    key += array.shape, array.dtype
    arrays.append(array)
    return True


def takes_in_order(parameters: Signature, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a call gives a value to each parameter, in their order, so that its arrays are those of the
    trace in order, too.
    """
    given = [*parameters.parameters][len(args) :]
    variadic = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
    return given == [*named] and not any(each.kind in variadic for each in parameters.parameters.values())
