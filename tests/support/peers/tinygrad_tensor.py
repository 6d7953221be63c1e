"""tinygrad's `Tensor`, its methods said in OCANNL, for its tests of operators.

A tensor has its last axis in the output row, and the others in the batch row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

from . import numpy_specs

NOT_SAID = {
    "masked_select nonzero": "shapes that depend on values",
    "bitcast": "the bits of floats",
    "scatter scatter_reduce": "the last of several writes at one place",
    "conv_transpose2d": "its weights are parameters of nn.conv_transpose2d",
    "max_unpool2d": "positions inside of windows",
    "scaled_dot_product_attention": "a block, nn.multi_head_attention",
    "diag diagonal": "an einsum, `i|i => i`",
    "empty rand uniform normal scaled_uniform glorot_uniform kaiming_uniform kaiming_normal": (
        "random numbers are of another API"
    ),
    "backward": "gradients that are kept, of loss.backward() in eager mode",
    "binary_crossentropy binary_crossentropy_logits": "the loss of nn is a sum over the output row",
}
REASONS = {name: reason for names, reason in NOT_SAID.items() for name in names.split()}
RENAMED = {
    "rsqrt": "recip_sqrt",
    "reciprocal": "recip",
    "mul": "mul",
    "bitwise_not": "bitwise_not",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
OF_NN = {
    "gelu": "gelu",
    "silu": "silu",
    "swish": "silu",
    "mish": "mish",
    "relu6": "relu6",
    "elu": "elu",
    "selu": "selu",
    "hardswish": "hardswish",
    "leaky_relu": "leaky_relu",
}
Axes = int | Sequence[int] | None


def raw(value: Any) -> Any:
    """With OCANNL's tensors in place of those here."""
    if isinstance(value, Tensor):
        return value.t
    if isinstance(value, tuple | list):
        return type(value)(map(raw, value))
    return value


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*operands: Any, **settings: Any) -> Any:
        found = function(*map(raw, operands), **{name: raw(value) for name, value in settings.items()})
        return tuple(map(Tensor, found)) if isinstance(found, tuple) else Tensor(found)

    return call


