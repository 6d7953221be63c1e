"""Times every nest of a step in OCANNL by itself: how many are equal, seconds, arithmetic, and its part of a
core's peak.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peak import fastest, peak
from problems import STEPS, module_of
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.parser import Parser

from ocannl.dialects.loops import GroupOp, NestOp
from ocannl.dialects.loops.schedule import schedule_text
from ocannl.lowering.entry import entry_layout, entry_symbol
from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.lowering.pipelines import new_context
from ocannl.passes.analysis.costs.work import flops
from ocannl.passes.analysis.equality.structural_equality import StructuralNumbering
from ocannl.passes.analysis.nests import functions, nests_of, nodes, steps
from ocannl.runtime.cpu.team import Team
from ocannl.runtime.host.jit import compile_llvm
from ocannl.runtime.host.processor import chosen_target
from ocannl.runtime.memory import ArgBlock, aligned_array, bind_call


@dataclass
class Timed:
    """A nest or a group, the seconds of its fastest run, and its floating-point operations; and how many are
    equal to it but for names.
    """

    step: NestOp | GroupOp
    seconds: float
    flops: int
    count: int = 1

    @property
    def total(self) -> float:
        return self.count * self.seconds


NUMBERS = 0.2 * np.random.default_rng(0).random(2**16, np.float32) - 0.1
"""Numbers around 0 so small that exponentials of their sums are no denormals, which take longer."""


def random_array(shape: Sequence[int]) -> NDArray[Any]:
    array = aligned_array(tuple(shape), np.float32)
    fill(array)
    return array


def fill(array: NDArray[Any]) -> None:
    """Sets all elements to random numbers again: those that another nest has left may be denormals."""
    flat = array.reshape(-1)
    whole = flat.size // NUMBERS.size * NUMBERS.size
    flat[:whole].reshape(-1, NUMBERS.size)[...] = NUMBERS
    flat[whole:] = NUMBERS[: flat.size - whole]


def time_steps(module: ModuleOp) -> Iterable[Timed]:
    """Runs the nests, of equal ones the first, on random numbers, by one thread, static indices at 0."""
    (func,) = functions(module)
    whole = entry_layout(func)
    types = {node.label.data: node.result.type for node in nodes(func)}
    arrays = {label: random_array(types[label].get_shape()) for label in whole.nodes}
    arena = random_array((whole.arena_bytes // 4 + 1,))
    team, structures, found = Team(1), StructuralNumbering(), dict[int, Timed]()
    target, own = chosen_target(), steps(func)
    keys = [structures.number(step) for step in own]
    for step in own:
        step.detach()
    for key, step in zip(keys, own, strict=True):
        if key in found:
            found[key].count += 1
            continue
        func.body.block.add_op(step)
        func.sym_name = StringAttr(f"step{key}")
        layout = entry_layout(func)
        block = ArgBlock(layout.slots)
        block.set_pointer(layout.arena_slot, arena)
        fill(arena)
        for slot, label in enumerate(layout.nodes, layout.node_slot):
            fill(arrays[label])
            block.set_pointer(slot, arrays[label])
        if layout.is_parallel:
            block.set_pointer(layout.team_slot, team.start())
        compiled = compile_llvm(loops_to_llvm(module, target=target), target=target, cache=None)
        call = bind_call(compiled.address(entry_symbol(func.sym_name.data)), block)
        found[key] = Timed(step, fastest(call), sum(flops(nest) for nest in nests_of(step)))
        step.detach()
    return found.values()


def row(timed: Timed, peak_rate: float) -> str:
    """One line about a nest or a group."""
    step = timed.step
    (first, *_) = nests_of(step)
    schedule = schedule_text(first.schedule.data) if first.schedule is not None else ""
    space = " ".join(f"{name}={size}" for name, size in step.space.data)
    part = timed.flops / timed.seconds / peak_rate
    numbers = f"{timed.count:3} x {timed.seconds * 1e6:9.1f} us {timed.flops / 1e6:9.2f} M {part:6.1%}"
    return f"{numbers}  {step.label.data:<24} {space:<40} {schedule}"


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", nargs="?", choices=STEPS, default="lenet")
    options = parser.parse_args(args)
    os.environ.setdefault("OCANNL_CACHE", "off")
    measured = import_module(module_of(options.step, "ocannl")).Runs(STEPS[options.step]())
    measured.first()
    module = Parser(new_context(), measured.routine.ir("loops")).parse_module()
    rate = peak()
    print(f"one core: {rate / 1e9:.0f} G operations a second")
    timed = sorted(time_steps(module), key=lambda t: t.total, reverse=True)
    for found in timed:
        print(row(found, rate))
    print(f"{sum(t.total for t in timed) * 1e6:9.1f} us all")


if __name__ == "__main__":
    main()
