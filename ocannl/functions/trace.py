"""A function traced for one signature: its arguments as tensors, its code and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError, ShapeError
from ocannl.functions.arguments import ArrayType, Signature, Static, shared_letters
from ocannl.program.code import Code, Recording, emit, recording
from ocannl.program.errors import ArgumentError
from ocannl.program.keeping import with_kept
from ocannl.program.leaves import data
from ocannl.program.retracing import TracedMemory, retracing
from ocannl.program.tensor import Expression, Tensor
from ocannl.program.trees import Form, built, form_of, leaves_of, paths_of

PLAIN = (int, float, complex, str, bytes, type(None), np.ndarray, np.generic)
"""Results that are no tensors, and are returned as they are."""


FLAT = "flat"
"""In place of letters: an array whose uses give it a shape."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The tensors that stand for the arguments, None for static ones; the code; and the results in their
    form, of which some may be no tensors.
    """

    signature: Signature
    inputs: tuple[Tensor | None, ...]
    code: Code
    form: Form
    results: tuple[Any, ...]


def trace(
    function: Callable[..., Any],
    signature: Signature,
    axes: Mapping[str, str],
    name: str,
    memory: TracedMemory,
) -> Trace:
    """Calls a function with tensors in place of arrays, and collects the code that it makes.

    Raises `ShapeError` and `SpecError` for what does not fit, `ArgumentError` for results that are no values.
    """
    inputs = tuple(_input(path, leaf, axes) for path, leaf in signature.leaves)
    block = Recording(label=name)
    with recording(block), retracing(memory):
        positional, named = built(signature.form, _given(signature, inputs))
        try:
            result = function(*positional, **named)
        except ShapeError as error:
            raise _with_hint(error, signature, axes) from error
        form = form_of(result)
        paths = paths_of(form, "")
        results = tuple(_result(leaf, path) for leaf, path in zip(leaves_of(result), paths, strict=True))
        values = [leaf.ir_value for leaf in results if isinstance(leaf, Tensor)]
        block.statements[:] = with_kept(block, values)
        for value in dict.fromkeys(values):
            emit(texpr.ForwardOp(value))
    return Trace(signature, inputs, Code(block.statements, name), form, results)


def _given(signature: Signature, inputs: Sequence[Tensor | None]) -> Iterator[Any]:
    for (_, leaf), tensor in zip(signature.leaves, inputs, strict=True):
        yield leaf.value if isinstance(leaf, Static) else tensor


def _input(path: str, leaf: ArrayType | Static, axes: Mapping[str, str]) -> Tensor | None:
    """Memory for an argument, which calls write."""
    if isinstance(leaf, Static):
        return None
    letters = shared_letters(axes, path)
    flat = letters == FLAT
    tensor = data(np.zeros(leaf.shape, leaf.dtype), axes=None if flat else letters, flat=flat, label=path)
    tensor.ir_value.array = None
    return tensor


def _result(leaf: object, path: str) -> Any:
    if isinstance(leaf, Expression):
        return leaf.tensor()
    if isinstance(leaf, PLAIN):
        return leaf
    place = f"`{path}` of its result" if path else "its result"
    raise ArgumentError(f"a function returns tensors and numbers, found {type(leaf).__name__} as {place}")


def _with_hint(error: ShapeError, signature: Signature, axes: Mapping[str, str]) -> OcannlError:
    """The error, with the advice that ids have batch axes only if there may be such."""
    ids = [
        path
        for path, leaf in signature.leaves
        if isinstance(leaf, ArrayType)
        and leaf.shape
        and leaf.dtype.kind in "iu"
        and shared_letters(axes, path) is None
    ]
    if not ids:
        return error
    leaf = dict(signature.leaves)[ids[0]]
    assert isinstance(leaf, ArrayType)
    letters = "b" * len(leaf.shape)
    return ShapeError(
        f'{error}\n(`{ids[0]}` has integers; if they are ids, say axes={{"{ids[0]}": "{letters}"}})'
    )
