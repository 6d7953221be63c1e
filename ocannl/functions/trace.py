"""A function traced for one signature: its arguments as tensors, its code and its results."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import ShapeError
from ocannl.functions.arguments import ArrayType, Signature, Static, array_types, shared_letters
from ocannl.functions.axes_guesses import axes_of_columns, axes_of_ids, axes_of_integers
from ocannl.functions.padding import padded_axes, without_marks
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.static_index import tagged
from ocannl.program.arguments.trees import Form, built, form_of, leaves_of, paths_of
from ocannl.program.code import Code, Recording, emit, recording
from ocannl.program.eager.setting import mode
from ocannl.program.keeping import with_kept
from ocannl.program.leaves import data
from ocannl.program.module.needed import needed
from ocannl.program.tensor import Expression, Index, Tensor
from ocannl.program.tracing.padded_axes import PaddedAxes, padding
from ocannl.program.tracing.retracing import TracedMemory, retracing
from ocannl.program.tracing.traced_calls import same_calls
from ocannl.program.values import value_of, values_of

PLAIN = (int, float, complex, str, bytes, type(None), np.ndarray, np.generic)
"""Results that are not tensors, and are returned as they are."""
FLAT = "flat"
"""In place of letters in `axes`: an argument that is flat data, as of `oc.data(array, flat=True)`."""


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
    padded: PaddedAxes[Index]


def trace(
    function: Callable[..., Any],
    signature: Signature,
    axes: Mapping[str, str],
    name: str,
    memory: TracedMemory,
) -> Trace:
    """Calls a function with tensors in place of arrays, and collects the code that it makes.

    The axes that `axes` does not mention are guessed, and the first guess that fits is taken:

    1. Those that have one integer for each row of another array are ids, with batch axes only.
    2. None are ids: their axes are those of other arrays.
    3. As the first, where only arrays of floats have rows.
    4. Arrays with one number for each row of all others, or of another, have batch axes only.
    5. All integers are ids, as the ends of the edges of a graph, if they do little but choose positions.

    Raises `ShapeError` where no guess fits, `SpecError` for malformed specs, `ArgumentError` for results that
    are not values.
    """
    guesses = [
        axes_of_ids(signature, axes),
        {},
        axes_of_ids(signature, axes, only_floats=True),
        axes_of_columns(signature, axes),
    ]
    errors: list[tuple[dict[str, str], ShapeError]] = []
    for number, guess in enumerate(guesses):
        if guess not in guesses[:number]:
            try:
                return _traced(function, signature, {**axes, **guess}, name, memory)
            except ShapeError as error:
                errors.append((guess, error))
    ids = axes_of_integers(signature, axes)
    if ids not in guesses:
        try:
            found = _traced(function, signature, {**axes, **ids}, name, memory)
        except ShapeError as error:
            errors.append((ids, error))
        else:
            if _are_ids(found, ids):
                return found
    raise _misfit(errors)


def _misfit(errors: Sequence[tuple[dict[str, str], ShapeError]]) -> ShapeError:
    """The error of the first guess, and beside it the first other one."""
    (guess, first), *others = errors
    with_guess = f"\n(with axes={guess}, as guessed)" if guess else ""
    for other, error in others:
        if str(error) != str(first):
            way = f"with axes={other}" if other else "as data"
            return ShapeError(f"{first}{with_guess}\nnor do shapes fit {way}:\n{error}")
    return first


def _traced(
    function: Callable[..., Any],
    signature: Signature,
    axes: Mapping[str, str],
    name: str,
    memory: TracedMemory,
) -> Trace:
    block = Recording(label=name)
    padded = padded_axes(array_types(signature))
    with mode(False), recording(block), retracing(memory), same_calls(memory.calls), padding(padded):
        inputs = tuple(_input(path, leaf, axes, padded.counts) for path, leaf in signature.leaves)
        positional, named = built(signature.form, _given(signature, inputs))
        result = function(*positional, **named)
        form = form_of(result)
        paths = paths_of(form, "")
        results = tuple(_result(leaf, path) for leaf, path in zip(leaves_of(result), paths, strict=True))
        values = [leaf.ir_value for leaf in results if isinstance(leaf, Tensor)]
        block.statements[:] = with_kept(block, values)
        for value in dict.fromkeys(values):
            emit(texpr.ForwardOp(value))
        padded.check()
    return Trace(signature, inputs, Code(block.statements, name), form, results, padded)


def _given(signature: Signature, inputs: Sequence[Tensor | None]) -> Iterator[Any]:
    for (_, leaf), tensor in zip(signature.leaves, inputs, strict=True):
        yield leaf.value if isinstance(leaf, Static) else tensor


def _input(
    path: str, leaf: ArrayType | Static, axes: Mapping[str, str], counts: Mapping[str, Index]
) -> Tensor | None:
    """Memory for an argument, which calls write."""
    if isinstance(leaf, Static):
        return None
    letters = shared_letters(axes, path)
    contents = np.zeros(leaf.shape, leaf.dtype)
    if letters == FLAT:
        tensor = data(contents, flat=True, label=path)
    else:
        own = None if letters is None else without_marks(letters)
        tensor = data(contents, axes=own, bases=dict(leaf.counts), label=path)
        if own is None:
            tensor.ir_value.is_argument = True
        tagged(tensor.op, *(counts[name] for _, name in leaf.counts))
    tensor.ir_value.array = None
    return tensor


def _result(leaf: object, path: str) -> Any:
    if isinstance(leaf, Expression):
        return leaf.tensor()
    plain: Any = leaf
    if isinstance(leaf, PLAIN):
        return plain
    place = f"`{path}` of its result" if path else "its result"
    raise ArgumentError(f"a function returns tensors and numbers, found {type(leaf).__name__} as {place}")


def _are_ids(found: Trace, paths: Container[str]) -> bool:
    """Whether nothing that has output or input axes meets arguments, or what is computed from them, point by
    point: there they would be told apart by rows. Where they choose positions they are ids.
    """
    leaves = zip(found.signature.leaves, found.inputs, strict=True)
    ids = {tensor.ir_value for (path, _), tensor in leaves if tensor is not None and path in paths}
    for op in needed(found.code.statements):
        value = value_of(op)
        if ids.isdisjoint(op.operands) or value.id_checks:
            continue
        if isinstance(op, texpr.ApplyOp) and op.logic is not None and op.logic.data in (".", "@"):
            shapes = [Tensor(operand).shape for operand in values_of(op) if operand not in ids]
            if any(isinstance(size, int) for shape in shapes for size in (*shape.output, *shape.input)):
                return False
        ids.add(value)
    return True
