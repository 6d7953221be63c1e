"""Random programs over tensors of known shapes, and what they mean in NumPy.

A program is a list of leaves and a list of steps; a step builds a tensor from earlier tensors, and knows the
same over `Val`, an array with the number of axes in each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from support.tensor_values import (
    LIMIT,
    MOST_POINTS,
    POINTWISE,
    ROWS,
    SIZES,
    Axes,
    Label,
    Slot,
    Unfit,
    Val,
    contract,
    pointwise,
    smooth_values,
    take,
    transpose,
)

import ocannl as oc


@dataclass(frozen=True)
class Step:
    """`text` says what it is, for the reports of hypothesis."""

    text: str
    args: tuple[int, ...]
    build: Callable[..., oc.Tensor] = field(repr=False)
    evaluate: Callable[..., Val] = field(repr=False)


@dataclass
class Program:
    leaves: list[Val]
    steps: list[Step]

    def values(self, leaves: Sequence[Val]) -> list[Val]:
        """The value of every leaf and step."""
        found = list(leaves)
        for step in self.steps:
            found.append(step.evaluate(*(found[k] for k in step.args)))
        return found

    def tensors(self, leaves: Sequence[oc.Tensor]) -> list[oc.Tensor]:
        found = list(leaves)
        for step in self.steps:
            found.append(step.build(*(found[k] for k in step.args)))
        return found

    def __repr__(self) -> str:
        lines = [f"t{k} = leaf {v.rows[0]} | {v.rows[2]} -> {v.rows[1]}" for k, v in enumerate(self.leaves)]
        for k, step in enumerate(self.steps, len(self.leaves)):
            lines.append(f"t{k} = {step.text}({', '.join(f't{a}' for a in step.args)})")
        return "\n" + "\n".join(lines) + "\n"


def axes_of(val: Val) -> str:
    """The `axes=` of `oc.data`."""
    return "".join(letter * len(axes) for letter, axes in zip("boi", val.rows, strict=True))


def rows_of(val: Val) -> dict[str, Any]:
    """The rows of `oc.param`."""
    return {name: list(axes) for name, axes in zip(ROWS, val.rows, strict=True)}


@st.composite
def shapes(draw: st.DrawFn) -> tuple[Axes, Axes, Axes]:
    pick = st.sampled_from(SIZES)
    batch, output, input = (tuple(draw(st.lists(pick, max_size=2))) for _ in ROWS)
    rows: tuple[Axes, Axes, Axes] = (batch, output, input)
    return rows if math.prod(math.prod(r) for r in rows) <= 1000 else ((2,), (3,), ())


@st.composite
def leaves(draw: st.DrawFn, pool: Sequence[Val]) -> Val:
    """A new leaf: of any shape, or of one that meets an earlier one."""
    if pool and draw(st.booleans()):
        rows = draw(st.sampled_from(list(pool))).rows
        how = draw(st.sampled_from(["same", "ones", "matrix", "matched"]))
        if how == "ones":
            rows = tuple(tuple(draw(st.sampled_from([1, s])) for s in axes) for axes in rows)
        elif how == "matrix":
            rows = ((), tuple(draw(st.lists(st.sampled_from(SIZES), max_size=1))), rows[1])
        elif how == "matched":
            rows = (rows[0], rows[2], ())
    else:
        rows = draw(shapes())
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    sizes = [s for axes in rows for s in axes]
    values = np.round(rng.uniform(-2, 2, sizes) * 2**20) / 2**20
    return Val.of(np.asarray(values), len(rows[0]), len(rows[1]))


def index_of(draw: st.DrawFn, pool: Sequence[Val]) -> int:
    """Of one value, late ones more often."""
    last = len(pool) - 1
    return max(draw(st.integers(0, last)), draw(st.integers(0, last)))


def draw_pointwise(draw: st.DrawFn, pool: Sequence[Val]) -> Step:
    name, arity, build, meaning = draw(st.sampled_from(POINTWISE))
    args = tuple(index_of(draw, pool) for _ in range(arity))
    return Step(name, args, build, lambda *vals: pointwise(meaning, *vals))


def compose(left: Val, right: Val) -> Val:
    inner = left.rows[2]
    meets = right.rows[1]
    if len(meets) > len(inner) or any(
        m not in (1, s) for m, s in zip(meets[::-1], inner[::-1], strict=False)
    ):
        raise Unfit
    grown = right.padded((len(right.rows[0]), len(inner), len(right.rows[2])))
    batch, input = len(right.rows[0]), len(right.rows[2])
    shape = (*grown.shape[:batch], *inner, *grown.shape[batch + len(inner) :])
    right = Val.of(np.broadcast_to(grown, shape), batch, len(inner))
    names = [f"k{n}" for n in range(len(inner))]
    outer = [f"o{n}" for n in range(len(left.rows[1]))]
    last = [f"i{n}" for n in range(input)]
    most = max(len(left.rows[0]), batch)
    ranks = (most, len(left.rows[1]), len(left.rows[2]))
    a, b = left.padded(ranks), right.padded((most, len(inner), input))
    try:
        batches = np.broadcast_shapes(a.shape[:most], b.shape[:most])
    except ValueError:
        raise Unfit from None
    a = np.broadcast_to(a, (*batches, *a.shape[most:]))
    b = np.broadcast_to(b, (*batches, *b.shape[most:]))
    front = [f"b{n}" for n in range(most)]
    keys = {n: k for k, n in enumerate([*front, *outer, *names, *last])}
    result = np.einsum(
        a,
        [keys[n] for n in [*front, *outer, *names]],
        b,
        [keys[n] for n in [*front, *names, *last]],
        [keys[n] for n in [*front, *outer, *last]],
    )
    return Val.of(np.asarray(result), most, len(outer))


def draw_compose(draw: st.DrawFn, pool: Sequence[Val]) -> Step:
    pairs = [(a, b) for a, left in enumerate(pool) for b, right in enumerate(pool) if fits(left, right)]
    if not pairs:
        raise Unfit
    return Step("@", draw(st.sampled_from(pairs)), lambda x, y: x @ y, compose)


def fits(left: Val, right: Val) -> bool:
    try:
        compose(left, right)
    except Unfit:
        return False
    return True


def draw_transpose(draw: st.DrawFn, pool: Sequence[Val]) -> Step:
    return Step(".T", (index_of(draw, pool),), lambda x: x.T, transpose)


def draw_slice(draw: st.DrawFn, pool: Sequence[Val]) -> Step:
    sliced = [k for k, v in enumerate(pool) if v.rows[0]]
    if not sliced:
        raise Unfit
    k = draw(st.sampled_from(sliced))
    at = draw(st.integers(0, pool[k].rows[0][0] - 1))
    return Step(f"[{at}]", (k,), lambda x: x[at], lambda v: take(v, at))


def draw_number(draw: st.DrawFn, pool: Sequence[Val]) -> Step:
    number = draw(st.sampled_from([0.5, -2.0, 3.0, 1.0]))
    which = draw(st.sampled_from(["+", "r-", "*", "@"]))
    k = index_of(draw, pool)
    if which == "@":
        return Step(f"@ {number}", (k,), lambda x: x @ number, lambda v: scaled_sum(v, number))
    build: Callable[..., Any] = {
        "+": lambda x: x + number,
        "r-": lambda x: number - x,
        "*": lambda x: number * x,
    }[which]
    return Step(f"{which} {number}", (k,), build, lambda v: Val(build(v.array), v.rows))


def scaled_sum(val: Val, number: float) -> Val:
    batch, output = len(val.rows[0]), len(val.rows[1])
    axes = tuple(range(batch + output, val.array.ndim))
    return Val.of(np.asarray(val.array.sum(axis=axes) * number), batch, output)


class SpecWriter:
    """Draws a spec that fits operands, with its text and its meaning."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.sizes: dict[str, int] = {}
        self.rowvars: dict[str, tuple[str, ...]] = {}
        self.letters = iter("abcdefghijklmnopqrstuvwxyz")
        self.long = draw(st.booleans())
        self.dims: dict[str, int] = {}

    def fresh(self, size: int) -> str:
        letter = next(self.letters, None)
        if letter is None:
            raise Unfit
        name = f"{letter}{letter}_{size}" if self.long else letter
        self.sizes[name] = size
        return name

    def name(self, size: int) -> str:
        """A name of this size: one in use, or a new one."""
        known = [n for n, s in self.sizes.items() if s == size and not n.startswith(("_", "."))]
        if known and self.draw(st.booleans()):
            return self.draw(st.sampled_from(known))
        return self.fresh(size)

    def hidden(self, prefix: str, size: int) -> str:
        name = f"{prefix}{len(self.sizes)}"
        self.sizes[name] = size
        return name

    def row(self, kind: str, axes: Axes) -> tuple[list[str], list[Label]]:
        """The text of a row of an operand, and its labels."""
        texts: list[str] = []
        labels: list[Label] = []
        start = end = -1
        if self.draw(st.integers(0, 2)) == 0:
            start = self.draw(st.integers(0, len(axes)))
            end = self.draw(st.integers(start, len(axes)))
        at = 0
        while at <= len(axes):
            if at == start:
                text, names = self.rowvar(kind, axes[start:end])
                texts.append(text)
                labels += names
                at, start = end, -1
                continue
            if at == len(axes):
                break
            how = self.draw(st.sampled_from(["name", "name", "name", "position", "any"]))
            if how == "position":
                position = self.draw(st.integers(0, axes[at] - 1))
                texts.append(str(position))
                labels.append(position)
            elif how == "any":
                texts.append("_")
                labels.append(self.hidden("_", axes[at]))
            else:
                name = self.name(axes[at])
                texts.append(name)
                labels.append(name)
            at += 1
        return texts, labels

    def rowvar(self, kind: str, axes: Axes) -> tuple[str, tuple[str, ...]]:
        same = [v for v, names in self.rowvars.items() if tuple(self.sizes[n] for n in names) == axes]
        free = [v for v in (kind, "r", "s", "rest") if v not in self.rowvars]
        if same and self.draw(st.booleans()):
            var = self.draw(st.sampled_from(same))
        elif free:
            var = self.draw(st.sampled_from(free))
            self.rowvars[var] = tuple(self.hidden(".", s) for s in axes)
        else:
            raise Unfit
        return ("..." if var == kind and self.draw(st.booleans()) else f"..{var}.."), self.rowvars[var]

    def result(self) -> tuple[list[list[str]], list[list[Label]]]:
        texts: list[list[str]] = [[], [], []]
        labels: list[list[Label]] = [[], [], []]
        items: list[tuple[str, tuple[Label, ...], bool]] = [
            (n, (n,), False) for n in self.sizes if not n.startswith(("_", "."))
        ]
        items += [(f"..{v}..", names, True) for v, names in self.rowvars.items()]
        items = [item for item in items if self.draw(st.integers(0, 3)) > 0]
        extra = self.draw(st.sampled_from(["", "", "", "", "position", "repeat", "broadcast"]))
        if extra == "position":
            position = self.draw(st.integers(0, 3))
            items.append((str(position), (position,), False))
        elif extra == "repeat" and items and not items[0][2]:
            items.append(items[0])
        elif extra == "broadcast":
            name = self.fresh(self.draw(st.integers(1, 3)))
            self.dims[name] = self.sizes[name]
            items.append((name, (name,), False))
        taken = [False, False, False]
        for text, names, is_rowvar in self.draw(st.permutations(items)):
            row = self.draw(st.integers(0, 2))
            if is_rowvar and taken[row]:
                row = next((k for k in range(3) if not taken[k]), -1)
            if row < 0:
                continue
            taken[row] |= is_rowvar
            kind = ROWS[row]
            texts[row].append("..." if text == f"..{kind}.." and self.draw(st.booleans()) else text)
            labels[row] += names
        return texts, labels

    def slot_text(self, rows: Sequence[Sequence[str]]) -> str:
        batch, output, input = ((", " if self.long else " ").join(row) for row in rows)
        text = output
        if input or self.draw(st.booleans()):
            text = f"{input} -> {output}"
        if batch or self.draw(st.booleans()):
            text = f"{batch} | {text}"
        return text


