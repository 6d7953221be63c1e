"""A nest that a team of threads runs."""

from __future__ import annotations

import numpy as np
from support.nests import parse_module, random_arrays, the_func

from ocannl.lowering.entry import entry_layout, entry_symbol
from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.runtime.cpu.team import Team
from ocannl.runtime.host.jit import compile_llvm
from ocannl.runtime.memory import ArgBlock, aligned_array, bind_call

NEGATE = """
loops.func @negate {
  %x = assign.node "x" on_device : memref<64x100xf32>
  %y = assign.node "y" on_device : memref<64x100xf32>
  %z = assign.node "z" on_device : memref<64xf32>
  loops.nest "y" (i = 64, j = 100) schedule <parallel = (i : 3), lanes = j : 16> {
    %v = loops.load %x[i, j]
    %n = arith.negf %v : f32
    loops.store %n, %y[i, j]
  }
  loops.nest "z" (i = 64) schedule <parallel = (i : 8)> {
    %s = loops.reduce add (j = 100) : f32 {
      %v = loops.load %y[i, j]
      loops.yield %v
    }
    loops.store %s, %z[i]
  }
}"""


def bound(team: Team):
    """A run of `NEGATE` by a team, and its arrays."""
    module = parse_module(NEGATE)
    func = the_func(module)
    layout, arrays = entry_layout(func), random_arrays(func)
    code = compile_llvm(loops_to_llvm(module), cache=None)
    block = ArgBlock(layout.slots)
    for slot, label in enumerate(layout.nodes, layout.node_slot):
        block.set_pointer(slot, arrays[label])
    block.set_pointer(layout.arena_slot, aligned_array((1,), np.uint8))
    block.set_pointer(layout.team_slot, team.start())
    call = bind_call(code.address(entry_symbol("negate")), block)

    def run(alive: tuple[object, ...] = (code, block, team)) -> None:
        assert alive
        call()

    return run, arrays
