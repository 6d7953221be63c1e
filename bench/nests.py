"""Times every nest of a step in OCANNL by itself: seconds, arithmetic, and its part of a core's peak."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from peak import fastest, peak
from steps import PROBLEMS
from steps_ocannl import Runs
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.parser import Parser

from ocannl.dialects.loops import FuncOp, GroupOp, NestOp
from ocannl.dialects.loops.schedule import schedule_text
from ocannl.execute.report import flops
from ocannl.lowering.entry import entry_layout
from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.lowering.pipelines import new_context
from ocannl.passes.analysis.nests import functions, nests_of, nodes, steps
from ocannl.runtime.cpu.team import Team
from ocannl.runtime.host.jit import compile_llvm
from ocannl.runtime.memory import ArgBlock, aligned_array, bind_call


@dataclass(frozen=True)
class Timed:
    """A nest or a group, the seconds of its fastest run, and its floating-point operations."""

    step: NestOp | GroupOp
    seconds: float
    flops: int


def alone(func: FuncOp, number: int) -> FuncOp:
    """A copy of a routine with one of its nests or groups."""
    copy = func.clone()
    for k, step in enumerate(steps(copy)):
        if k != number:
            step.detach()
            step.erase()
    copy.sym_name = StringAttr(f"step{number}")
    return copy


def time_steps(func: FuncOp) -> Iterator[Timed]:
    """Runs the nests on random numbers, by one thread, with the static indices at 0."""
    rng = np.random.default_rng(0)
    arena = aligned_array((entry_layout(func).arena_bytes // 4 + 1,), np.float32)
    arena[...] = rng.uniform(0, 1, arena.shape)
    team = Team(1)
    for k, step in enumerate(steps(func)):
        copy = alone(func, k)
        layout = entry_layout(copy)
        block = ArgBlock(layout.slots)
        block.set_pointer(layout.arena_slot, arena)
        types = {node.label.data: node.result.type for node in nodes(copy)}
        for slot, label in enumerate(layout.nodes, layout.node_slot):
            array = aligned_array(types[label].get_shape(), np.float32)
            array[...] = rng.uniform(0, 1, array.shape)
            block.set_pointer(slot, array)
        if layout.is_parallel:
            block.set_pointer(layout.team_slot, team.start())
        compiled = compile_llvm(loops_to_llvm(ModuleOp([copy])), cache=None)
        call = bind_call(compiled.address(copy.sym_name.data), block)
        yield Timed(step, fastest(call), sum(flops(nest) for nest in nests_of(step)))


def row(timed: Timed, peak_rate: float) -> str:
    """One line about a nest or a group."""
    step = timed.step
    (first, *_) = nests_of(step)
    schedule = schedule_text(first.schedule.data) if first.schedule is not None else ""
    space = " ".join(f"{name}={size}" for name, size in step.space.data)
    part = timed.flops / timed.seconds / peak_rate
    numbers = f"{timed.seconds * 1e6:9.1f} us {timed.flops / 1e6:9.2f} M {part:6.1%}"
    return f"{numbers}  {step.label.data:<24} {space:<40} {schedule}"


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", nargs="?", choices=PROBLEMS, default="lenet")
    options = parser.parse_args(args)
    os.environ["OCANNL_CACHE"] = "off"
    measured = Runs(PROBLEMS[options.step]())
    measured.first()
    module = Parser(new_context(), measured.routine.ir("loops")).parse_module()
    (func,) = functions(module)
    rate = peak()
    print(f"one core: {rate / 1e9:.0f} G operations a second")
    timed = sorted(time_steps(func), key=lambda t: t.seconds, reverse=True)
    for found in timed:
        print(row(found, rate))
    print(f"{sum(t.seconds for t in timed) * 1e6:9.1f} us all")


if __name__ == "__main__":
    main()
