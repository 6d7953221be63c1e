"""Operations on arrays whose axes are all output axes, by the names that TorchLean has for them.

Sources: TorchLean, `Runtime.Autograd.Torch`; each is compared with PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.derivatives import stop_gradient, vjp
from ocannl.program.leaves import data
from ocannl.program.tensor import Tensor, TensorLike, pointwise
from ocannl.program.tensor_functions.einsums import concat, einmax, einsum
from ocannl.program.tensor_functions.encoding import one_hot

Operation = Callable[..., Tensor]
Unary = Callable[[TensorLike], Tensor]
Binary = Callable[[TensorLike, TensorLike], Tensor]
Windows = int | Sequence[int]

LAYER_EPSILON = 1e-5


def names(count: int, letter: str = "n") -> list[str]:
    return [f"{letter}{k}" for k in range(count)]


def slot(axes: Sequence[str]) -> str:
    """Axes of long names, which commas tell."""
    return "".join(f"{axis}, " for axis in axes) or " "


def array(values: Any) -> Tensor:
    """Data whose axes are all output axes."""
    contents = np.asarray(values)
    return data(contents, axes="o" * contents.ndim)


def shape_of(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape)


def permute(x: Tensor, order: Sequence[int]) -> Tensor:
    axes = names(x.ndim)
    return einsum(f"{slot(axes)} => {slot([axes[at] for at in order])}", x)


def swap_adjacent_at_depth(x: Tensor, depth: int) -> Tensor:
    order = [*range(x.ndim)]
    order[depth], order[depth + 1] = order[depth + 1], order[depth]
    return permute(x, order)


def flatten(x: Tensor) -> Tensor:
    return reshape(x, [math.prod(shape_of(x))])


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    sizes = [int(size) for size in shape]
    if math.prod(sizes) != math.prod(shape_of(x)):
        raise ArgumentError(f"an array of shape {shape_of(x)} has no shape {tuple(sizes)}")
    before, after = names(x.ndim, "a"), names(len(sizes), "b")
    flat = x if len(before) == 1 else einsum(f"{slot(before)} => {'&'.join(before) or '0'}", x)
    if not after:
        return einsum("0 => ", flat)
    if len(after) == 1:
        return flat
    dims: dict[str, Any] = dict(zip(after, sizes, strict=True))
    return einsum(f"{'&'.join(after)} => {slot(after)}", flat, **dims)


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    return pointwise("fst", x, array(np.zeros(tuple(shape), np.float32)))


def reduced(x: Tensor, axis: int, mean: bool) -> Tensor:
    axes = names(x.ndim)
    kept = [name for at, name in enumerate(axes) if at != axis % x.ndim]
    total = einsum(f"{slot(axes)} => {slot(kept)}", x)
    return total / shape_of(x)[axis] if mean else total


def total(x: Tensor) -> Tensor:
    return einsum(f"{slot(names(x.ndim))} => ", x)


def largest(x: Tensor) -> Tensor:
    """The maxima along the last axis, as constants."""
    axes = names(x.ndim)
    return stop_gradient(einmax(f"{slot(axes)} => {slot([*axes[:-1], '0'])}", x))


def along_last(x: Tensor) -> Tensor:
    axes = names(x.ndim)
    return einsum(f"{slot(axes)} => {slot([*axes[:-1], '0'])}", x)


def softmax(x: Tensor) -> Tensor:
    powers = pointwise("exp", x - largest(x))
    return powers / along_last(powers)


def log_softmax(x: Tensor, epsilon: float = 0.0) -> Tensor:
    del epsilon  # TorchLean keeps it for its callers, and ignores it
    shifted = x - largest(x)
    return shifted - pointwise("log", along_last(pointwise("exp", shifted)))


def softplus(x: Tensor) -> Tensor:
    return pointwise("max", x, 0.0) + pointwise("log", 1 + pointwise("exp", -abs(x)))


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + pointwise("tanh", math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gathered(x: Tensor, ids: Any) -> Tensor:
    """The elements at ids along the first axis; an id that is not a position gives zeros."""
    chosen = one_hot(_ids(ids), shape_of(x)[0])
    picked, axes = names(chosen.ndim - 1, "k"), names(x.ndim)
    of_ids = f"{slot(picked)} | {slot(axes[:1])}" if picked else slot(axes[:1])
    return einsum(f"{of_ids}; {slot(axes)} => {slot([*picked, *axes[1:]])}", chosen, x)


def _ids(ids: Any) -> Tensor:
    if isinstance(ids, Tensor):
        return ids
    contents = np.asarray(ids, np.int32)
    return data(contents, axes="b" * contents.ndim)


def scatter_add(x: Tensor, at: Any, value: Tensor) -> Tensor:
    chosen = one_hot(_ids(at), shape_of(x)[0])
    axes = names(x.ndim)
    return x + einsum(f"{axes[0]}; {slot(axes[1:])} => {slot(axes)}", chosen, value)


def concatenated(a: Tensor, b: Tensor) -> Tensor:
    rest = names(a.ndim - 1)
    return concat(f"{slot(['a', *rest])}; {slot(['b', *rest])} => {slot(['a^b', *rest])}", a, b)


def linear(w: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return einsum("o, i; i => o", w, x) + b


def mse_loss(x: Tensor, target: Tensor) -> Tensor:
    return total((x - target) ** 2) / math.prod(shape_of(x))


def normalized(x: Tensor, spec: str, count: int, epsilon: float) -> Tensor:
    centred = x - einsum(spec, x) / count
    return centred * pointwise("recip_sqrt", einsum(spec, centred * centred) / count + epsilon)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = LAYER_EPSILON) -> Tensor:
    return normalized(x, "n, d => n, 0", shape_of(x)[-1], epsilon) * gamma + beta


def batchnorm_channel_first(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = LAYER_EPSILON) -> Tensor:
    axes = names(x.ndim - 1)
    kept = slot(["c", *["0"] * len(axes)])
    found = normalized(x, f"{slot(['c', *axes])} => {kept}", math.prod(shape_of(x)[1:]), epsilon)
    return found * einsum(f"c => {kept}", gamma) + einsum(f"c => {kept}", beta)


def multi_head_attention(
    num_heads: int, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor, x: Tensor, mask: Any = None
) -> Tensor:
    """Self-attention of `x`, positions times features; the mask is true where attention is allowed."""
    width = shape_of(wq)[1] // num_heads

    def heads(w: Tensor) -> Tensor:
        projected = einsum("n, d; d, e => n, e", x, w)
        return einsum("n, h&k => h, n, k", projected, h=num_heads, k=width)

    scores = einsum("h, n, k; h, m, k => h, n, m", heads(wq), heads(wk)) / math.sqrt(width)
    if mask is not None:
        allowed = mask if isinstance(mask, Tensor) else array(np.asarray(mask, np.float32))
        scores = pointwise("where", allowed, scores, -math.inf)
    mixed = einsum("h, n, m; h, m, k => n, h&k", softmax(scores), heads(wv))
    return einsum("n, e; e, d => n, d", mixed, wo)


# Windows.


def several(value: Windows, count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else [*value]


def padded(x: Tensor, padding: Sequence[int], value: float) -> Tensor:
    """The spatial axes with as many elements of a value at both ends."""
    for at, amount in enumerate(padding, 1):
        if amount:
            shape = [*shape_of(x)]
            shape[at] = amount
            border = array(np.full(shape, value, np.float32))
            axes = names(x.ndim)
            parts = [slot([*axes[:at], part, *axes[at + 1 :]]) for part in ("p", "q", "r")]
            joined = slot([*axes[:at], "p^q^r", *axes[at + 1 :]])
            x = concat(f"{'; '.join(parts)} => {joined}", border, x, border)
    return x


def trimmed(x: Tensor, kernel: Sequence[int], stride: Sequence[int]) -> Tensor:
    """The spatial axes without elements at the end that no window reads."""
    sizes = zip(shape_of(x)[1:], kernel, stride, strict=True)
    used = [(size - k) // s * s + k for size, k, s in sizes]
    return x if used == [*shape_of(x)[1:]] else x[(slice(None), *(slice(0, size) for size in used))]


def windows(stride: Sequence[int]) -> tuple[list[str], list[str], list[str]]:
    """The axes of an input, of a result and of a window."""
    out, inside = names(len(stride), "o"), names(len(stride), "k")
    return [f"{s}*{o} + {k}" for s, o, k in zip(stride, out, inside, strict=True)], out, inside


def pooled(
    x: Tensor, kernel: Windows, stride: Windows, padding: Windows, fill: float, reduce: Operation
) -> Tensor:
    count = x.ndim - 1
    sizes, steps = several(kernel, count), several(stride, count)
    read, out, inside = windows(steps)
    spec = f"{slot(['c', *read])} => {slot(['c', *out])}"
    read_from = trimmed(padded(x, several(padding, count), fill), sizes, steps)
    return reduce(spec, read_from, **dict(zip(inside, sizes, strict=True)))


def max_pool(x: Tensor, kernel: Windows, stride: Windows, padding: Windows = 0) -> Tensor:
    return pooled(x, kernel, stride, padding, -math.inf, einmax)


def avg_pool(x: Tensor, kernel: Windows, stride: Windows, padding: Windows = 0) -> Tensor:
    """Zeros of the padding count."""
    return pooled(x, kernel, stride, padding, 0.0, einsum) / math.prod(several(kernel, x.ndim - 1))


def smooth_max_pool(
    x: Tensor, kernel: Windows, stride: Windows, beta: float = 1.0, padding: Windows = 0
) -> Tensor:
    """`log(sum(exp(beta * x))) / beta` of each window."""
    top = stop_gradient(einmax(f"{slot(names(x.ndim))} => {slot(['0'] * x.ndim)}", x))
    powers = pointwise("exp", beta * (x - top))
    sums = pooled(powers, kernel, stride, padding, 0.0, einsum)
    return pointwise("log", sums) / beta + top


def global_avg_pool2d(x: Tensor) -> Tensor:
    spec = "c, h, w => c" if x.ndim == 3 else "n, c, h, w => n, c"
    return einsum(spec, x) / math.prod(shape_of(x)[-2:])


def conv(kernel: Tensor, bias: Tensor, x: Tensor, stride: Windows = 1, padding: Windows = 0) -> Tensor:
    """Cross-correlation: output channels, input channels, window; input channels, spatial axes."""
    count = x.ndim - 1
    read, out, inside = windows(several(stride, count))
    spec = f"{slot(['f', 'c', *inside])}; {slot(['c', *read])} => {slot(['f', *out])}"
    read_from = trimmed(padded(x, several(padding, count), 0.0), shape_of(kernel)[2:], several(stride, count))
    found = einsum(spec, kernel, read_from)
    return found + einsum(f"f => {slot(['f', *['0'] * count])}", bias)


def conv_transpose(
    kernel: Tensor, bias: Tensor, x: Tensor, stride: Windows = 1, padding: Windows = 0
) -> Tensor:
    """The transpose of `conv` with the same window: input channels, output channels, window."""
    count = x.ndim - 1
    steps, borders = several(stride, count), several(padding, count)
    sizes = zip(shape_of(x)[1:], shape_of(kernel)[2:], steps, borders, strict=True)
    shape = shape_of(kernel)[1], *[(n - 1) * s - 2 * p + k for n, k, s, p in sizes]
    place = array(np.zeros(shape, x.dtype))
    none = array(np.zeros(shape_of(kernel)[0], x.dtype))
    found = vjp(conv(kernel, none, place, steps, borders), place, x)
    return found + einsum(f"f => {slot(['f', *['0'] * count])}", bias)


def slice_range0(x: Tensor, start: int, length: int) -> Tensor:
    return x[start : start + length]


def clamp(x: Tensor, low: TensorLike, high: TensorLike) -> Tensor:
    return pointwise("min", pointwise("max", x, low), high)


def safe_log(x: Tensor, epsilon: TensorLike) -> Tensor:
    return pointwise("log", pointwise("max", x, epsilon))


def silu(x: Tensor) -> Tensor:
    return x * pointwise("sigmoid", x)


def unary(op: str) -> Unary:
    return lambda x: pointwise(op, x)


def binary(op: str) -> Binary:
    return lambda a, b: pointwise(op, a, b)


def product(spec: str) -> Binary:
    return lambda a, b: einsum(spec, a, b)


def permuted(*order: int) -> Callable[[Tensor], Tensor]:
    return lambda x: permute(x, order)


OPERATIONS: dict[str, Operation] = {
    **{op: binary(op) for op in ("add", "sub", "mul", "max", "min")},
    **{op: unary(op) for op in ("abs", "sqrt", "relu", "sigmoid", "tanh", "exp", "log")},
    "scale": binary("mul"),
    "clamp": clamp,
    "inv": unary("recip"),
    "safe_log": safe_log,
    "softplus": softplus,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "silu": silu,
    "gelu": gelu,
    "detach": stop_gradient,
    "sum": total,
    "flatten": flatten,
    "reshape": reshape,
    "transpose2d": permuted(1, 0),
    "transpose3d_first_to_last": permuted(1, 2, 0),
    "transpose3d_last_to_first": permuted(2, 0, 1),
    "transpose3d_last_two": permuted(0, 2, 1),
    "swap_adjacent_at_depth": swap_adjacent_at_depth,
    "broadcast_to": broadcast_to,
    "reduce_sum": partial(reduced, mean=False),
    "reduce_mean": partial(reduced, mean=True),
    **dict.fromkeys(("gather_scalar", "gather_scalar_nat", "gather_row", "gather_row_nat"), gathered),
    **dict.fromkeys(("gather_vec_nat", "gather_rows_nat"), gathered),
    **dict.fromkeys(("scatter_add_vec", "scatter_add_row"), scatter_add),
    "matmul": product("i, j; j, k => i, k"),
    "bmm": product("n, i, j; n, j, k => n, i, k"),
    **dict.fromkeys(("concat_vectors", "concat_dim0"), concatenated),
    "slice_range0": slice_range0,
    **dict.fromkeys(("max_pool", "max_pool2d", "max_pool2d_pad"), max_pool),
    **dict.fromkeys(("avg_pool", "avg_pool2d", "avg_pool2d_pad"), avg_pool),
    **dict.fromkeys(("smooth_max_pool", "smooth_max_pool2d"), smooth_max_pool),
    "global_avg_pool2d": global_avg_pool2d,
    "linear": linear,
    "mse_loss": mse_loss,
    "layer_norm": layer_norm,
    "batchnorm_channel_first": batchnorm_channel_first,
    "multi_head_attention": multi_head_attention,
    **dict.fromkeys(("conv", "conv2d"), conv),
    **dict.fromkeys(("conv_transpose", "conv_transpose2d"), conv_transpose),
}
"""All operations, by name."""
