"""The single kernels that are measured: their names, shapes and data.

A name ends with `_backward` where the gradient of `x` is wanted, too. Products of matrices are called
`gemm_<rows>x<summed>x<columns>`, of any sizes; `gemm_tn_...` if the first operand is stored transposed. With
`_bf16` or `_f64` at the end operands and results are such, with `_tf32` operands of f32 may be rounded to
TF32.
`add_<rows>x<columns>` is `add` of another size.

`conv_<size>x<in>x<out>_<k>x<k>` convolves 32 padded images of size x size with `in` channels, at every other
position with `_by2`. With `_image` or `_kernel` at the end it is the gradient of these, without the result.

`attention_<positions>x<heads>x<features>` is causal attention of 8 examples, with `_bf16` or `_tf32` as of
products, and then `_backward` for the gradients, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
AnyFloat = TypeVar("AnyFloat", bound=np.floating[Any])
Shape = tuple[int, ...]

ROWS = (4096, 1024)
BACKWARD = "_backward"
ROWWISE = re.compile(rf"([a-z_]+?)(?:_(\d+)x(\d+))?({BACKWARD})?")
GEMM = re.compile(r"gemm(?:_([nt])([nt]))?_(\d+)x(\d+)x(\d+)(?:_(f64|bf16|tf32))?")
BATCH, IMAGE, OF_KERNEL = 32, "_image", "_kernel"
CONV = re.compile(rf"conv_(\d+)x(\d+)x(\d+)_(\d+)x\4(_by2)?({IMAGE}|{OF_KERNEL})?")
ATTENTION = re.compile(rf"attention_(\d+)x(\d+)x(\d+)(?:_(bf16|tf32))?({BACKWARD})?")
EXAMPLES = 8
# A timing takes about so many seconds at these rates: short ones are seldom interrupted on a busy machine.
SECONDS, FLOPS, BYTES = 0.005, 1e11, 2e10


@dataclass(frozen=True)
class Kernel:
    """`y = f(x, other)`.

    Attributes:
        block: what peers call f.
        x, other, y: the shapes.
        flops: floating-point operations, where they are what counts.
        moved: how many floats are read and written, each once, where memory is what counts.
        product: of which axes a product is, as `ik,kj->ij`.
        precision: `f32`, `f64`, `bf16` or `tf32`.
    """

    block: str
    x: Shape
    other: Shape
    y: Shape
    flops: int = 0
    moved: int = 0
    product: str = ""
    backward: bool = False
    precision: str = "f32"

    @property
    def calls(self) -> int:
        return max(1, round(SECONDS / (self.flops / FLOPS + 4 * self.moved / BYTES)))

    def rate(self, seconds: float) -> str:
        """The rate of a call that takes so many seconds."""
        if self.flops:
            return f"{self.flops / seconds / 1e9:.0f} GFLOP/s"
        return f"{4 * self.moved / seconds / 1e9:.1f} GB/s"


@dataclass(frozen=True)
class Convolution(Kernel):
    """`y` from images `x` and a kernel `other`, or the gradient of one of these.

    Attributes:
        stride: the step of a window.
        found: the name of what is computed.
    """

    stride: int = 1
    found: str = "y"


@dataclass(frozen=True)
class Data:
    """The operands, a class for each row of x, and a gradient of y, zero where nobody asks for that of x."""

    x: Floats
    other: Floats
    ids: NDArray[np.int32]
    gradient: Floats

    @property
    def attended(self) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values, of which the last are others in another order."""
        return self.x, self.other, np.ascontiguousarray(self.other[:, ::-1])


def data_of(kernel: Kernel) -> Data:
    rng = np.random.default_rng(0)
    x, other = (rng.standard_normal(shape, np.float32) for shape in (kernel.x, kernel.other))
    gradient = (
        rng.standard_normal(kernel.y, np.float32) if kernel.backward else np.zeros(kernel.y, np.float32)
    )
    return Data(x, other, rng.integers(0, kernel.x[-1], len(x)).astype(np.int32), gradient)


