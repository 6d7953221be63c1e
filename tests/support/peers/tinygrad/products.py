"""tinygrad's products: einsum, matrices, convolutions."""

from __future__ import annotations

from typing import Any, Self

from support.peers import numpy_specs
from support.peers.tinygrad.arguments import as_list, slot
from support.peers.tinygrad.values import Values, raw

import ocannl as oc
from ocannl import nn
from ocannl.nn.transformers.attention import SEEN


class Products(Values):
    """Sums of products."""

    @classmethod
    def einsum(cls, text: str, *operands: Any) -> Self:
        if isinstance(operands[0], list | tuple):
            operands = tuple(operands[0])
        slots, right = numpy_specs.split(text, [x.shape for x in operands])
        slots, parts = numpy_specs.without_ones(slots, operands)
        left = "; ".join(slot([*each]) for each in slots)
        return cls(oc.einsum(f"{left} => {slot([*right])}", *map(raw, parts)))

    def matmul(self, other: Values) -> Self:
        if not self.ndim or not other.ndim:
            raise RuntimeError("a matrix product of numbers")
        left = "...ij" if self.ndim > 1 else "j"
        right = "...jk" if other.ndim > 1 else "j"
        result = "..." * ("." in left + right) + "i" * (self.ndim > 1) + "k" * (other.ndim > 1)
        if self.shape[-1] != other.shape[-2 if other.ndim > 1 else -1]:
            raise RuntimeError("sizes differ")
        return self.einsum(f"{left},{right}->{result}", self, other)

    dot = __matmul__ = matmul

    def diag(self) -> Self:
        return type(self)(oc.einsum(f"{slot(['i'])} => {slot(['i', 'i'])}", self.t))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        rows, columns = dim1 % self.ndim, dim2 % self.ndim
        if rows == columns:
            raise RuntimeError("a diagonal of one axis")
        x = self.permute(*(k for k in range(self.ndim) if k not in (rows, columns)), rows, columns)
        x = x[..., max(-offset, 0) :, max(offset, 0) :]
        size = min(x.shape[-2:])
        return self.einsum("...ii->...i", x[..., :size, :size])

    def conv2d(
        self,
        weight: Values,
        bias: Values | None = None,
        groups: int = 1,
        stride: Any = 1,
        dilation: Any = 1,
        padding: Any = 0,
    ) -> Self:
        rank = weight.ndim - 2
        pads = as_list(padding)
        if len(pads) == 2 * rank:
            pairs = [*zip(pads[::2], pads[1::2], strict=True)][::-1]
        else:
            pairs = [(p, p) for p in (pads * rank if len(pads) == 1 else pads)]
        if len(pairs) != rank:
            raise ValueError("padding")
        steps, holes = (as_list(v) * (rank if len(as_list(v)) == 1 else 1) for v in (stride, dilation))
        # A spec's stride divides what a window leaves of an axis: cells that no window reaches are cut off.
        left = [
            n + sum(pair) - 1 - d * (k - 1)
            for n, k, pair, d in zip(self.shape[2:], weight.shape[2:], pairs, holes, strict=True)
        ]
        pairs = [(p, q - n % s) for (p, q), n, s in zip(pairs, left, steps, strict=True)]
        x = self.pad([(0, 0), (0, 0), *pairs]).t
        at = ", ".join(f"{s}*y{k} <+ {d}*k{k}" for k, (s, d) in enumerate(zip(steps, holes, strict=True)))
        ys, ks = (", ".join(f"{c}{k}" for k in range(rank)) for c in "yk")
        x = oc.rearrange(x, "b (g c) ... -> b g c ...", g=groups, axes="b" * (rank + 3))
        w = oc.rearrange(weight.t, "(g o) c ... -> g o c ...", g=groups, axes="b" * (rank + 3))
        spec = f"b, g, c, {at} |; g, o, c, {ks} | => b, g, o, {ys} |"
        found = type(self)(oc.rearrange(oc.einsum(spec, x, w), "b g o ... -> b (g o) ..."))
        return found if bias is None else found + bias.reshape(-1, *(1,) * rank)

    def scaled_dot_product_attention(
        self,
        keys: Values,
        values: Values,
        attn_mask: Values | None = None,
        is_causal: bool = False,
        enable_gqa: bool = False,
    ) -> Self:
        if is_causal and attn_mask is not None:
            raise RuntimeError("two masks")
        q, k, v = (oc.rearrange(x.t, "b h s d -> b s h d", axes="bboo") for x in (self, keys, values))
        settings: dict[str, Any] = {"num_kv_heads": keys.shape[1]} if enable_gqa else {}
        if attn_mask is not None:
            more = oc.rearrange(attn_mask.t, "b h s t -> b s h t", axes="bboi")
            settings["weights_of"] = lambda scores: nn.softmax(spec=SEEN)(scores + more)
        mask = nn.causal_mask(self.shape[2]) if is_causal else None
        found = nn.dot_product_attention(q, k, v, mask, **settings)
        return type(self)(oc.rearrange(found, "b s h d -> b h s d"))
