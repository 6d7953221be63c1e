"""Tables about compiled routines: what runs and how, what lives where and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xdsl.dialects.arith import ConstantOp
from xdsl.ir import Operation

from ocannl.dialects.linear import Space
from ocannl.dialects.loops import (
    FuncOp,
    GroupOp,
    IndexOp,
    LoadOp,
    NestOp,
    ReduceOp,
    StoreOp,
    YieldOp,
    schedule_text,
    scope_sizes,
)
from ocannl.passes.nests import nests_of, steps
from ocannl.passes.plan_memory import memory_report


def table(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns; the first row is the heading."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def memory_table(func: FuncOp) -> str:
    rows = [("node", "bytes", "mode", "offset", "why")]
    for row in memory_report(func):
        offset = "" if row.offset is None else str(row.offset)
        rows.append((row.label, str(row.bytes), row.mode, offset, row.why))
    return table(rows)


def schedule_table(func: FuncOp) -> str:
    rows = [("kernel", "space", "schedule", "flops")]
    for step in steps(func):
        if isinstance(step, GroupOp):
            total = sum(flops(nest) for nest in step.nests)
            rows.append((step.label.data, space_text(step.space.data), "", str(total)))
        indent = "  " if isinstance(step, GroupOp) else ""
        for nest in nests_of(step):
            schedule = "" if nest.schedule is None else schedule_text(nest.schedule.data)
            reduced = "".join(
                f" {r.accum.data}({space_text(r.space.data)})" for r in nest.walk() if isinstance(r, ReduceOp)
            )
            space = space_text(nest.space.data) or "scalar"
            rows.append((indent + nest.label.data, space + reduced, schedule, str(flops(nest))))
    return table(rows)


def space_text(space: Space) -> str:
    return " ".join(f"{n}={s}" for n, s in space)


def flops(nest: NestOp) -> int:
    """Scalar operations of one run of the routine, loads and stores not counted."""
    points = math.prod(scope_sizes(nest).values()) * math.prod(s for _, s in nest.space.data)
    return points * _block_flops(nest.body.block.ops)


def _block_flops(ops: Iterable[Operation]) -> int:
    total = 0
    for op in ops:
        if isinstance(op, ReduceOp):
            total += math.prod(s for _, s in op.space.data) * (1 + _block_flops(op.body.block.ops))
        elif not isinstance(op, LoadOp | StoreOp | IndexOp | YieldOp | ConstantOp):
            total += 1
    return total
