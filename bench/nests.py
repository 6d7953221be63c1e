"""Times every nest of OCANNL's step by itself: seconds, arithmetic, and its part of a core's peak."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from peer_ocannl import Steps
from problems import PROBLEMS
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.parser import Parser

from ocannl.dialects.loops import FuncOp, GroupOp, NestOp
from ocannl.dialects.schedule import schedule_text
from ocannl.lowering.loops_to_llvm import entry_layout, loops_to_llvm
from ocannl.lowering.pipelines import new_context
from ocannl.passes.nests import functions, nests_of, nodes, steps
from ocannl.report import flops
from ocannl.runtime.jit import compile_llvm
from ocannl.runtime.memory import ArgBlock, aligned_array, bind_call
from ocannl.runtime.team import Team

# Chains of multiply-add that hide its latency, and how often the peak's loop runs.
CHAINS, REPEATS, LANES = 24, 100_000, 16


@dataclass(frozen=True)
class Timed:
    """A nest or a group, the seconds of its fastest run, and its floating-point operations."""

    step: NestOp | GroupOp
    seconds: float
    flops: int


def fastest(call: Callable[[], object], seconds: float = 0.02) -> float:
    """The seconds of the fastest of the calls that fit in a time."""
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best


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


def peak() -> float:
    """The floating-point operations a second of one core: independent chains of multiply-add."""
    type, chains = f"<{LANES} x float>", range(CHAINS)
    lines = [
        "define void @peak(ptr %args) {",
        "entry:",
        f"  %a = load {type}, ptr %args",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]",
        *(f"  %x{c} = phi {type} [ zeroinitializer, %entry ], [ %y{c}, %loop ]" for c in chains),
        *(f"  %y{c} = call {type} @llvm.fma.v{LANES}f32({type} %x{c}, {type} %a, {type} %a)" for c in chains),
        "  %j = add i64 %i, 1",
        f"  %again = icmp ult i64 %j, {REPEATS}",
        "  br i1 %again, label %loop, label %end",
        "end:",
        *(f"  %p{c} = getelementptr {type}, ptr %args, i64 {c}" for c in chains),
        *(f"  store {type} %y{c}, ptr %p{c}" for c in chains),
        "  ret void",
        "}",
    ]
    compiled = compile_llvm("\n".join(lines) + "\n", cache=None)
    block = ArgBlock(CHAINS * LANES)
    call = bind_call(compiled.address("peak"), block)
    return 2 * LANES * CHAINS * REPEATS / fastest(call, 0.2)


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
    parser.add_argument("--problem", choices=PROBLEMS, default="lenet")
    options = parser.parse_args(args)
    os.environ["OCANNL_CACHE"] = "off"
    measured = Steps(PROBLEMS[options.problem]())
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
