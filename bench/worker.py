"""One peer with one problem in a process of its own: it answers commands, one JSON value a line.

Importing and building are not timed.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module

from problems import PROBLEMS, Problem, Stepper

PEERS: dict[str, tuple[str, dict[str, object]]] = {
    "ocannl": ("peer_ocannl", {}),
    "jax": ("peer_jax", {}),
    "torch": ("peer_torch", {}),
    "torch.compile": ("peer_torch", {"compiled": True}),
    "numpy": ("peer_numpy", {}),
    "c -O3": ("peer_c", {"options": ("-O3",)}),
    "c native": ("peer_c", {"options": ("-O3", "-march=native", "-ffast-math")}),
}

MODES = ("call", "loop")


def build(peer: str, problem: Problem) -> tuple[Stepper, str]:
    """The steps of a peer, and the peer's version."""
    name, options = PEERS[peer]
    module = import_module(name)
    return module.Steps(problem, **options), module.version()


def timed(action: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def answer(steps: Stepper, command: str, count: int) -> object:
    """What is said to a command: seconds, losses, or None where the peer lacks what is asked."""
    if command == "first":
        return timed(steps.first)[0]
    if command == "losses":
        return steps.losses(count)
    action = getattr(steps, command, None)
    return None if action is None else timed(partial(action, count))[0]


def main(peer: str, problem: str) -> None:
    try:
        steps, version = build(peer, PROBLEMS[problem]())
    except (ImportError, OSError, NotImplementedError) as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        command, count = json.loads(line)
        print(json.dumps(answer(steps, command, count)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
