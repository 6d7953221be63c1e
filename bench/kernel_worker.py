"""One peer with one kernel in a process of its own: it answers commands, one JSON value a line."""

import json
import sys
import time
from importlib import import_module
from typing import Any, Protocol

import numpy as np

SIZE = 4096, 1024
KERNELS = (
    "add",
    "gelu",
    "tanh",
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "batch_norm",
    "cross_entropy",
    "transpose",
)
PEERS: dict[str, tuple[str, dict[str, object]]] = {
    "ocannl": ("kernels_ocannl", {}),
    "torch": ("kernels_torch", {}),
    "torch.compile": ("kernels_torch", {"compiled": True}),
    "torch f64": ("kernels_torch", {"double": True}),
}


class Kernel(Protocol):
    """One kernel of a peer, compiled: `y = f(x)`, and the gradient of x for a given one of y."""

    version: str

    def run(self) -> None: ...

    def values(self) -> dict[str, Any]:
        """After a run: `y`, and `x.grad` with backward."""
        ...


def data() -> tuple[Any, Any, Any]:
    """x, another array of the same size, which is the gradient of y too, and a class for each row."""
    rng = np.random.default_rng(0)
    x, other = (rng.standard_normal(SIZE).astype(np.float32) for _ in range(2))
    return x, other, rng.integers(0, SIZE[1], SIZE[0]).astype(np.int32)


def answer(kernel: Kernel, command: str, argument: Any) -> object:
    if command == "save":
        kernel.run()
        np.savez(argument, **kernel.values())
        return None
    start = time.perf_counter()
    for _ in range(argument):
        kernel.run()
    return (time.perf_counter() - start) / argument


def main(peer: str, problem: str) -> None:
    name, _, backward = problem.partition(" ")
    module_name, options = PEERS[peer]
    try:
        module = import_module(module_name)
        kernel: Kernel = module.build(name, bool(backward), **options)
    except (ImportError, OSError) as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    print(json.dumps({"version": kernel.version}), flush=True)
    for line in sys.stdin:
        command, argument = json.loads(line)
        print(json.dumps(answer(kernel, command, argument)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
