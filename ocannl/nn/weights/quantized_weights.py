"""Weights in integers of few bits with scales, in forms that files of models have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.execute.inference import is_in_cell
from ocannl.nn.weights.row_products import (
    WORD,
    Activations,
    RowProduct,
    product_int8,
    product_q4_k,
    product_q8_0,
    row_product_int8,
)
from ocannl.program import graph

FEW = 4
"""The rows of activations for which weights are decoded in registers; for more, panels are decoded."""

ENCODED_AT_ONCE = 2**22
"""The weights that are encoded together, at most, if a row has no more."""

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Callable[..., oc.Tensor]
Kept: TypeAlias = Mapping[str, oc.Tensor]
"""The arrays that are kept of weights, by label."""


@dataclass(frozen=True)
class Format:
    """How the last input axis of weights is kept.

    Attributes:
        axes: the axes that it is split into, outermost first.
        sizes: their sizes, but of the first one.
        kept: the axes of each array that is kept, by its label, and its dtype.
        value: the weights in f32, of these arrays with all axes, some of size 1, and of positions.
        encode: these arrays by label, of weights in f32 with all axes.
        positions: the axes whose positions are given to `value`.
        blocks: the axes along which activations in integers have scales of their own.
        row: the product with a row of activations, in floats, if `row_of_floats`, or in integers.
        rows: that with any number of rows in integers, if it needs no weights in floats.
        row_of_floats: whether sums before scales pay in floats.
        few: the rows of activations in integers for which `row` pays.
    """

    axes: tuple[str, ...]
    sizes: Mapping[str, int]
    kept: Mapping[str, tuple[tuple[str, ...], type[np.generic]]]
    value: Value
    encode: Callable[[Array], Mapping[str, Array]]
    blocks: tuple[str, ...]
    row: RowProduct
    rows: RowProduct | None = None
    row_of_floats: bool = False
    few: int = FEW
    positions: tuple[str, ...] = ()

    @property
    def block(self) -> int:
        """The number of weights that are kept together."""
        return prod(self.sizes.values())

    def split(self, array: Array) -> Array:
        """An array with the axes in place of its last one."""
        return array.reshape(
            *array.shape[:-1], *[-1] * (len(self.axes) > len(self.sizes)), *self.sizes.values()
        )

    def encoded(self, array: Array) -> Mapping[str, Array]:
        """The arrays that are kept of weights. Large ones are encoded some rows at a time, since all of
        them in f32 need far more memory than what is kept.
        """
        rows = len(array) if array.ndim < 2 else max(1, ENCODED_AT_ONCE // max(1, prod(array.shape[1:])))
        found: dict[str, list[Array]] = {label: [] for label in self.kept}
        for start in range(0, max(1, len(array)), max(1, rows)):
            part = self.encode(self.split(np.asarray(array[start : start + rows], np.float32)))
            for label, (_, dtype) in self.kept.items():
                found[label].append(part[label].astype(dtype))
        return {label: np.concatenate(parts) for label, parts in found.items()}


def _steps(greatest: Array, levels: int) -> tuple[Array, Array]:
    """The sizes of steps of which so many reach the greatest numbers, and what they are divided by."""
    steps = greatest / np.float32(levels)
    with np.errstate(divide="ignore"):
        return steps, np.where(steps == 0, np.float32(0), 1 / steps)


def _rounded(x: Array) -> Array:
    """To nearest, halves away from zero."""
    return np.trunc(x + np.copysign(np.float32(0.5), x))


def _encode_symmetric(blocks: Array) -> Mapping[str, Array]:
    steps, inverse = _steps(abs(blocks).max(-1), 127)
    return {"codes": _rounded(blocks * inverse[..., None]), "scales": steps}


def _encode_q8_0(blocks: Array) -> Mapping[str, Array]:
    found = _encode_symmetric(blocks)
    return {**found, "scales": found["scales"].astype(np.float16)}


def _encode_q4_k(blocks: Array) -> Mapping[str, Array]:
    """Steps from the least to the greatest weight, or 0, of each 32; no search for better ones."""
    lowest, greatest = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    steps, _ = _steps(greatest - lowest, 15)
    (scale, inverse), (min_scale, min_inverse) = (
        _steps(steps.max((-1, -2)), 63),
        _steps(-lowest.min((-1, -2)), 63),
    )
    scales = _rounded(steps * inverse[..., None, None])
    mins = _rounded(-lowest * min_inverse[..., None, None])
    step, low = scale[..., None, None] * scales, min_scale[..., None, None] * mins
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.nan_to_num((blocks + low[..., None]) / step[..., None], posinf=0, neginf=0)
    codes = np.clip(_rounded(codes), 0, 15)
    packed = codes[..., 0, :] + 16 * codes[..., 1, :]
    both = {"scale": scale.astype(np.float16), "min_scale": min_scale.astype(np.float16)}
    return {"codes": packed, **both, "scales": scales, "mins": mins}


def _scaled(codes: oc.Tensor, scales: oc.Tensor) -> oc.Tensor:
    return oc.cast(codes, np.float32) * scales


def _value_q4_k(
    codes: oc.Tensor,
    scale: oc.Tensor,
    min_scale: oc.Tensor,
    scales: oc.Tensor,
    mins: oc.Tensor,
    half: oc.Tensor,
) -> oc.Tensor:
    # The lower four bits come first.
    number = (oc.cast(codes, np.int32) >> 4 * half) & 15
    scales, mins = oc.cast(scales, np.float32), oc.cast(mins, np.float32)
    return oc.cast(number, np.float32) * (scale * scales) - min_scale * mins


FORMATS: dict[str, Format] = {
    "q8_0": Format(
        axes=("k", "j"),
        sizes={"j": 32},
        kept={"codes": (("k", "j"), np.int8), "scales": (("k",), np.float32)},
        value=_scaled,
        encode=_encode_q8_0,
        blocks=("k",),
        row=product_q8_0,
    ),
    "q4_k": Format(
        axes=("k", "p", "n", "j"),
        sizes={"p": 4, "n": 2, "j": 32},
        kept={
            "codes": (("k", "p", "j"), np.uint8),
            "scale": (("k",), np.float32),
            "min_scale": (("k",), np.float32),
            "scales": (("k", "p", "n"), np.uint8),
            "mins": (("k", "p", "n"), np.uint8),
        },
        value=_value_q4_k,
        encode=_encode_q4_k,
        blocks=("k",),
        row=product_q4_k,
        row_of_floats=True,
        few=3,
        positions=("n",),
    ),
    "int8": Format(
        axes=("j",),
        sizes={},
        kept={"codes": (("j",), np.int8), "scales": ((), np.float32)},
        value=_scaled,
        encode=_encode_symmetric,
        blocks=(),
        row=row_product_int8,
        rows=product_int8,
    ),
}
"""`q8_0`: 32 integers of 8 bits with a scale. `q4_k`: 256 of 4 bits, a scale and a minimum of 6 bits for
each 32, and a scale of each of these. Both as in GGUF, whose scales in f16 are kept in f32, since converting
them in a product takes longer than to read them. `int8`: a scale in f32 for each output.
"""


@dataclass(frozen=True)
class Layout:
    """The arrays that are kept of weights in -> out, of a format, whose last input axis is split; `lead` has
    names of the other input axes.

    Attributes:
        joined: the sizes of input axes that are one axis here, since blocks reach from one into the next.
        rounds: whether activations are in integers of 8 bits.
        in_words: whether the last input axis is one of words.
    """

    format: Format
    lead: tuple[str, ...]
    joined: tuple[int, ...] = ()
    rounds: bool = False
    in_words: bool = True

    def product(self, kept: Kept, x: oc.Tensor) -> oc.Tensor:
        """The weights times batch | in: batch | out."""
        if not self.rounds:
            return self._product(kept, x)

        @oc.custom_gradient
        def product(x: oc.Tensor) -> tuple[oc.Tensor, Callable[[oc.Tensor], oc.Tensor]]:
            return self._integer_product(kept, x), lambda cotangent: self._transposed(kept, cotangent)

        return product(x)

    def _product(self, kept: Kept, x: oc.Tensor) -> oc.Tensor:
        """The product in f32."""
        if not _has_rows(x, FEW):
            return self._value(kept, "{} -> ..o..") @ self._split(x)
        if self.format.row_of_floats:
            return self.format.row(kept, Activations(self._split(x), self.lead))
        return oc.virtual(self._value(kept, "{} -> ..o..")) @ self._split(x)

    def _integer_product(self, kept: Kept, x: oc.Tensor) -> oc.Tensor:
        """The product with activations in integers."""
        form, activations = self.format, Activations(self._split(x), self.lead)
        numbers = activations.rounded(form.axes, form.blocks)
        if _has_rows(x, form.few) and self.in_words:
            return form.row(kept, numbers)
        if form.rows is not None:
            return form.rows(kept, numbers)
        return self._value(kept, "{} -> ..o..") @ numbers.value()

    def _transposed(self, kept: Kept, cotangent: oc.Tensor) -> oc.Tensor:
        """The derivative with respect to activations, as if they were not rounded."""
        weights, apart = self._value(kept, "{} -> ..o.."), self._row(self.format.axes)
        parts = oc.einsum(f"{apart} -> ..o..; ... | ..o.. => ... | {apart}", weights, cotangent)
        flat = oc.einsum(f"... | {apart} => ... | {self._joined}", parts)
        if not self.joined:
            return flat
        inputs: dict[str, Any] = dict(zip(self._inputs, self.joined, strict=True))
        return oc.einsum(f"... | {'&'.join(inputs)} => ... | {', '.join(inputs)}", flat, **inputs)

    def _split(self, x: oc.Tensor) -> oc.Tensor:
        """Activations with the axes of blocks."""
        if self.joined:
            x = oc.einsum(f"... | {', '.join(self._inputs)} => ... | {'&'.join(self._inputs)}", x)
        if not self.format.sizes:
            return x
        sizes: dict[str, Any] = dict(self.format.sizes)
        return oc.einsum(f"... | {self._joined} => ... | {self._row(self.format.axes)}", x, **sizes)

    @property
    def _inputs(self) -> list[str]:
        """Names of the axes that are joined."""
        return [f"x{number}" for number in range(len(self.joined))]

    def rows(self, kept: Kept, ids: oc.Tensor) -> oc.Tensor:
        """The inputs of chosen outputs: batch | to batch | in, for weights of one output axis."""
        taken: dict[str, oc.Tensor] = {}
        for label, (axes, _) in self.format.kept.items():
            own = self._row(axes)
            taken[label] = oc.gather(f"{own} -> v; ... | => ... | {own}", kept[label], ids, at="v")
        value = self._value(taken, "... | {}")
        return oc.einsum(f"... | {self._row(self.format.axes)} => ... | {self._joined}", value)

    def _value(self, kept: Kept, rows: str) -> oc.Tensor:
        """The weights, with all axes in the input row, or in another one that `rows` says."""
        aligned: list[oc.Tensor] = []
        for label, (axes, _) in self.format.kept.items():
            own = self._row(axes)
            full = self._row([axis if axis in axes else "0" for axis in self.format.axes])
            aligned.append(oc.einsum(f"{rows.format(own)} => {rows.format(full)}", kept[label]))
        for axis in self.format.positions:
            place = ", ".join(
                ["0" for _ in self.lead] + [one if one == axis else "0" for one in self.format.axes]
            )
            row = rows.replace("..o..", "").format(place)
            aligned.append(oc.einsum(f"{axis} => {row}", oc.range(self.format.sizes[axis])))
        return self.format.value(*aligned)

    def _row(self, axes: Sequence[str]) -> str:
        return ", ".join([*self.lead, *axes])

    @property
    def _joined(self) -> str:
        return self._row(["&".join(self.format.axes)])


def _has_rows(x: oc.Tensor, most: int) -> bool:
    """Whether each weight is multiplied so few times that its value needs no memory."""
    if is_in_cell(x):
        return False
    oc.infer(x)
    return prod(graph.known_shape(x.ir_value).batch.sizes) <= most


@dataclass(frozen=True, eq=False)
class Weights:
    """Memory for the weights of a layer, by label."""

    layout: Layout
    nodes: dict[str, oc.Tensor]

    def __repr__(self) -> str:
        return next(name for name, form in FORMATS.items() if form is self.layout.format)

    @staticmethod
    def like(param: oc.Tensor, kind: str, rounds: bool = False) -> Weights | None:
        """Memory for weights of the shape of a parameter, called by its name; None where they do not fit."""
        form, shape = FORMATS[kind], graph.known_shape(param.ir_value)
        if not shape.is_final or shape.batch.axes or not shape.input.axes:
            return None
        *lead, last = inputs = shape.input.sizes
        joined: tuple[int, ...] = ()
        if last % form.block:
            lead, last, joined = [], prod(inputs), tuple(inputs)
        if last % form.block:
            return None
        split = {form.axes[0]: last // form.block if form.sizes else last, **form.sizes}
        nodes: dict[str, oc.Tensor] = {}
        for label, (axes, dtype) in form.kept.items():
            places, outputs = [*lead, *(split[axis] for axis in axes)], [*shape.output.sizes]
            nodes[label] = oc.node(label, of=param, input=places, output=outputs, dtype=dtype)
        names = tuple([f"i{number}" for number in range(len(lead))])
        return Weights(Layout(form, names, joined, rounds, not last % WORD), nodes)

    def set(self, ctx: oc.Context, array: Array) -> None:
        """Keeps an array out, in."""
        joined = len(self.layout.joined)
        rows = array.reshape(*array.shape[:-joined], -1) if joined else array
        self.keep(ctx, self.layout.format.encoded(rows))

    def keep(self, ctx: oc.Context, arrays: Mapping[str, Array]) -> None:
        """Sets what is kept, by label."""
        for label, node in self.nodes.items():
            ctx[node] = arrays[label].reshape(node.shape.array).astype(self.layout.format.kept[label][1])
