"""Times single products of matrices, and of batches of them, on one thread, beside NumPy and PyTorch."""

from __future__ import annotations

import argparse
import os
import sys

import numpy as np
from nests import fastest, peak
from numpy.typing import NDArray
from run import environment, pin

import ocannl as oc

# Rows, columns and length of each product.
SHAPES = {
    "square": [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)],
    "odd": [(64, 17, 64), (256, 17, 256), (1024, 17, 1024), (333, 77, 129), (100, 100, 100), (64, 10, 84)],
    "vectors": [shape for n in (64, 256, 1024) for shape in ((1, n, n), (n, 1, n))],
    "flat": [(1000, 8, 1000), (1000, 1000, 8), (8, 1000, 1000), (4096, 64, 64), (64, 64, 4096)],
}
TRANSPOSITIONS = ("ik,kj->ij", "ik,jk->ij", "ki,kj->ij", "ki,jk->ij")
# Attention: the scores of 16 x 4 heads and the mix of their values, the heads outside or inside.
ATTENTION = ("bhid,bhjd->bhij", "bihd,bjhd->bhij", "bhij,bhjd->bhid", "bhij,bjhd->bihd")
HEADS = {"b": 16, "h": 4, "i": 64, "j": 64, "d": 32}

Array = NDArray[np.float32]


def as_matrices(spec: str, a: Array, b: Array) -> tuple[Array, Array]:
    """The operands as views whose `matmul` is the product, up to the order of the result's axes."""
    left, right, result = spec.replace("->", ",").split(",")
    batch = "".join(n for n in result if n in left and n in right)
    rows, columns = ("".join(n for n in result if n in own and n not in batch) for own in (left, right))
    (summed,) = (n for n in left if n not in result)
    views = ((a, left, batch + rows + summed), (b, right, batch + summed + columns))
    first, second = (x.transpose([own.index(n) for n in order]) for x, own, order in views)
    return first, second


def compare(spec: str, sizes: dict[str, int], rate: float) -> str:
    """One line: the time of each, its part of the peak, and how many times as long the better peer takes.

    Raises AssertionError if the product is wrong.
    """
    import torch

    torch.set_num_threads(1)
    operands, result = spec.split("->")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal([sizes[n] for n in own]).astype(np.float32) for own in operands.split(","))
    context = oc.Context.cpu()
    product = oc.einsum(
        f"| {'; | '.join(map(','.join, operands.split(',')))} => | {','.join(result)}",
        *(oc.data(x, axes="o" * x.ndim) for x in (a, b)),
    )
    routine = context.compile(product, name="product")
    routine()
    exact = np.einsum(spec, a.astype(np.float64), b.astype(np.float64), optimize=True)
    np.testing.assert_allclose(context[product], exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
    x, y = as_matrices(spec, a, b)
    tensors = torch.from_numpy(x), torch.from_numpy(y)
    calls = {
        "ocannl": routine,
        "numpy": lambda: np.matmul(x, y),
        "torch": lambda: torch.matmul(*tensors),
    }
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(3):
        for name, call in calls.items():
            seconds[name] = min(seconds[name], fastest(call, 0.03))
    part = 2 * float(np.prod(list(sizes.values()))) / seconds["ocannl"] / rate
    ratio = min(seconds["numpy"], seconds["torch"]) / seconds["ocannl"]
    times = " ".join(f"{1e6 * seconds[name]:10.1f}" for name in calls)
    return f"{spec:<18}{' '.join(map(str, sizes.values())):<18}{times} us {part:7.1%} x{ratio:.2f}"


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=[*SHAPES, "attention"], action="append", help="default: all")
    options = parser.parse_args(args)
    pin(1)
    rate = peak()
    print(f"one core: {rate / 1e9:.0f} G operations a second")
    print(f"{'':<36}{'ocannl':>10} {'numpy':>10} {'torch':>10}    of peak")
    for kind in options.kind or [*SHAPES, "attention"]:
        shapes = [dict(zip("ijk", shape, strict=True)) for shape in SHAPES.get(kind, ())]
        cases = [(spec, sizes) for sizes in shapes for spec in TRANSPOSITIONS]
        for spec, sizes in cases or [(spec, HEADS) for spec in ATTENTION]:
            print(compare(spec, sizes, rate), flush=True)


if __name__ == "__main__":
    if os.environ.get("OMP_NUM_THREADS") != "1":
        # Libraries read the number of threads when they are loaded.
        os.execve(sys.executable, [sys.executable, *sys.argv], environment(1))
    main()
