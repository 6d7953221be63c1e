"""Programs that call what arrays have in NumPy: parts, creation, reductions, sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.targets.functions import Values, computed, number, random

import ocannl as oc


def parts(ctx: oc.Context, dtype: Any) -> Values:
    """Slices with all signs of steps, ids and masks, and their gradients."""
    x = oc.data(random(dtype, 9, 5, 17), label="x")
    with ctx:
        assert oc.default_context() is ctx
        keys: list[Any] = [3, (..., slice(None, None, -2)), (slice(2, 7, 3), -1), [0, 8, -3], x.numpy() > 0.5]
    found: dict[str, oc.Tensor] = {}
    for n, key in enumerate(keys):
        found[f"part {n}"] = x[key]
        found[f"part {n} grad"] = oc.grad(number(x[key]), x)
    found["ids"] = x[:, oc.data(np.array([4, 0, 4]), label="ids")]
    return computed(ctx, found)


def written_parts(ctx: oc.Context, dtype: Any) -> Values:
    """Parts of memory that code writes, at ranges and static indices."""
    m, v = oc.data(random(dtype, 7, 33), label="m"), oc.data(random(dtype, 33), label="v")
    i = oc.index("i", 7)
    with oc.code("parts") as code:
        m[2:6:3] = v
        m[i, 1:32] += m[0, 31:0:-1]
        oc.accumulate(m.at[:, 7], "max", 0.5)
    step = ctx.compile(code)
    for n in (6, 0):
        step(i=n)
    return {"m": ctx[m], "part": ctx[m.at[2]]}


def reductions(ctx: oc.Context, dtype: Any) -> Values:
    """All reductions over some axes, and their gradients; and what creation makes."""
    x = oc.data(random(dtype, 5, 3, 33), label="x")
    exact = [oc.sum, oc.prod, oc.max, oc.min, oc.any, oc.all, oc.argmax, oc.argmin]
    smooth = [oc.mean, oc.var, oc.std, oc.logsumexp, oc.sum, oc.max, oc.min, oc.prod]
    found: dict[str, oc.Tensor] = {}
    choices: list[tuple[Any, bool]] = [(None, False), (1, True), ("batch", False), (-1, False)]
    for axes, keep in choices:
        found |= {f"{f.__name__} {axes}": f(x, axes, keep) for f in exact}
        found |= {f"{f.__name__} {axes} grad": oc.grad(number(f(x, axes, keep)), x) for f in smooth}
    made = [oc.zeros((2, 3), dtype), oc.ones(4, dtype), oc.full(2, 0.5, dtype), oc.eye(3, dtype=dtype)]
    made += [oc.arange(1, 4, dtype=dtype), oc.linspace(0, 1, 5, dtype=dtype), oc.tensor([1.5, 2.0], dtype)]
    return computed(ctx, found | {f"made {n}": t * 2 for n, t in enumerate(made)})


def lower(t: oc.Tensor, diagonal: int) -> oc.Tensor:
    """The diagonals that `oc.tril` and `oc.triu` both keep."""
    return oc.triu(oc.tril(t, diagonal + 1), diagonal)


def windows(t: oc.Tensor, axis: int) -> oc.Tensor:
    return oc.unfold(t, axis, 3, 2)


def at_ids(t: oc.Tensor, axis: int) -> oc.Tensor:
    """Elements at ids, which are put at others."""
    ids = oc.data(np.array([1, 4, 2, 1, 0]).reshape((5, 1, 1) if axis == 0 else (1, 1, 5)))
    return oc.put_along_axis(t, ids, oc.take_along_axis(t, ids, axis) * 2, axis)


def along_an_axis(ctx: oc.Context, dtype: Any) -> Values:
    """Sorting, running sums and other shapes, and their gradients."""
    x = oc.data(random(dtype, 5, 3, 34), label="x")
    functions = [oc.sort, oc.cumsum, oc.cumprod, oc.cummax, oc.cummin]
    functions += [oc.flip, oc.norm, oc.logcumsumexp, lower, windows, at_ids]
    found: dict[str, oc.Tensor] = {}
    for axis in (0, -1):
        found |= {f"{f.__name__} {axis}": f(x, axis) for f in functions}
        found |= {f"{f.__name__} {axis} grad": oc.grad(number(f(x, axis)), x) for f in functions}
        found |= {f"rolled {axis}": oc.roll(x, 2, axis), f"order {axis}": oc.argsort(x, axis)}
        found |= {f"top {axis} {n}": t for n, t in enumerate(oc.topk(x, 2, axis))}
    found |= {f"grid {n}": t for n, t in enumerate(oc.meshgrid(x[0, 0], x[:, 0, 0]))}
    found["clipped"] = oc.clip(x, -0.5, 0.5)
    found["joined"] = oc.grad(number(oc.rearrange(x, "a b (c d) -> (d a) (b c)", c=17)), x)
    found["repeated"] = oc.repeat(oc.reduce(x, "a b c -> c", "mean"), "c -> c k", k=3)
    found["reshaped"] = oc.grad(number(x.reshape(17, -1)) + number(x.reshape("b, 2 | k", b=15)), x)
    return computed(ctx, found)


def scans(ctx: oc.Context, dtype: Any) -> Values:
    """Loops over positions of 40 rows, in both directions, and their gradients."""
    x = oc.data(random(dtype, 40, 7, 5), label="x")
    w, u = oc.data(random(dtype, 33, 33), axes="oi"), oc.data(random(dtype, 33, 5), axes="oi")

    def cell(h: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        new = oc.tanh(w @ h / 6 + u @ x)
        return new, new * h

    found: dict[str, oc.Tensor] = {}
    for reverse in (False, True):
        ys, last = oc.scan(cell, 0.0, x, reverse=reverse)
        loss = number(ys) + number(last)
        grads = zip("wux", oc.grad(loss, [w, u, x]), strict=True)
        found |= {f"{key} {reverse}": t for key, t in [("ys", ys), ("last", last), *grads]}
    roots = oc.while_loop(
        lambda s: oc.max(abs(s * s - 2 - x * x)) > 1e-2, lambda s: s / 2 + (1 + x * x / 2) / s, 2, 9
    )
    chosen = oc.cond(oc.sum(x) < 1e6, lambda x: oc.sin(x), lambda x: x * x, roots)
    point = oc.fixed_point(lambda y, x: oc.cos(y) / 2 + x, 0.0, x, tolerance=1e-5)
    sums = oc.associative_scan(lambda a, b: a + b, x, axis=1)
    for name, t in [("roots", roots), ("chosen", chosen), ("point", point), ("sums", sums)]:
        found |= {name: t, f"{name} grad": oc.grad(number(t), x)}
    return computed(ctx, found)


ARRAY_PROGRAMS = {
    "scans": scans,
    "along an axis": along_an_axis,
    "parts": parts,
    "written parts": written_parts,
    "reductions": reductions,
}
