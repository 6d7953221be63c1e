"""Results as text: a table for each step, a line for each kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kernels import kernel
from measure import Measured

NAME = 28  # the width of a name
# Kernels below this ratio to the best peer are listed.
SLOW = 0.95
TITLES = {"call": "step by step", "loop": "in a loop", "cold": "first, cold", "warm": "first, warm cache"}


def time_text(seconds: float) -> str:
    unit, scale = ("s ", 1.0) if seconds >= 0.1 else ("ms", 1e3) if seconds >= 1e-4 else ("us", 1e6)
    return f"{seconds * scale:.2f} {unit}"


def cell(seconds: Sequence[float], base: Sequence[float]) -> str:
    """The fastest, and its ratio to OCANNL's."""
    if not seconds:
        return ""
    ratio = f"x{min(seconds) / min(base):.2f}" if base else ""
    return f"{time_text(min(seconds))} {ratio:>7}"


def own(results: Sequence[Measured]) -> Measured:
    """OCANNL's result; an empty one if it was not measured."""
    return next((result for result in results if result.peer == "ocannl"), Measured("", "", "", 0))


def best_ratio(results: Sequence[Measured]) -> tuple[float, str] | None:
    """How many times as long as OCANNL, each in its faster mode, the fastest peer takes, and which it is."""
    least = {r.peer: min(r.call + r.loop) for r in results}
    mine = least.pop("ocannl", None)
    if mine is None or not least:
        return None
    best = min(least, key=least.__getitem__)
    return least[best] / mine, best


def best_peer(results: Sequence[Measured]) -> str:
    found = best_ratio(results)
    return "" if found is None else f"x{found[0]:.2f} {found[1]}"


def ratios_text(ratios: Mapping[str, float]) -> str:
    """Ratios to the best peer by name: the geometric mean, how many are at least 1, and those below 0.95."""
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    reached = sum(ratio >= 1 for ratio in ratios.values()) / len(ratios)
    lines = [f"{len(ratios)} kernels: geometric mean x{mean:.2f}, at least x1 in {reached:.0%}"]
    slow = sorted((ratio, name) for name, ratio in ratios.items() if ratio < SLOW)
    return "\n".join([*lines, *(f"x{ratio:.2f} {name}" for ratio, name in slow)])


def step_table(results: Sequence[Measured]) -> str:
    base = own(results)
    heading = "".join(f"{title:>20}" for title in TITLES.values())
    lines = [f"{results[0].name:<23}{heading}    memory"]
    for result in results:
        cells = "".join(f"{cell(getattr(result, kind), getattr(base, kind)):>20}" for kind in TITLES)
        version = f"{result.peer} {result.version.partition('+')[0]}"
        lines.append(f"{version:<23}{cells}{result.memory / 2**20:7.0f} MB")
    return "\n".join([*lines, f"best peer: {best_peer(results)}"])


def kernel_heading(peers: Sequence[str]) -> str:
    return f"{'kernel':<{NAME}}" + "".join(f"{peer:>{width(peer)}}" for peer in peers) + "  best peer"


def width(peer: str) -> int:
    return 27 if peer == "ocannl" else 15


def kernel_line(results: Sequence[Measured], peers: Sequence[str]) -> str:
    """The time and rate of OCANNL, and how many times as long its peers take."""
    name = results[0].name
    seconds = {result.peer: min(result.call) for result in results}
    mine = seconds.get("ocannl")

    def text(peer: str) -> str:
        if peer not in seconds:
            return ""
        if peer == "ocannl":
            return f"{time_text(seconds[peer])}  {kernel(name).rate(seconds[peer]):>13}"
        return time_text(seconds[peer]) if mine is None else f"x{seconds[peer] / mine:.2f}"

    return f"{name:<{NAME}}" + "".join(f"{text(p):>{width(p)}}" for p in peers) + f"  {best_peer(results)}"
