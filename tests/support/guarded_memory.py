"""Memory of nodes between pages that cannot be touched.

    python -m support.guarded_memory before 7 13      # in tests/

Runs kernels of all kinds over axes of these sizes in both directions, with memory that ends, or begins, at
such a page: what reads or writes further ends the process.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import DTypeLike, NDArray

import ocannl as oc
from ocannl import nn
from ocannl.lowering.arena import ALIGNMENT, PADDING, VERSION
from ocannl.runtime import memory

SIDES = ("after", "before")
PAGE = mmap.PAGESIZE
NONE, READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
FLOATS = (np.float32, np.float64, np.float16, oc.bfloat16)
LIBC = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Makes arrays of which one side, with the bytes that belong to it, is next to a page without access."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.regions: list[mmap.mmap] = []
        """Kept for ever, so that what reads an array that is no more is told, too."""

    def array(
        self, shape: tuple[int, ...], dtype: DTypeLike, alignment: int = ALIGNMENT
    ) -> NDArray[np.generic]:
        """As `memory.aligned_array`."""
        element = np.dtype(dtype)
        size = math.prod(shape) * element.itemsize
        pages = -(-(size + PADDING - VERSION + alignment) // PAGE) * PAGE
        region = mmap.mmap(-1, pages + 2 * PAGE, prot=READ_WRITE)
        self.regions.append(region)
        base = ctypes.addressof(ctypes.c_char.from_buffer(region))
        for page in (base, base + PAGE + pages):
            if LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        if self.side == "after":
            start = PAGE + (pages - PADDING - size) // alignment * alignment
        else:
            start = PAGE + -(VERSION // alignment) * alignment
        return np.ndarray(shape, element, region, start)


def kernels(n: int, m: int) -> Iterator[oc.Tensor]:
    """Expressions over axes of `n` and `m` elements, of every type that is loaded on its own."""
    rng = np.random.default_rng((n, m))
    for dtype in FLOATS:
        x, y = (oc.data(rng.normal(size=(n, m)).astype(dtype), label=label) for label in "xy")
        w = oc.data(rng.normal(size=(n, m)).astype(dtype), axes="oi", label="w")
        v = oc.data(rng.normal(size=(m, n)).astype(dtype), axes="oi", label="v")
        loss = (nn.gelu(v @ (w @ x)) * y).sum() + oc.logsumexp(x * y)
        yield from (loss, *oc.grad(loss, [x, y, w, v]))
        yield from (x.T @ y, x[1:] - y[:-1], x[:, ::-1].sum(0), x.max(-1), x.argmax(-1), x.prod(0))
        yield from (nn.softmax()(x), oc.cumsum(x), oc.sort(x), oc.flip(x, 0), oc.cumsum(y, 0))
        yield oc.cast(oc.where(x > y, x, 0.5), np.float32)
        images = oc.data(rng.normal(size=(2, n, m, 3)).astype(dtype), axes="bbbo", label="images")
        kernel = oc.data(rng.normal(size=(5, 3, 3, 3)).astype(dtype), axes="oiii", label="kernel")
        spec = "b, y+dy, x+dx | c; |dy, dx, c -> o => b, y, x | o"
        padded = oc.einsum(spec, images, kernel, use_padding=True)
        yield from (padded, oc.grad((padded * padded).sum(), images))
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64):
        a, b = (oc.data(rng.integers(0, 100, (n, m)).astype(dtype), label=label) for label in "ab")
        yield from (a + b, a * b, oc.cast(a, np.float32) * 0.5, a.sum(-1), a.max(0), oc.sort(a))
        yield oc.einsum("i|k; j|k => i, j|", a, b)
    ids = oc.data(rng.integers(0, n, (m,)), axes="b", label="ids")
    table = oc.data(rng.normal(size=(n, m)).astype(np.float32), label="table")
    yield from (table[ids], oc.grad((table[ids] ** 2).sum(), table), oc.topk(table, min(3, m))[0])
    q, k, u = (oc.data(rng.normal(size=(2, n, 2, m)).astype(np.float32), axes="bboo") for _ in "qku")
    scores = oc.einsum("b, s|h, d; b, t|h, d => b, s|t->h", q, k) / math.sqrt(m)
    weights = nn.softmax(spec="... | t -> ...")(scores)
    attended = oc.einsum("b, s|t->h; b, t|h, d => b, s|h, d", weights, u)
    yield from (attended, *oc.grad((attended * q).sum(), [q, k, u]))


def run(sizes: list[int]) -> None:
    """Runs the kernels of all pairs of sizes, and those of quantized weights."""
    for n, m in product(sizes, sizes):
        results = [*kernels(n, m)]
        ctx = oc.Context.cpu(threads=1)
        ctx.compile(sum(map(oc.forward, results), oc.Code()), name=f"kernels_{n}_{m}")()
    if not sizes:
        return
    layer = nn.linear(in_dim=256, out_dim=sizes[0], bias=False)
    ctx = oc.default_context()
    ctx.init_params(layer.w)
    x = oc.data(np.random.default_rng(1).normal(size=(sizes[-1], 256)).astype(np.float32))
    for kind in ("q8_0", "q4_k", "int8"):
        for activations in (None, "int8"):
            quantized: Any = nn.quantized(layer, kind, activations=activations)
            code = oc.forward(quantized(x)) + oc.forward(quantized(x[0]))
            ctx.compile(code, name=f"{kind}_{activations}")()


def main(side: str, sizes: list[int]) -> None:
    """Without sizes, touches the page next to an array by itself."""
    guarded = Guarded(side)
    with patch.object(memory, "aligned_array", guarded.array):
        run(sizes)
    if not sizes:
        array = guarded.array((PAGE,), np.uint8)
        beyond = array.ctypes.data + (PAGE + PADDING if side == "after" else VERSION - 1)
        ctypes.string_at(beyond, 1)
    print(f"nothing was touched around {len(guarded.regions)} arrays")


if __name__ == "__main__":
    main(sys.argv[1], [int(size) for size in sys.argv[2:]])
