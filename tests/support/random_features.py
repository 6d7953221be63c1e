"""Random expressions of what has paths of its own through the compiler, with their values in NumPy.

Products on matrix units and by instructions for dot products, attention that keeps no scores, scans,
conditions, windows, gathers. Sizes are odd as often as not, operands are parts that begin anywhere, and some
of their elements are no finite numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn

Array = NDArray[Any]
SIZES = (0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100)
POSITIONS = (1, 2, 5, 16, 33, 64, 65, 130, 520)
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 6e4)
PAIRS: tuple[tuple[Any, Any], ...] = (
    (oc.bfloat16, oc.bfloat16),
    (oc.bfloat16, oc.bfloat16),
    (np.float16, np.float16),
    (np.int8, np.int8),
    (np.uint8, np.int8),
    (np.int8, np.uint8),
    (np.uint8, np.uint8),
    (oc.bfloat16, np.float32),
    (np.float32, np.float32),
)
PRODUCTS = ("mk,kn->mn", "mk,nk->mn", "km,kn->mn", "km,nk->mn", "bmk,bkn->bmn", "bmk,nk->bmn", "mk,k->m")


@dataclass
class Feature:
    """An expression, what it is in NumPy, and how far each number may be from that: a share of it, and of the
    largest one, or of the terms that it is a sum of.
    """

    name: str
    value: oc.Tensor
    wanted: Array
    tolerance: float
    terms: float = 0.0

    def check(self, found: Array) -> None:
        wanted = self.wanted.astype(np.float64)
        finite = wanted[np.isfinite(wanted)]
        scale = max(self.terms, np.abs(finite).max() if finite.size else 0.0)
        np.testing.assert_allclose(
            found.astype(np.float64),
            wanted,
            rtol=self.tolerance,
            atol=self.tolerance * scale,
            err_msg=f"{self.name}: {self.value!r}",
        )

    def slope(self, leaf: oc.Tensor, weights: Array, wanted: Array, terms: float = 0.0) -> Feature:
        """The gradient of the sum of this, weighted, with respect to a leaf."""
        loss = (oc.cast(self.value, np.float32) * oc.data(weights, axes="o" * weights.ndim)).sum()
        own = 2e-2 if leaf.dtype.itemsize == 2 else 0.0
        return Feature(
            f"gradient of {self.name}", oc.grad(loss, leaf), wanted, 2 * max(self.tolerance, own), terms
        )


class Features:
    """Makers of random expressions."""

    def __init__(self, chance: Generator) -> None:
        self.chance = chance

    def some(self, count: int) -> list[Feature]:
        """So many expressions, and gradients of some."""
        makers = (
            self.product,
            self.product,
            self.attention,
            self.scan,
            self.condition,
            self.window,
            self.gather,
        )
        found: list[Feature] = []
        for _ in range(count):
            found += self.pick(makers)()
        return found

    def pick(self, among: Sequence[Any]) -> Any:
        return among[int(self.chance.integers(len(among)))]

    def happens(self, share: float) -> bool:
        return bool(self.chance.random() < share)

    def array(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        dtype = np.dtype(dtype)
        if dtype.kind in "iu":
            bounds = np.iinfo(dtype)
            return self.chance.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
        return self.chance.normal(size=shape).astype(dtype)

    def part(self, array: Array) -> tuple[oc.Tensor, Array]:
        """Data of which these numbers are a part: one that begins anywhere, runs backwards or in steps."""
        if self.happens(0.5):
            return oc.data(array, axes="o" * array.ndim), array
        key: list[slice] = []
        for size in array.shape:
            start, step = int(self.chance.integers(3)), int(self.pick((1, 1, 2)))
            key.append(slice(start, start + size * step, step))
        whole = self.array(tuple(k.stop + int(self.chance.integers(3)) for k in key), array.dtype)
        whole[tuple(key)] = array
        back = tuple(slice(None, None, -1) if self.happens(0.2) else slice(None) for _ in key)
        return oc.data(whole, axes="o" * array.ndim)[tuple(key)][back], array[back]

    def product(self) -> list[Feature]:
        spec = str(self.pick(PRODUCTS))
        sizes = {axis: int(self.pick(SIZES)) for axis in "mnk"} | {"b": int(self.chance.integers(1, 4))}
        types = self.pick(PAIRS)
        arrays = [
            self.array(tuple(sizes[axis] for axis in axes), type)
            for axes, type in zip(spec.partition("->")[0].split(","), types, strict=True)
        ]
        is_float = arrays[0].dtype.kind not in "iu"
        if is_float and self.happens(0.2):
            for array in arrays:
                if array.size:
                    array.flat[self.chance.integers(array.size)] = self.pick(SPECIAL)
        pairs = [self.part(array) for array in arrays]
        is_wide = not is_float and self.happens(0.7)
        tensors = [oc.cast(t, np.int32) if is_wide else t for t, _ in pairs]
        ours = ";".join(",".join(axes) for axes in spec.partition("->")[0].split(","))
        value = oc.einsum(f"{ours} => {','.join(spec.partition('->')[2])},", *tensors)
        others = [a.astype(np.float64 if is_float else np.int64) for _, a in pairs]
        with np.errstate(all="ignore"):
            wanted, terms = np.einsum(spec, *others), np.einsum(spec, *map(np.abs, others))
        if not is_float:
            wrapped = wanted.astype(np.int32 if is_wide else np.result_type(*types))
            return [Feature("product", value, wrapped, 0.0)]
        # A sum that overflows in f32 is infinite, and in f16 earlier.
        most = 3e38 if types[0] != np.float16 else 6e4
        overflows = np.asarray(terms > most)
        if np.any(overflows):
            wanted = np.where(overflows, np.nan, wanted)
            value = oc.where(oc.data(overflows, axes="o" * wanted.ndim), np.nan, value)
        found = [Feature("product", value, wanted, 2e-2 if np.float32 not in types else 2e-5)]
        if np.all(np.isfinite(terms)) and not np.any(overflows) and self.happens(0.5):
            operands, result = spec.split("->")
            axes = operands.split(",")
            weights = self.array(wanted.shape)
            for own in (0, 1):
                back = f"{result},{axes[1 - own]}->{axes[own]}"
                factors = weights.astype(np.float64), others[1 - own]
                if np.all(np.einsum(back, *map(np.abs, factors)) <= most):
                    found.append(found[0].slope(tensors[own], weights, np.einsum(back, *factors)))
        return found

    def attention(self) -> list[Feature]:
        """Some rows attend to nothing, and some scores are no finite numbers."""
        s, t = (int(self.pick(POSITIONS)) for _ in range(2))
        d, e = (int(self.pick((1, 3, 8, 16, 17))) for _ in range(2))
        q, k, v = self.array((s, d)), self.array((t, d)), self.array((t, e))
        scale = float(self.pick((1.0, 0.1, 30.0)))
        scores = scale * (q.astype(np.float64) @ k.T.astype(np.float64))
        qt, kt, vt = (oc.data(a, axes="oo") for a in (q, k, v))
        x = scale * oc.einsum("s,d; t,d => s,t", qt, kt)
        kind = self.pick(("none", "random", "causal", "rows", "window"))
        mask = np.ones((s, t), np.bool_)
        if kind == "random":
            mask = self.chance.random((s, t)) < 0.5
        elif kind == "causal":
            mask = np.tri(s, t, k=int(self.chance.integers(-2, 3)), dtype=np.bool_)
        elif kind == "rows":
            mask[self.chance.integers(s) :] = False
        elif kind == "window":
            mask = np.tri(s, t, dtype=np.bool_) & ~np.tri(s, t, k=-4, dtype=np.bool_)
        low = float(self.pick((-np.inf, -1e9)))
        if kind != "none":
            x, scores = oc.where(oc.data(mask, axes="oo"), x, low), np.where(mask, scores, low)
        is_finite = not self.happens(0.1)
        if not is_finite:
            at = self.chance.integers(s), self.chance.integers(t)
            more = np.zeros((s, t), np.float32)
            more[at] = self.pick((np.nan, np.inf, -np.inf))
            x, scores = x + oc.data(more, axes="oo"), scores + more
        weights = nn.softmax(spec="... | ... -> ..., d")(x) if self.happens(0.5) else self.exponentials(x)
        y = oc.einsum("s,t; t,e => s,e", weights, vt)
        with np.errstate(all="ignore"):
            p = np.exp(scores - scores.max(-1, keepdims=True))
            p = p / p.sum(-1, keepdims=True)
            found = [Feature(f"attention {kind}", y, p @ v.astype(np.float64), 2e-4 if scale < 10 else 2e-3)]
            if is_finite and self.happens(0.5):
                weights = self.array((s, e))
                slopes = weights.astype(np.float64) @ v.T.astype(np.float64)
                terms = scale * float(np.abs(slopes).max())
                slopes = np.where(mask, scale * p * (slopes - (slopes * p).sum(-1, keepdims=True)), 0.0)
                wanted = ((qt, slopes @ k), (kt, slopes.T @ q), (vt, p.T @ weights))
                found += [found[0].slope(leaf, weights, slope, terms) for leaf, slope in wanted]
        return found

    def exponentials(self, x: oc.Tensor) -> oc.Tensor:
        p = oc.exp(x - x.max(1, keep=True))
        return p / p.sum(1, keep=True)

    def scan(self) -> list[Feature]:
        length, size = int(self.pick((1, 2, 7, 16))), int(self.pick((1, 3, 17)))
        xs, keep = self.array((length, size)), self.array((size,))
        reverse, grows = self.happens(0.3), self.happens(0.3)
        carry, kept = np.zeros(size), np.zeros((length, size))
        for t in reversed(range(length)) if reverse else range(length):
            carry = np.tanh(carry * keep + xs[t]) if grows else 0.5 * carry + xs[t]
            kept[t] = carry
        weight = oc.data(keep)

        def cell(c: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
            new = oc.tanh(c * weight + x) if grows else 0.5 * c + x
            return new, new

        ys, last = oc.scan(cell, oc.zeros(size), oc.data(xs), reverse=reverse)
        if self.happens(0.5):
            return [Feature("scan", last, carry, 1e-5)]
        if not grows and not reverse and self.happens(0.5):
            pairs = oc.associative_scan(
                lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]),
                (oc.full((length, size), 0.5), oc.data(xs)),
                axis=0,
            )
            return [Feature("associative scan", pairs[1], kept, 1e-5)]
        return [Feature("scan", ys, kept, 1e-5)]

    def condition(self) -> list[Feature]:
        x, w = self.array((5, 7)), self.array((7, 7))
        flag, count = int(self.happens(0.5)), int(self.chance.integers(5))
        if self.happens(0.5):
            y = oc.cond(oc.data(flag), lambda t: t * 2, lambda t: oc.exp(t), oc.data(x))
            return [Feature("cond", y, 2 * x if flag else np.exp(x), 1e-5)]
        y, _ = oc.while_loop(
            lambda state: state[1] < count,
            lambda state: (
                oc.tanh(oc.einsum("a,b; b,c => a,c", state[0], oc.data(w, axes="oo"))),
                state[1] + 1,
            ),
            (oc.data(x, axes="oo"), oc.data(0)),
            most=4,
        )
        wanted = x.astype(np.float64)
        for _ in range(min(count, 4)):
            wanted = np.tanh(wanted @ w)
        return [Feature("while", y, wanted, 1e-5)]

    def window(self) -> list[Feature]:
        """A convolution, by einsum: strides, dilations, with padding or without; bf16 and f32."""
        h, w, c, o = (int(self.pick((5, 8, 11, 16))) for _ in range(4))
        kernel, stride, dilation = (
            int(self.pick((1, 2, 3))),
            int(self.pick((1, 1, 2))),
            int(self.pick((1, 1, 2))),
        )
        padded = self.happens(0.5)
        span = 1 + (kernel - 1) * dilation
        # Padded sizes are multiples of the stride, others end with a window.
        h, w = (
            (n // stride * stride) if padded else span + max(n - span, 0) // stride * stride for n in (h, w)
        )
        dtype = self.pick((oc.bfloat16, np.float32))
        x, f = self.array((2, h, w, c), dtype), self.array((o, kernel, kernel, c), dtype)
        spec = f"b, {stride}*y + {dilation}*i, {stride}*x + {dilation}*j, c; o, i, j, c => b, y, x, o"
        value = oc.einsum(spec, oc.data(x, axes="oooo"), oc.data(f, axes="oooo"), use_padding=padded)
        wide = x.astype(np.float64)
        if padded:
            before = (span - 1) // 2
            wide = np.pad(wide, ((0, 0), (before, span), (before, span), (0, 0)))
        rows, columns = ((n // stride) if padded else (n - span) // stride + 1 for n in (h, w))
        wanted = np.zeros((2, rows, columns, o))
        for i in range(kernel):
            for j in range(kernel):
                a, b = i * dilation, j * dilation
                cut = wide[:, a : a + rows * stride : stride, b : b + columns * stride : stride]
                wanted += cut[:, :rows, :columns] @ f[:, i, j].astype(np.float64).T
        return [Feature("convolution", value, wanted, 2e-2 if dtype != np.float32 else 2e-5)]

    def gather(self) -> list[Feature]:
        rows, size = int(self.pick((1, 7, 33))), int(self.pick((1, 5, 16, 64)))
        table = self.array((rows, size), self.pick((np.float32, oc.bfloat16, np.int8)))
        ids = self.chance.integers(0, rows, (3, int(self.pick((1, 4, 17)))))
        return [Feature("gather", oc.data(table, axes="bo")[oc.data(ids, axes="bb")], table[ids], 0.0)]
