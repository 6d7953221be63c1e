"""How long each kernel of a routine takes, by running a variant of it that reads the processor's clock."""

import ctypes
import time

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.assign import NodeOp
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.loops_to_llvm import TICKS
from ocannl.runtime.compile import Executable
from ocannl.runtime.jit import compile_llvm
from ocannl.runtime.memory import ArgBlock, bind_call


def profile(executable: Executable, args: ArgBlock, runs: int) -> list[float]:
    """The median seconds of each nest, group or kernel over some runs, in the order in which they run.

    The runs do what the routine does: they write its nodes. A first one, which warms up, is not counted.
    """
    module = executable.func.parent_op()
    assert isinstance(module, ModuleOp)
    code = compile_llvm(to_llvm(module, clocked=True))
    run = bind_call(code.address(executable.func.sym_name.data), args)
    steps = [op for op in executable.func.body.block.ops if not isinstance(op, NodeOp)]
    ticks = _array_at(code.address(TICKS.strip('@"')), len(steps))
    spent, seconds = np.zeros((runs, len(ticks))), np.zeros(runs)
    for k in range(-1, runs):
        ticks[:] = 0
        start = time.perf_counter()
        run()
        if k >= 0:
            seconds[k] = time.perf_counter() - start
            spent[k] = ticks
    second = np.median(spent.sum(axis=1) / seconds)
    return list(np.median(spent, axis=0) / second)


def _array_at(address: int, count: int) -> NDArray[np.int64]:
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))