def rows(block: str, sizes: Shape, backward: bool) -> Kernel:
    """A kernel over an array of such sizes."""
    forward, both, shape = MOVED[block]
    moved = (both if backward else forward) * math.prod(sizes)
    return Kernel(block, sizes, sizes, shape(sizes), moved=moved, backward=backward)


def product(spec: str, **sizes: int) -> Kernel:
    x, other, y = (tuple(sizes[axis] for axis in part) for part in re.split(",|->", spec))
    flops = 2 * math.prod(sizes.values())
    return Kernel("product", x, other, y, flops=flops, product=spec)


def gemm(first: str | None, second: str | None, *rest: str | None) -> Kernel:
    *sizes, precision = rest
    i, k, j = (int(size or 0) for size in sizes)
    left, right = "ki" if first == "t" else "ik", "jk" if second == "t" else "kj"
    return replace(product(f"{left},{right}->ij", i=i, k=k, j=j), precision=precision or "f32")


def convolution(backward: bool) -> Kernel:
    """LeNet's second one; its backward pass gives the gradient of the image alone."""
    flops = 2 * 64 * 14 * 14 * 16 * 5 * 5 * 6
    shapes = (64, 14, 14, 6), (16, 5, 5, 6), (64, 14, 14, 16)
    return Kernel("convolution", *shapes, flops=flops * (1 + backward), backward=backward)


