"""A traced function in one context: its routine, where arguments are copied to and results from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import OcannlError, ShapeError
from ocannl.execute.context import Context
from ocannl.execute.routine import Routine
from ocannl.functions.arguments import ArrayType, array_types
from ocannl.functions.padding import padded_copy, real_sizes, write_padded
from ocannl.functions.trace import Trace
from ocannl.program.arguments.trees import Branch, built
from ocannl.program.location import here
from ocannl.program.parameters import params
from ocannl.program.tensor import Tensor
from ocannl.runtime.device import Memory
from ocannl.runtime.memory import HostMemory

Array = NDArray[Any]


class Bound:
    """A routine with arguments and results. Parameters that have no value get theirs by the default seed."""

    def __init__(
        self, trace: Trace, context: Context, seed: int, *, traces: bool = False, check_nans: bool = False
    ) -> None:
        self.context = context
        self.routine = compiled(trace, context, traces=traces, check_nans=check_nans)
        if any(param not in context for param in params(trace.code).values()):
            context.init_params(trace.code, seed=seed)
        arrays = array_types(trace.signature)
        inputs = [tensor for tensor in trace.inputs if tensor is not None]
        memories = [self.routine.memory_of(tensor, written=True) for tensor in inputs]
        for tensor, memory, kind in zip(inputs, memories, arrays, strict=True):
            _check_shape(tensor, memory, kind)
        self._kinds = arrays
        self._writes = [
            (at, _writer(memory, arrays[at])) for at, memory in enumerate(memories) if memory is not None
        ]
        self._sizes: dict[str, int] = {}
        """The real sizes of padded axes in the last call."""
        self.result = _assembler(trace, [self._reader(leaf, trace) for leaf in trace.results])
        self.count = -1
        """The number of arguments, if they are arrays which the CPU copies in; or -1."""
        self.host: list[tuple[Array, tuple[int, ...], np.dtype[Any]]] = []
        """Where these go, with their shapes and dtypes."""
        is_padded = bool(trace.padded.counts)
        if (
            not is_padded
            and len(arrays) == len(trace.signature.leaves)
            and all(isinstance(memory, HostMemory | None) for memory in memories)
        ):
            self.count = len(arrays)
            for memory, kind in zip(memories, arrays, strict=True):
                # What the code does not use goes to an array of its own.
                array = memory.array if isinstance(memory, HostMemory) else np.empty(kind.shape, kind.dtype)
                self.host.append((array, kind.shape, kind.dtype))

    def run(self, arrays: Sequence[Array]) -> Any:
        """Copies the arguments in, runs, and copies the results out."""
        self.take(arrays)
        self.routine()
        return self.result()

    def take(self, arrays: Sequence[Array]) -> None:
        """Copies the arguments in."""
        for at, write in self._writes:
            write(arrays[at])
        self._sizes = real_sizes(self._kinds, arrays)
        set_real_sizes(self.routine, self._sizes)

    def _reader(self, leaf: Any, trace: Trace) -> Callable[[], Any]:
        """Reads a result, without what is padded."""
        read = _reader(leaf, self.routine, self.context)
        padded = trace.padded.of(leaf.ir_value) if isinstance(leaf, Tensor) else {}
        if not padded:
            return read

        def cut() -> Array:
            whole: Array = read()
            ends = [self._sizes[padded[n]] if n in padded else size for n, size in enumerate(whole.shape)]
            return whole[tuple(map(slice, ends))].copy()

        return cut


def compiled(trace: Trace, context: Context, *, traces: bool = False, check_nans: bool = False) -> Routine:
    """The routine of a trace, which may keep or check all values. Raises `OcannlError` for static indices,
    which a call could not set.
    """
    routine = context.compile(trace.code, name=trace.code.label, trace=traces, check_nans=check_nans)
    unset = [index.name for index in routine.indices if index.name not in trace.padded.counts]
    if unset:
        names = ", ".join(f"`{name}`" for name in unset)
        raise OcannlError(
            f"function `{trace.code.label}` uses the static indices {names}, which a call does not set: "
            'make them arguments, or memory that counts: `n = oc.node("n", output=[], init=0)`, and '
            "`n[...] += 1` in the function"
        )
    return routine


def set_real_sizes(routine: Routine, sizes: Mapping[str, int]) -> None:
    """Sets the static indices of a trace's routine, which are the real sizes of padded axes."""
    for index in routine.indices:
        routine[index] = sizes[index.name]


def _check_shape(tensor: Tensor, memory: Memory | None, kind: ArrayType) -> None:
    """Raises `ShapeError` for an argument whose shape is inferred, as a cotangent's is, and another one."""
    if memory is not None and not kind.counts and memory.shape != kind.shape:
        message = f"`{tensor.label}` has the shape {memory.shape}, found an array of {kind.shape}"
        raise ShapeError(here(message))


def _writer(memory: Memory, kind: ArrayType) -> Callable[[Array], None]:
    if kind.counts and isinstance(memory, HostMemory):
        return partial(write_padded, memory.array)
    if kind.counts:
        return lambda array: memory.write(padded_copy(array, kind))
    if not isinstance(memory, HostMemory):
        return memory.write
    return partial(memory.array.__setitem__, ...)


def _reader(leaf: Any, routine: Routine, context: Context) -> Callable[[], Any]:
    """Reads a result, as an array of its own or as a NumPy scalar."""
    if not isinstance(leaf, Tensor):
        return partial(copy, leaf)
    memory = routine.memory_of(leaf)
    if memory is None:
        return lambda: np.array(context[leaf])[()]
    if not isinstance(memory, HostMemory):
        return lambda: memory.read()[()]
    array = memory.array
    return array.copy if array.ndim else partial(array.__getitem__, ())


def _assembler(trace: Trace, reads: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    """Reads all results in their form; the frequent forms without going over a tree."""
    form = trace.form
    if form is None:
        return reads[0]
    if isinstance(form, Branch) and form.kind is tuple and all(part is None for part in form.parts):
        return lambda: tuple([read() for read in reads])
    if isinstance(form, Branch) and form.kind is dict and all(part is None for part in form.parts):
        pairs = list(zip(form.keys, reads, strict=True))
        return lambda: {key: read() for key, read in pairs}
    return lambda: built(form, iter([read() for read in reads]))
