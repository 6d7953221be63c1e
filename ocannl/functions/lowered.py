"""A function traced for one signature, which has not run: its code, its results and its routine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ocannl.execute.context import Context
from ocannl.execute.inference import infer
from ocannl.execute.routine import Routine
from ocannl.functions.arguments import array_types
from ocannl.functions.bound import compiled, set_real_sizes
from ocannl.functions.padding import real_sizes
from ocannl.functions.trace import Trace
from ocannl.program.arguments.trees import built
from ocannl.program.code import Code
from ocannl.program.tensor import Tensor
from ocannl.viewer.show import Viewable


class Lowered(Viewable):
    """A function traced for one signature: its text, its schedule, and its routine."""

    def __init__(self, trace: Trace, context: Context, arrays: Sequence[NDArray[Any]]) -> None:
        self._trace = trace
        self._context = context
        self._arrays = arrays
        self._sizes = real_sizes(array_types(trace.signature), arrays)

    @property
    def trace(self) -> Trace:
        """Its arguments as tensors, its code and its results."""
        return self._trace

    @property
    def code(self) -> Code:
        """Its code."""
        return self._trace.code

    @property
    def results(self) -> Any:
        """The tensors that it returns, in their form."""
        return built(self._trace.form, iter(self._trace.results))

    @property
    def shapes(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The shape of each tensor that it returns, and that up to which its axes are padded."""
        found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for result in self._trace.results:
            if isinstance(result, Tensor):
                infer(result)
                room = result.shape.array
                names = self._trace.padded.of(result.ir_value)
                sizes = {number: self._sizes[name] for number, name in names.items()}
                found.append((tuple([sizes.get(n, size) for n, size in enumerate(room)]), room))
        return found

    def ir(self, stage: str = "texpr", *, origins: bool = False) -> str:
        """The text at a stage of the pipeline, as of `Code.ir`."""
        return self._trace.code.ir(stage, origins=origins)

    def view(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Shows it at all levels of its compilation, as `oc.view`."""
        return self._routine().view(path)

    def compile(self) -> Routine:
        """A routine of its code. Calling it runs the code with the arguments of the function's last call, or
        of `lower` before any.
        """
        routine = self._routine()
        self._give_arguments()
        return routine

    def _routine(self) -> Routine:
        routine = compiled(self._trace, self._context)
        set_real_sizes(routine, self._sizes)
        return routine

    def _give_arguments(self) -> None:
        """Writes the arguments that have no value yet, where no axis is padded."""
        inputs = [tensor for tensor in self._trace.inputs if tensor is not None]
        for tensor, array in zip(inputs, self._arrays, strict=True):
            if not self._sizes and tensor not in self._context:
                self._context[tensor] = array

    def schedule(self) -> str:
        """A table of the kernels, as of `Routine.schedule`."""
        return self._routine().schedule()
