"""Times pointwise, broadcast and reduction kernels in OCANNL beside PyTorch, forward and with backward.

The peers take turns in processes pinned to the same cores. Before that, each peer's values and gradients are
compared with PyTorch's in float64. `GB/s` counts the arrays that a kernel has to read and write, each once.
"""

import argparse
import json
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from kernel_worker import KERNELS, PEERS, SIZE
from numpy.typing import NDArray
from run import Missing, Worker, pin

WORKER = Path(__file__).with_name("kernel_worker.py")
# Arrays of SIZE that a kernel has to move: forward, and with backward.
ARRAYS = {"add": (3, 5), "transpose": (2, 4), "cross_entropy": (1, 2)}
USUAL = 2, 5


@dataclass
class Measured:
    """The seconds of each run."""

    kernel: str
    backward: bool
    peer: str
    seconds: list[float] = field(default_factory=list[float])


def values(worker: Worker, folder: Path) -> dict[str, NDArray[np.float64]]:
    """What a peer computes, by way of a file."""
    path = folder / "values.npz"
    worker.ask("save", str(path))
    with np.load(path) as arrays:
        return {name: np.asarray(arrays[name], np.float64) for name in arrays}


def verify(workers: list[Worker], expected: dict[str, NDArray[np.float64]], folder: Path) -> None:
    for worker in workers:
        found = values(worker, folder)
        for name, array in expected.items():
            scale = float(np.abs(array).max())
            np.testing.assert_allclose(
                found[name].reshape(array.shape), array, rtol=1e-4, atol=1e-5 * scale, err_msg=worker.peer
            )


def measure(kernel: str, backward: bool, peers: list[str], threads: int, rounds: int) -> list[Measured]:
    problem = f"{kernel}{' backward' if backward else ''}"
    workers: list[Worker] = []
    for peer in peers:
        try:
            workers.append(Worker(peer, problem, threads, WORKER))
        except Missing as reason:
            print(f"{problem}: without {peer}: {reason}")
    with tempfile.TemporaryDirectory() as name:
        reference = Worker("torch f64", problem, threads, WORKER)
        expected = values(reference, Path(name))
        reference.close()
        verify(workers, expected, Path(name))
    results = {worker.peer: Measured(kernel, backward, worker.peer) for worker in workers}
    for turn in range(rounds):
        start = turn % len(workers)
        for worker in workers[start:] + workers[:start]:
            results[worker.peer].seconds.append(worker.ask("time", 10))
    for worker in workers:
        worker.close()
    return list(results.values())


def line(measured: list[Measured]) -> str:
    """Medians, each with its ratio to OCANNL's."""
    first = measured[0]
    base = statistics.median(first.seconds)
    moved = ARRAYS.get(first.kernel, USUAL)[first.backward] * SIZE[0] * SIZE[1] * 4
    cells = [f"{first.kernel:<16}{'forward + backward' if first.backward else 'forward':<20}"]
    for result in measured:
        median = statistics.median(result.seconds)
        cells.append(f"{median * 1e3:8.2f} ms {moved / median / 1e9:6.1f} GB/s x{median / base:<6.2f}")
    return "".join(cells)


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", choices=KERNELS, action="append", help="default: all")
    parser.add_argument("--peer", choices=PEERS, action="append", help="default: ocannl and torch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="where to write every measurement")
    options = parser.parse_args(args)

    pin(options.threads)
    peers = options.peer or ["ocannl", "torch"]
    print(f"{f'{SIZE[0]} x {SIZE[1]} f32':<36}" + "".join(f"{peer:<31}" for peer in peers))
    results: list[Measured] = []
    for kernel in options.kernel or KERNELS:
        for backward in (False, True):
            measured = measure(kernel, backward, peers, options.threads, options.rounds)
            print(line(measured), flush=True)
            results += measured
    if options.json:
        rows = [{"kernel": r.kernel, "backward": r.backward, "peer": r.peer, "s": r.seconds} for r in results]
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
