"""Profiles of routines: a variant of the code reads the processor's clock around each kernel."""

import ctypes
import time

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.loops import StepOp
from ocannl.lowering.entry import entry_symbol
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.loops_to_llvm import TICKS
from ocannl.passes.analysis.nests import functions, steps_within, uncalled
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.runtime.host.debugged import debugged
from ocannl.runtime.host.jit import compile_llvm
from ocannl.runtime.interface import the_func
from ocannl.runtime.memory import ArgBlock, bind_call


class Clocked:
    """A scheduled routine that adds up the clock ticks of each step: nest, group, loop or kernel. Those of
    bodies come first, in the order of the text. Where a module has several stages, `name` says which. With
    `lines`, debuggers are told the user's lines.
    """

    def __init__(
        self,
        module: ModuleOp,
        args: ArgBlock,
        target: TargetDescription,
        name: str = "",
        *,
        lines: bool = False,
    ) -> None:
        func = next((own for own in uncalled(module) if own.sym_name.data == name), None) or the_func(module)
        steps = [op for each in functions(module) for op in each.body.block.ops if isinstance(op, StepOp)]
        self.own = [number for number, step in enumerate(steps) if step.parent_op() is func]
        """The numbers of the steps of the routine itself."""
        self.within = {step: steps.index(step) for step in steps_within(func)}
        """The number of each of its steps, those in bodies of loops among them."""
        text = to_llvm(module, clocked=True, target=target, lines=lines)
        self.code = debugged(text, target) if lines else compile_llvm(text, target=target)
        self.args = args
        self.call = bind_call(self.code.address(entry_symbol(func.sym_name.data)), args)
        self.ticks = _array_at(self.code.address(TICKS.strip('@"')), len(steps))

    def run(self, times: int = 1) -> NDArray[np.int64]:
        """The ticks of each kernel in `times` runs together, in the order in which they run."""
        self.ticks[:] = 0
        for _ in range(times):
            self.call()
        return self.ticks.copy()


def profile(
    module: ModuleOp,
    args: ArgBlock,
    runs: int,
    target: TargetDescription,
    name: str = "",
    *,
    lines: bool = False,
) -> dict[StepOp, float]:
    """The median seconds of each nest, group, loop or kernel over some runs, in the order in which they run,
    of those in a loop for all iterations together; of several stages, those of the stage with a name.
    `lines` is that of `Clocked`.

    The runs do what the routine does: they write its nodes. A first one, which warms up, is not counted.
    """
    clocked = Clocked(module, args, target, name, lines=lines)
    clocked.run()
    spent, seconds = np.zeros((runs, len(clocked.ticks))), np.zeros(runs)
    for k in range(runs):
        start = time.perf_counter()
        spent[k] = clocked.run()
        seconds[k] = time.perf_counter() - start
    second = np.median(spent[:, clocked.own].sum(axis=1) / seconds)
    medians = (np.median(spent, axis=0) / second).tolist()
    return {step: medians[number] for step, number in clocked.within.items()}


def _array_at(address: int, count: int) -> NDArray[np.int64]:
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))
