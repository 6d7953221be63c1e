"""The interface of devices: their memory, the text that they compile, and routines on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import StepOp
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.interface import Interface
from ocannl.runtime.memory import ArgBlock


class Memory(Protocol):
    """The memory of a C-contiguous array on a device, which is freed with this object."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def address(self) -> int:
        """The address that routines on the device use."""
        ...

    def read(self) -> NDArray[Any]:
        """The values after all runs so far, in an array of its own."""
        ...

    def write(self, values: ArrayLike) -> None:
        """Sets the values; they are broadcast and converted as NumPy does."""
        ...


class Run(Protocol):
    """A routine on a block of arguments."""

    @property
    def call(self) -> Callable[[], None]:
        """Runs it once. Raises `DeviceError`; for errors on a GPU perhaps only in a later run."""
        ...

    def loop(
        self,
        *,
        epochs: int,
        ranged: Sequence[tuple[int, int]],
        advance: Sequence[int],
        record: Sequence[Memory],
    ) -> list[NDArray[Any]]:
        """Runs it for all values of its ranged indices, as `loop_driver.run_loop` does.

        Raises `DeviceError`.
        """
        ...

    def profile(self, module: ModuleOp, runs: int) -> dict[StepOp, float]:
        """The median seconds of each step of the routine, which is that of a module, over some runs, in
        order; where it is known, also of the steps in bodies of loops, for all iterations together.

        The runs write its nodes. Raises `DeviceError`.
        """
        ...


class Program(Protocol):
    """A compiled routine."""

    def bind(self, args: ArgBlock) -> Run: ...


class Device(Protocol):
    """A device. Devices of one language and one `key` compile the same text."""

    @property
    def key(self) -> str: ...

    @property
    def target(self) -> TargetDescription:
        """The CPU that passes choose for; nothing of a GPU depends on it."""
        ...

    @property
    def name(self) -> str:
        """The name of a GPU; empty for the CPU."""
        ...

    @property
    def language(self) -> str:
        """The language that it compiles, by the name of its stage: "llvm", "ptx" or "metal"."""
        ...

    def memory(self, shape: tuple[int, ...], dtype: DTypeLike) -> Memory:
        """Zeroed memory. Raises `DeviceError` where there is not enough."""
        ...

    def synchronize(self) -> None:
        """Waits for all runs. Raises `DeviceError` for their errors."""
        ...

    def text(self, module: ModuleOp) -> str:
        """The text of a module with one routine at the end of the pipeline."""
        ...

    def program(self, text: str, interface: Interface) -> Program:
        """The routine of such a text. Raises `DeviceError`."""
        ...