class Named(type):
    """Names that the class lacks are OCANNL's pointwise functions, and else skip the test with a reason."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in OF_NN:
            return lifted(getattr(nn, OF_NN[name]))
        ours = getattr(oc, RENAMED.get(name, name), None)
        if ours is None or name in REASONS:
            pytest.skip(REASONS.get(name, f"there is no {name}"))
        return lifted(ours)


def operator(name: str) -> Any:
    def method(self: Tensor, *other: Any) -> Tensor:
        return Tensor(getattr(self.t, name)(*map(raw, other)))

    return method


def operators(name: str) -> tuple[Any, Any]:
    """An operator, and with the other operand first."""
    return operator(f"__{name}__"), operator(f"__r{name}__")


class Tensor(metaclass=Named):
    __add__, __radd__ = operators("add")
    __sub__, __rsub__ = operators("sub")
    __mul__, __rmul__ = operators("mul")
    __truediv__, __rtruediv__ = operators("truediv")
    __floordiv__, __rfloordiv__ = operators("floordiv")
    __mod__, __rmod__ = operators("mod")
    __pow__, __rpow__ = operators("pow")
    __lshift__, __rlshift__ = operators("lshift")
    __rshift__, __rrshift__ = operators("rshift")
    __and__, __rand__ = operators("and")
    __or__, __ror__ = operators("or")
    __xor__, __rxor__ = operators("xor")
    __lt__, __le__, __gt__, __ge__ = map(operator, ("__lt__", "__le__", "__gt__", "__ge__"))
    __neg__, __invert__ = operator("__neg__"), operator("__invert__")

    def __init__(self, data: Any, dtype: Any = None) -> None:
        if np.dtype(dtype) == np.uint64 or getattr(data, "dtype", None) == np.uint64:
            pytest.skip("no target stores integers of 64 bits without a sign")
        self.t: oc.Tensor = data if isinstance(data, oc.Tensor) else oc.tensor(raw(data), dtype)

    def __getattr__(self, name: str) -> Any:
        function = getattr(type(self), name)
        return lambda *operands, **settings: function(self, *operands, **settings)

    # Values.

    def numpy(self) -> Any:
        return np.asarray(self.t.numpy())

    def item(self) -> Any:
        return self.t.item()

    def realize(self, *others: Tensor) -> Tensor:
        return self

    clone = contiguous = realize

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.t.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return np.dtype(self.t.dtype)

    def gradient(self, *inputs: Tensor) -> list[Tensor]:
        return list(map(Tensor, oc.grad(self.t, [x.t for x in inputs])))

    def detach(self) -> Tensor:
        return Tensor(oc.stop_gradient(self.t))

    # Types.

    def cast(self, dtype: Any) -> Tensor:
        return Tensor(oc.cast(self.t, np.dtype(dtype)))

    def int(self) -> Tensor:
        return self.cast(np.int32)

    def float(self) -> Tensor:
        return self.cast(np.float32)

    def half(self) -> Tensor:
        return self.cast(np.float16)

    def bool(self) -> Tensor:
        return self.cast(np.bool_)

    # Creation.

    @staticmethod
    def full(shape: Any, value: Any, dtype: Any = None) -> Tensor:
        return Tensor(oc.full(shape, value, dtype or oc.tensor(value).dtype))

    @staticmethod
    def arange(first: Any, second: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
        start, stop = (0, first) if second is None else (first, second)
        if isinstance(step + start + stop, int):
            ends = [start, start + max(-(-(stop - start) // step) - 1, 0) * step]
            dtype = dtype or (np.int32 if np.can_cast(np.min_scalar_type(max(ends)), np.int32) else np.int64)
            np.array(ends, dtype)
        return Tensor(oc.arange(start, stop, step, dtype or np.float32))

    @staticmethod
    def zeros(*shape: Any, dtype: Any = np.float32) -> Tensor:
        return Tensor(oc.zeros(sizes(shape), dtype))

    @staticmethod
    def ones(*shape: Any, dtype: Any = np.float32) -> Tensor:
        return Tensor(oc.ones(sizes(shape), dtype))

    @staticmethod
    def randn(*shape: Any) -> Tensor:
        return Tensor(np.random.randn(*sizes(shape)).astype(np.float32))

    @staticmethod
    def randint(*shape: Any, low: int = 0, high: int = 10) -> Tensor:
        return Tensor(np.random.randint(low, high, sizes(shape), np.int32))

    def full_like(self, value: Any) -> Tensor:
        return Tensor(oc.full(self.shape, value, self.dtype))

    def zeros_like(self) -> Tensor:
        return self.full_like(0)

    def ones_like(self) -> Tensor:
        return self.full_like(1)

    # Pointwise.

    def where(self, a: Any, b: Any) -> Tensor:
        return Tensor(oc.where(self.t, raw(a), raw(b)))

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        return mask.where(value, self)

    def isfinite(self) -> Tensor:
        return Tensor(oc.isfinite(self.t))

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Tensor:
        above, below = Tensor(oc.eq(self.t, math.inf)), Tensor(oc.eq(self.t, -math.inf))
        return (
            Tensor(oc.isinf(self.t))
            if detect_positive == detect_negative
            else (above if detect_positive else below)
        )

    def div(self, other: Any, rounding_mode: str | None = None) -> Tensor:
        if rounding_mode not in (None, "trunc", "floor"):
            raise RuntimeError(rounding_mode)
        if rounding_mode == "floor":
            return self // other
        quotient = self / other
        return quotient if rounding_mode is None else (self - self.fmod(other)) // other

    def fmod(self, other: Any) -> Tensor:
        return Tensor(oc.fmod(self.t, raw(other)))

    def lerp(self, end: Any, weight: Any) -> Tensor:
        return self + (end - self) * weight

    def clip(self, low: Any = None, high: Any = None) -> Tensor:
        return Tensor(oc.clip(self.t, raw(low), raw(high)))

    clamp = clip

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        a, b = self.t, raw(other)
        near = oc.isfinite(a) & oc.isfinite(b) & (oc.abs(a - b) <= atol + rtol * oc.abs(b)) | oc.eq(a, b)
        return Tensor(near | oc.isnan(a) & oc.isnan(b) if equal_nan else near)

    def softplus(self, beta: float = 1.0) -> Tensor:
        return Tensor(nn.softplus(self.t * beta) / beta)

    def celu(self, alpha: float = 1.0) -> Tensor:
        return Tensor(nn.elu(self.t / alpha) * alpha)

    def quick_gelu(self) -> Tensor:
        return self * (self * 1.702).sigmoid()

    def logsigmoid(self) -> Tensor:
        return Tensor(-nn.softplus(-self.t))

    def softsign(self) -> Tensor:
        return self / (1 + self.abs())

    def hardtanh(self, low: float = -1, high: float = 1) -> Tensor:
        return self.clip(low, high)

    def hardsigmoid(self) -> Tensor:
        return Tensor(oc.clip(self.t / 6 + 0.5, 0.0, 1.0))

    # Reductions.

    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        summed = self.t if dtype is None else oc.cast(self.t, np.dtype(dtype))
        return Tensor(summed.sum(axis if self.ndim or axis not in (0, -1) else None, keepdim))

    def prod(self, axis: Axes = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        multiplied = self.t if dtype is None else oc.cast(self.t, np.dtype(dtype))
        return Tensor(multiplied.prod(axis if self.ndim or axis not in (0, -1) else None, keepdim))

    def mean(self, axis: Axes = None, keepdim: bool = False) -> Tensor:
        return Tensor(self.t.mean(axis, keepdim))

    def max(self, axis: Axes = None, keepdim: bool = False) -> Tensor:
        return Tensor(self.t.max(axis, keepdim))

    def min(self, axis: Axes = None, keepdim: bool = False) -> Tensor:
        return Tensor(self.t.min(axis, keepdim))

    def any(self, axis: Axes = None, keepdim: bool = False) -> Tensor:
        return Tensor(self.t.any(axis, keepdim))

    def all(self, axis: Axes = None, keepdim: bool = False) -> Tensor:
        return Tensor(self.t.all(axis, keepdim))

    def argmax(self, axis: Axes = None, keepdim: bool = False) -> Tensor:
        return Tensor(self.t.argmax(axis, keepdim))

    def argmin(self, axis: Axes = None, keepdim: bool = False) -> Tensor:
        return Tensor(self.t.argmin(axis, keepdim))

    def var(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Tensor:
        return Tensor(self.t.var(axis, keepdim, ddof=correction))

    def std(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Tensor:
        return Tensor(self.t.std(axis, keepdim, ddof=correction))

    def std_mean(self, axis: Axes = None, keepdim: bool = False, correction: int = 1) -> Any:
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Tensor:
        if not self.ndim:
            return self
        return Tensor(oc.logsumexp(self.t, axis, keepdim))

    def log_softmax(self, axis: int = -1) -> Tensor:
        return self - self.logsumexp(axis, True)

    def softmax(self, axis: int = -1) -> Tensor:
        return self.log_softmax(axis).exp()

    def softmin(self, axis: int = -1) -> Tensor:
        return (-self).softmax(axis)

    def normalize(self, p: float = 2, dim: int = 1) -> Tensor:
        return self / Tensor(oc.norm(self.t, dim, ord=p, keep=True)).maximum(1e-12)

    # Along an axis.

    def sort(self, dim: int = -1, descending: bool = False) -> Any:
        ids = self.argsort(dim, descending)
        return Tensor(oc.sort(self.t, dim, descending=descending)), ids

    def argsort(self, dim: int = -1, descending: bool = False) -> Tensor:
        return Tensor(oc.argsort(self.t, dim, descending=descending))

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True) -> Any:
        if not largest:
            values, ids = self.sort(dim)
            part = (slice(None),) * (dim % self.ndim) + (slice(k),)
            return values[part], ids[part]
        return tuple(map(Tensor, oc.topk(self.t, k, dim)))

    def cumsum(self, axis: int = 0) -> Tensor:
        return self._along(oc.cumsum, axis)

    def cumprod(self, axis: int = 0) -> Tensor:
        return self._along(oc.cumprod, axis)

    def cummax(self, axis: int = 0) -> Any:
        return Running(self._along(oc.cummax, axis))

    def cummin(self, axis: int = 0) -> Any:
        return Running(self._along(oc.cummin, axis))

    def _along(self, function: Callable[..., oc.Tensor], axis: int) -> Tensor:
        """A number counts as an axis of one."""
        if not self.ndim and axis in (0, -1):
            return self
        return Tensor(function(self.t, axis))

    def flip(self, axis: Any) -> Tensor:
        axes = [axis] if isinstance(axis, int) else list(axis)
        if len({a % self.ndim for a in axes}) < len(axes):
            raise RuntimeError("an axis twice")
        found = self.t
        for each in axes:
            found = oc.flip(found, each)
        return Tensor(found)

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        if dims is None:
            if not isinstance(shifts, int) and len(shifts) > 1:
                raise RuntimeError("shifts without axes")
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        pairs = zip(as_list(shifts), as_list(dims), strict=True)
        found = self.t
        for shift, dim in pairs:
            found = oc.roll(found, shift, dim)
        return Tensor(found)

    def tril(self, diagonal: int = 0) -> Tensor:
        return Tensor(oc.tril(self.t, diagonal))

    def triu(self, diagonal: int = 0) -> Tensor:
        return Tensor(oc.triu(self.t, diagonal))

    # Shapes.

    def reshape(self, *shape: Any) -> Tensor:
        return Tensor(self.t.reshape([self.shape[k] if n is None else n for k, n in enumerate(sizes(shape))]))

    view = reshape

    def permute(self, *order: Any) -> Tensor:
        names = [f"a{k}" for k in range(self.ndim)]
        right = [names[k] for k in sizes(order)]
        return Tensor(oc.rearrange(self.t, f"{' '.join(names)} -> {' '.join(right)}"))

    def transpose(self, a: int = 1, b: int = 0) -> Tensor:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    @property
    def T(self) -> Tensor:
        return self.transpose()

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        shape, end = self.shape, end_dim % max(self.ndim, 1) + 1
        start = start_dim % max(self.ndim, 1)
        return self.reshape(*shape[:start], math.prod(shape[start:end]), *shape[end:])

    def unflatten(self, dim: int, lengths: Sequence[int]) -> Tensor:
        dim %= self.ndim
        return self.reshape(*self.shape[:dim], *lengths, *self.shape[dim + 1 :])

    def squeeze(self, dim: int | None = None) -> Tensor:
        if dim is not None and not -max(self.ndim, 1) <= dim < max(self.ndim, 1):
            raise IndexError(dim)
        gone = range(self.ndim) if dim is None else [dim % max(self.ndim, 1)]
        return self.reshape([n for k, n in enumerate(self.shape) if k not in gone or n != 1])

    def unsqueeze(self, dim: int) -> Tensor:
        at = dim % (self.ndim + 1)
        return self.reshape(*self.shape[:at], 1, *self.shape[at:])

    def expand(self, *shape: Any) -> Tensor:
        wanted = sizes(shape)
        own = (1,) * (len(wanted) - self.ndim) + self.shape
        names = [f"a{k}" for k in range(len(wanted))]
        left = [n for n, size in zip(names, own, strict=True) if size != 1]
        kept = {n: w for n, w, size in zip(names, wanted, own, strict=True) if size == 1}
        if any(w not in (-1, size) for w, size in zip(wanted, own, strict=True) if size != 1):
            raise RuntimeError("no such expansion")
        return Tensor(
            oc.repeat(self.squeeze().t, f"{' '.join(left)} -> {' '.join(names)}", axes=None, **kept)
        )

    def repeat(self, *repeats: Any) -> Tensor:
        times = sizes(repeats)
        if len(times) < self.ndim:
            raise ValueError("a number of repeats for each axis")
        x = self.reshape(*(1,) * (len(times) - self.ndim), *self.shape)
        names = [f"a{k}" for k in range(x.ndim)]
        right = [f"(r{k} a{k})" for k in range(x.ndim)]
        given = {f"r{k}": n for k, n in enumerate([1] * (x.ndim - len(times)) + times)}
        return Tensor(oc.repeat(x.t, f"{' '.join(names)} -> {' '.join(right)}", axes=None, **given))

    def repeat_interleave(self, times: int, dim: int | None = None) -> Tensor:
        x = self.flatten() if dim is None else self
        names = [f"a{k}" for k in range(x.ndim)]
        right = [*names]
        right[dim or 0] = f"({right[dim or 0]} r)"
        return Tensor(oc.repeat(x.t, f"{' '.join(names)} -> {' '.join(right)}", r=times))

    def cat(self, *others: Any, dim: int = 0) -> Tensor:
        parts = [self, *others]
        names = [f"a{k}" for k in range(self.ndim)]
        dim = range(self.ndim)[dim]
        each = [[f"p{n}" if k == dim else name for k, name in enumerate(names)] for n in range(len(parts))]
        names[dim] = "^".join(f"p{n}" for n in range(len(parts)))
        spec = f"{'; '.join(map(slot, each))} => {slot(names)}"
        return Tensor(oc.concat(spec, *map(raw, parts)))

    @staticmethod
    def stack(*parts: Any, dim: int = 0) -> Tensor:
        if isinstance(parts[0], tuple | list):
            parts = tuple(parts[0])
        each = [part.unsqueeze(range(part.ndim + 1)[dim]) for part in parts]
        return each[0].cat(*each[1:], dim=dim)

    def split(self, lengths: Any, dim: int = 0) -> list[Tensor]:
        size = self.shape[dim]
        if isinstance(lengths, int):
            lengths = [min(lengths, size - at) for at in range(0, size, lengths)]
        ends = np.cumsum(lengths)
        at = (slice(None),) * (dim % self.ndim)
        return [self[(*at, slice(e - n, e))] for e, n in zip(ends.tolist(), lengths, strict=True)]

    def chunk(self, count: int, dim: int = 0) -> list[Tensor]:
        return self.split(math.ceil(self.shape[dim] / count), dim)

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self.t[raw(key)])

    def pad(self, padding: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
        if not any(isinstance(p, tuple) or p is None for p in padding):
            if len(padding) % 2 or len(padding) > 2 * self.ndim:
                raise ValueError("uneven")
            padding = [*zip(padding[::2], padding[1::2], strict=True)][::-1]
            padding = [(0, 0)] * (self.ndim - len(padding)) + padding
        if len(padding) != self.ndim:
            raise ValueError("one pair an axis")
        amounts = [p or (0, 0) for p in padding]
        if mode not in ("constant", "reflect", "replicate", "circular"):
            raise NotImplementedError(mode)
        block = nn.pad(amounts, mode="zeros" if mode == "constant" else mode)
        found = Tensor(block(self.unsqueeze(-1).t)).squeeze(-1)
        if value == 0.0:
            return found
        inside = Tensor(nn.pad(amounts)(self.ones_like().unsqueeze(-1).t)).squeeze(-1)
        return Tensor(oc.where(inside.t, found.t, value))

    # Products.

    @staticmethod
    def einsum(text: str, *operands: Any) -> Tensor:
        if isinstance(operands[0], list | tuple):
            operands = tuple(operands[0])
        shapes = [x.shape for x in operands]
        slots, right = numpy_specs.split(text, shapes)
        parts: list[Any] = []
        for each, x, gone in zip(slots, operands, numpy_specs.ones(slots, shapes), strict=True):
            parts.append(x.t[tuple(0 if k in gone else slice(None) for k in range(x.ndim))] if gone else x.t)
            slots[len(parts) - 1] = slot([*numpy_specs.without(each, gone)], ",")
        return Tensor(oc.einsum(f"{'; '.join(slots)} => {slot([*right])}", *parts))

    def matmul(self, other: Tensor) -> Tensor:
        if not self.ndim or not other.ndim:
            raise RuntimeError("a matrix product of numbers")
        left = "...ij" if self.ndim > 1 else "j"
        right = "...jk" if other.ndim > 1 else "j"
        result = "..." * ("." in left + right) + "i" * (self.ndim > 1) + "k" * (other.ndim > 1)
        if self.shape[-1] != other.shape[-2 if other.ndim > 1 else -1]:
            raise RuntimeError("sizes differ")
        return Tensor.einsum(f"{left},{right}->{result}", self, other)

    dot = __matmul__ = matmul

    def conv2d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        groups: int = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
    ) -> Tensor:
        rank = weight.ndim - 2
        pads = as_list(padding)
        if len(pads) == 2 * rank:
            pairs = [*zip(pads[::2], pads[1::2], strict=True)][::-1]
        else:
            pairs = [(p, p) for p in (pads * rank if len(pads) == 1 else pads)]
        if len(pairs) != rank:
            raise ValueError("padding")
        x = self.pad([(0, 0), (0, 0), *pairs]).t
        steps, holes = (as_list(v) * (rank if len(as_list(v)) == 1 else 1) for v in (stride, dilation))
        at = ", ".join(f"{s}*y{k} <+ {d}*k{k}" for k, (s, d) in enumerate(zip(steps, holes, strict=True)))
        ys, ks = (", ".join(f"{c}{k}" for k in range(rank)) for c in "yk")
        x = oc.rearrange(x, "b (g c) ... -> b g c ...", g=groups, axes="b" * (rank + 3))
        w = oc.rearrange(weight.t, "(g o) c ... -> g o c ...", g=groups, axes="b" * (rank + 3))
        spec = f"b, g, c, {at} |; g, o, c, {ks} | => b, g, o, {ys} |"
        found = Tensor(oc.rearrange(oc.einsum(spec, x, w), "b g o ... -> b (g o) ..."))
        return found if bias is None else found + bias.reshape(-1, *(1,) * rank)

    # Windows of images: channels come last in `nn`.

    def _image(self, block: Any) -> Tensor:
        last = oc.rearrange(self.t, "... c h w -> ... h w c")
        return Tensor(oc.rearrange(block(last), "... h w c -> ... c h w"))

    def max_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        dilation: Any = 1,
        padding: Any = 0,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor:
        if return_indices:
            pytest.skip(REASONS["max_unpool2d"])
        settings = windows(kernel_size, stride, padding, ceil_mode)
        return self._image(nn.max_pool2d(dilation=dilation, **settings))

    def avg_pool2d(
        self,
        kernel_size: Any = (2, 2),
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:
        settings = windows(kernel_size, stride, padding, ceil_mode)
        if len(as_list(kernel_size)) != 2 and not isinstance(kernel_size, int):
            pytest.skip("images of three dimensions are another block")
        return self._image(nn.avg_pool2d(count_include_pad=count_include_pad, **settings))

    def interpolate(self, size: Any, mode: str = "linear", align_corners: bool = False) -> Tensor:
        if self.dtype.kind in "iu" or mode == "nearest-exact":
            pytest.skip(f"interpolation of {self.dtype} by {mode}")
        block = nn.interpolate(size=size, mode=mode, align_corners=align_corners)
        axes = [f"a{k}" for k in range(len(size))]
        last = oc.rearrange(self.t, f"b c {' '.join(axes)} -> b {' '.join(axes)} c")
        return Tensor(oc.rearrange(block(last), f"b {' '.join(axes)} c -> b c {' '.join(axes)}"))

    # Ids and losses.

    def gather(self, dim: int, index: Tensor) -> Tensor:
        if index.ndim != self.ndim:
            raise RuntimeError("numbers of axes differ")
        dim %= self.ndim
        cut = tuple(slice(None) if k == dim else slice(n) for k, n in enumerate(index.shape))
        names = [f"a{k}" for k in range(self.ndim)]
        source = [*names[:dim], "v", *names[dim + 1 :]]
        spec = f"{slot(source)}; {slot(names)} => {slot(names)}"
        return Tensor(oc.gather(spec, self.t[cut], index.t, at="v"))

    def one_hot(self, classes: int) -> Tensor:
        return Tensor(oc.one_hot(ids(self), classes)).cast(np.int32)

    def _classes_last(self) -> oc.Tensor:
        return self.t if self.ndim < 3 else self.permute(0, *range(2, self.ndim), 1).t

    def nll_loss(self, target: Tensor, weight: Tensor | None = None, **settings: Any) -> Tensor:
        return Tensor(nn.nll(self._classes_last(), ids(target), weight=raw(weight), **settings))

    def cross_entropy(self, target: Tensor, **settings: Any) -> Tensor:
        same = target.dtype.kind == "f"
        if same and target.shape != self.shape:
            raise RuntimeError("shapes differ")
        wanted = target._classes_last() if same else ids(target)
        return Tensor(nn.cross_entropy(self._classes_last(), wanted, **settings))

    def sparse_categorical_crossentropy(self, target: Tensor, **settings: Any) -> Tensor:
        return Tensor(nn.cross_entropy(self.t, ids(target), **settings))


class Running:
    """A running extreme; positions of such are not said."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def __getitem__(self, number: int) -> Tensor:
        return self.values if number == 0 else pytest.skip("positions of running extremes")


def ids(target: Tensor) -> oc.Tensor:
    """Classes, which stand in the batch row."""
    return oc.rearrange(target.t, "... -> ...", axes="b" * target.ndim)


def windows(size: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    pads = as_list(padding)
    if len(pads) == 4:
        padding = [(pads[2], pads[3]), (pads[0], pads[1])]
    elif len(pads) == 3:
        raise ValueError("padding")
    stride = size if stride is None else stride
    return {"window_size": size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


def sizes(shape: tuple[Any, ...]) -> list[Any]:
    """Sizes that are given as arguments or as one list."""
    return list(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else list(shape)


def slot(names: Sequence[str], between: str = ",") -> str:
    """The slot of axes of which the last stands in the output row."""
    return f"{''.join(f'{name}, ' for name in names[:-1])}| {names[-1]}," if names else ""


for name, function in {"__eq__": oc.eq, "__ne__": oc.ne}.items():
    setattr(Tensor, name, lifted(function))