def alone(name: str) -> Convolution | None:
    """The convolution of a name; None if there is none."""
    matched = CONV.fullmatch(name)
    if matched is None:
        return None
    size, inner, outer, window = (int(matched[group]) for group in (1, 2, 3, 4))
    stride = 2 if matched[5] else 1
    results = -(-size // stride)
    shapes = (BATCH, size, size, inner), (outer, window, window, inner), (BATCH, results, results, outer)
    flops = 2 * math.prod(shapes[2]) * window**2 * inner
    found = {None: "y", IMAGE: "x.grad", OF_KERNEL: "other.grad"}[matched[6]]
    is_gradient = matched[6] is not None
    return Convolution("convolution", *shapes, flops=flops, backward=is_gradient, stride=stride, found=found)


def attention(length: int, heads: int, features: int, precision: str, backward: bool) -> Kernel:
    """Causal: half of two products count, and of four more for gradients; not what is computed again."""
    shape = (EXAMPLES, length, heads, features)
    flops = 2 * EXAMPLES * heads * length**2 * features * (3 if backward else 1)
    return Kernel("attention", shape, shape, shape, flops=flops, backward=backward, precision=precision)


def same(sizes: Shape) -> Shape:
    return sizes


# Arrays that have to be moved: forward, and with backward; and the shape of y.
MOVED: dict[str, tuple[int, int, Callable[[Shape], Shape]]] = {
    "add": (3, 5, same),
    "gelu": (2, 5, same),
    "tanh": (2, 5, same),
    "softmax": (2, 5, same),
    "log_softmax": (2, 5, same),
    "layer_norm": (2, 5, same),
    "rms_norm": (2, 5, same),
    "batch_norm": (2, 5, same),
    "cross_entropy": (1, 2, lambda sizes: (1,)),
    "transpose": (2, 4, lambda sizes: sizes[::-1]),
    "remainder": (3, 5, same),
    "cumsum": (2, 4, same),
    "tril": (2, 4, same),
}
SIZES = [
    *(f"{n}x{n}x{n}" for n in (128, 256, 512, 1024, 2048)),
    *("128x128x17", "1024x1024x17", "1x256x256", "1x1024x1024", "1000x1000x8", "333x77x129"),
    *("4096x64x64", "64x64x4096", "64x4096x64", "1000x8x1000"),
]
# Attention of 16 x 4 heads, as it is in a model: the heads stand beside the features.
HEADS = {"b": 16, "h": 4, "i": 64, "j": 64, "d": 32}

OTHERS = {
    "attention_scores": product("bihd,bjhd->bhij", **HEADS),
    "attention_mix": product("bhij,bjhd->bihd", **HEADS),
    "convolution": convolution(False),
    "convolution_backward": convolution(True),
}
KERNEL_GROUPS = {
    "gemm": [f"gemm_{size}" for size in SIZES] + [f"gemm_{t}_512x512x512" for t in ("nt", "tn", "tt")],
    "rows": [f"{block}{suffix}" for block in MOVED for suffix in ("", BACKWARD)],
    "others": list(OTHERS),
}
# Squares: powers of two, beside them, primes, and evenly on a logarithmic scale; and odd shapes.
SQUARES = [
    *(n for power in (64, 128, 256, 512, 1024) for n in (power, power + 1)),
    *(2048, 67, 131, 251, 509, 1021, 1543, 2039),
    *(round(64 * 32 ** (step / 26)) for step in range(1, 26)),
]
ODD = ["1000x17x512", "2048x64x2048", "33x65x129", "1x768x3072"]
# The convolutions of ResNet-18 and -50 on images of 32 x 32: those of 3 x 3, and of 1 x 1.
STAGES = ((32, 64), (16, 128), (8, 256), (4, 512))
WINDOWS = [
    *(f"conv_{size}x{n}x{n}_3x3" for size, n in STAGES),
    *(f"conv_{2 * size}x{n // 2}x{n}_{k}x{k}_by2" for size, n in STAGES[1:] for k in (3, 1)),
    *(f"conv_{2 * size}x{n}x{n}_3x3_by2" for size, n in STAGES[1:]),
    *(f"conv_{size}x{n}x{m}_1x1" for size, c in STAGES for n, m in ((c, 4 * c), (4 * c, c))),
    *(f"conv_{2 * size}x{2 * n}x{n}_1x1" for size, n in STAGES[1:]),
    *(f"conv_{2 * size}x{2 * n}x{4 * n}_1x1_by2" for size, n in STAGES[1:]),
]
# Groups that are measured only where they are asked for.
MORE_GROUPS = {
    "sizes": [
        f"gemm{form}_{shape}{precision}"
        for precision in ("", "_f64")
        for form in ("", "_nt")
        for shape in [*(f"{n}x{n}x{n}" for n in sorted(set(SQUARES))), *ODD]
    ],
    "decoding": [f"gemm{form}_{rows}x768x3072" for form in ("", "_nt") for rows in (1, 2, 4, 8, 16)],
    "convolutions": [f"{name}{of}" for name in WINDOWS for of in ("", IMAGE, OF_KERNEL)],
    "gradients": [f"gemm_tn_{shape}" for shape in ("768x256x768", "3072x256x768", "768x256x3072")],
}


def kernel(name: str) -> Kernel:
    """The kernel of a name. Raises KeyError if there is none."""
    matched = GEMM.fullmatch(name)
    if matched is not None:
        return gemm(*matched.groups())
    if name in OTHERS:
        return OTHERS[name]
    convolution = alone(name)
    if convolution is not None:
        return convolution
    if matched := ATTENTION.fullmatch(name):
        length, heads, features = map(int, matched.groups()[:3])
        return attention(length, heads, features, matched[4] or "f32", matched[5] is not None)
    matched = ROWWISE.fullmatch(name)
    if matched is None:
        raise KeyError(name)
    block, *sizes, backward = matched.groups()
    return rows(block, tuple(map(int, sizes)) if sizes[0] else ROWS, bool(backward))


def views(
    kernel: Kernel, x: NDArray[AnyFloat], other: NDArray[AnyFloat]
) -> tuple[NDArray[AnyFloat], NDArray[AnyFloat], list[int]]:
    """The operands of a product as matrices, or batches of them; and how to transpose their product to y."""
    left, right, result = re.split(",|->", kernel.product)
    batch = [axis for axis in result if axis in left and axis in right]
    outer, inner = ([axis for axis in result if axis in own and axis not in batch] for own in (left, right))
    summed = [axis for axis in left if axis not in result]
    first, second = (
        array.transpose([own.index(axis) for axis in order])
        for array, own, order in ((x, left, batch + outer + summed), (other, right, batch + summed + inner))
    )
    found = batch + outer + inner
    return first, second, [found.index(axis) for axis in result]
