"""The peak of one core: its name, and how many floating-point operations a second."""

import platform
import time
from collections.abc import Callable
from pathlib import Path

from llvmlite import binding

from ocannl.runtime.host.jit import compile_llvm
from ocannl.runtime.host.processor import chosen_target
from ocannl.runtime.memory import ArgBlock, bind_call

# How often the peak's loop runs.
REPEATS = 100_000


def processor() -> str:
    """The system's name of the processor, and LLVM's."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{next(names, platform.processor() or platform.machine())} ({binding.get_host_cpu_name()})"


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


def peak() -> float:
    """The floating-point operations a second of one core: independent chains of multiply-add, with the
    vectors of the target.
    """
    target = chosen_target()
    width, count = target.vector_bytes // 4, min(24, target.accumulators)
    type, chains = f"<{width} x float>", range(count)
    lines = [
        "define void @peak(ptr %args) {",
        "entry:",
        f"  %a = load {type}, ptr %args",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]",
        *(f"  %x{c} = phi {type} [ zeroinitializer, %entry ], [ %y{c}, %loop ]" for c in chains),
        *(
            f"  %y{c} = call {type} @llvm.fmuladd.v{width}f32({type} %x{c}, {type} %a, {type} %a)"
            for c in chains
        ),
        "  %j = add i64 %i, 1",
        f"  %again = icmp ult i64 %j, {REPEATS}",
        "  br i1 %again, label %loop, label %end",
        "end:",
        *(f"  %p{c} = getelementptr {type}, ptr %args, i64 {c}" for c in chains),
        *(f"  store {type} %y{c}, ptr %p{c}" for c in chains),
        "  ret void",
        "}",
    ]
    compiled = compile_llvm("\n".join(lines) + "\n", target=target, cache=None)
    block = ArgBlock(count * width)
    call = bind_call(compiled.address("peak"), block)
    return 2 * width * count * REPEATS / fastest(call, 0.2)