KINDS = [
    ("einsum", "add", "mul", lambda spec, args, dims: oc.einsum(spec, *args, **dims)),
    ("einsum", "add", "mul", lambda spec, args, dims: oc.einsum(spec, *args, **dims)),
    ("einmax", "max", "mul", lambda spec, args, dims: oc.einmax(spec, *args, **dims)),
    ("tropical", "max", "add", lambda spec, args, dims: oc.tropical(spec, *args, **dims)),
    ("outer_sum", "add", "add", lambda spec, args, dims: oc.outer_sum(spec, *args, **dims)),
]


def draw_spec(draw: st.DrawFn, pool: Sequence[Val]) -> Step:
    name, accum, combine, make = draw(st.sampled_from(KINDS))
    args = tuple(index_of(draw, pool) for _ in range(draw(st.sampled_from([1, 1, 2, 2, 3]))))
    writer = SpecWriter(draw)
    slots: list[Slot] = []
    texts: list[str] = []
    for arg in args:
        rows = [writer.row(kind, axes) for kind, axes in zip(ROWS, pool[arg].rows, strict=True)]
        batch, output, input = (tuple(labels) for _, labels in rows)
        slots.append((batch, output, input))
        texts.append(writer.slot_text([text for text, _ in rows]))
    written, labels = writer.result()
    if math.prod(writer.sizes.values()) > MOST_POINTS:
        raise Unfit
    spec = " ; ".join(texts) + " => " + writer.slot_text(written)
    if writer.long and "," not in spec:
        raise Unfit
    result = (tuple(labels[0]), tuple(labels[1]), tuple(labels[2]))
    sizes, dims = dict(writer.sizes), dict(writer.dims)
    has_margin = any(isinstance(label, int) and label > 0 for row in result for label in row)
    has_margin |= len(flat := [n for row in result for n in row]) != len(set(flat))
    if accum == "max" and has_margin:
        accum, make = "add", KINDS[0][3] if combine == "mul" else KINDS[4][3]
        name = "einsum" if combine == "mul" else "outer_sum"
    return Step(
        f"{name} {spec!r} {dims or ''}",
        args,
        lambda *tensors: make(spec, tensors, dims),
        lambda *vals: contract(accum, combine, slots, result, sizes, vals),
    )


DRAWS = (
    draw_pointwise,
    draw_pointwise,
    draw_pointwise,
    draw_compose,
    draw_transpose,
    draw_slice,
    draw_number,
    draw_spec,
    draw_spec,
    draw_spec,
)


@st.composite
def programs(draw: st.DrawFn, *, most_steps: int = 7, smooth: bool = False) -> Program:
    """With `smooth`, every step is differentiable where it is."""
    with smooth_values(smooth):
        program = Program([], [])
        for _ in range(draw(st.integers(1, 3))):
            program.leaves.append(draw(leaves(program.leaves)))
        pool = list(program.leaves)
        for _ in range(draw(st.integers(1, most_steps))):
            try:
                step = draw(st.sampled_from(DRAWS))(draw, pool)
                val = step.evaluate(*(pool[k] for k in step.args))
            except Unfit:
                continue
            if val.array.size > MOST_POINTS or not np.all(np.abs(val.array) < LIMIT):
                continue
            program.steps.append(step)
            pool.append(val)
        return program
