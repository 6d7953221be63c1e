"""Tables about compiled routines: their kernels with work and times, and the memory of their nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ocannl.dialects.assign.node import KEPT, OWN_MEMORY
from ocannl.dialects.index.linear import Space
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.loops import CollectiveOp, FuncOp, GroupOp, NestOp, ReduceOp, RepeatOp, StepOp
from ocannl.dialects.loops.schedule import schedule_text
from ocannl.passes.analysis.costs.work import bytes_moved, flops
from ocannl.passes.analysis.dataflow.memory import memory_report
from ocannl.passes.analysis.nests import Step, all_steps, functions, is_step
from ocannl.program.text.text_table import table
from ocannl.runtime.cuda.ptxas import Resources

Row: TypeAlias = tuple[str, str, str, str, str]


def memory_table(func: FuncOp, expressions: Mapping[str, str]) -> str:
    """The nodes with their bytes, and the bytes in total; nodes inside of groups are on the stack. Those of
    `expressions`, which have no names, are shown with them.
    """
    rows, found = [("node", "bytes", "mode", "offset", "why")], memory_report(func)
    for row in found:
        offset = "" if row.offset is None else str(row.offset)
        rows.append((row.label, str(row.bytes), row.mode, offset, row.why))
    unnamed = [expressions.get(row.label, "") for row in found]
    if any(unnamed):
        rows = [(*row, own) for row, own in zip(rows, ["expression", *unnamed], strict=True)]
    arena = max((row.offset + row.bytes for row in found if row.offset is not None), default=0)
    own = sum(row.bytes for row in found if row.mode in (*OWN_MEMORY, KEPT))
    return f"{table(rows)}\n{arena + own} bytes: an arena of {arena}, {own} in memory of their own"


def schedule_table(
    func: FuncOp, seconds: Mapping[StepOp, float] | None, resources: Sequence[Resources] | None = None
) -> str:
    """Each nest, group and loop with its scalar operations and bytes; with `seconds`, the time of each, also
    its rates. What is in a loop has the time of all iterations together.
    """
    if resources is not None or has_kernels(func):
        return kernel_table(func, seconds, resources)
    rows = [("kernel", "space", "schedule", "flops", "bytes")]
    rates = [("time", "GFLOP/s", "GB/s")]
    for step in all_steps(func):
        for inner, row in _step_rows(step):
            rows.append(row)
            if seconds is not None:
                rates.append(_rates(seconds, inner, is_repeated=inner is not step))
    return table([(*row, *rate) for row, rate in zip(rows, rates, strict=True)] if seconds else rows)


def _step_rows(step: Step) -> list[tuple[Operation, Row]]:
    """The row of a step, and those of what is inside."""
    work, traffic = str(flops(step)), str(bytes_moved(step))
    match step:
        case NestOp():
            return [(step, (*_nest_cells(step), work, traffic))]
        case GroupOp():
            schedule = "" if step.schedule is None else schedule_text(step.schedule.data)
            head = (step.label.data, space_text(step.space.data), schedule, work, traffic)
            inside = [(nest, (*_nest_cells(nest), str(flops(nest)), "")) for nest in step.nests]
        case CollectiveOp():
            head, inside = (step.head, f"over {step.mesh.data}", "", work, traffic), []
        case RepeatOp():
            head = (f"@{step.body.data}", f"{step.index.data}={step.count.data}", "", work, traffic)
            inside = [row for inner in all_steps(step.func) for row in _step_rows(inner)]
    return [(step, head), *((inner, (f"  {row[0]}", *row[1:])) for inner, row in inside)]


def _nest_cells(nest: NestOp) -> tuple[str, str, str]:
    schedule = "" if nest.schedule is None else schedule_text(nest.schedule.data)
    reduced = [f" {r.accum.data}({space_text(r.space.data)})" for r in nest.walk() if isinstance(r, ReduceOp)]
    return nest.label.data, (space_text(nest.space.data) or "scalar") + "".join(reduced), schedule


def _rates(seconds: Mapping[StepOp, float], step: Operation, *, is_repeated: bool) -> tuple[str, str, str]:
    """The time of a step and, if it runs once, its rates; nothing for a nest of a group."""
    spent = seconds.get(step) if isinstance(step, StepOp) else None
    if spent is None:
        return "", "", ""
    if is_repeated or not is_step(step):
        return f"{1e6 * spent:.2f} us", "", ""
    per_nanosecond = 1e-9 / max(spent, 1e-9)
    work, traffic = flops(step) * per_nanosecond, bytes_moved(step) * per_nanosecond
    return f"{1e6 * spent:.2f} us", f"{work:.3g}", f"{traffic:.3g}"


def has_kernels(func: FuncOp) -> bool:
    """Whether steps of a routine, or of a body that it repeats, are kernels for a GPU."""
    ops = func.body.block.ops
    return any(isinstance(op, LaunchOp) or (isinstance(op, RepeatOp) and has_kernels(op.func)) for op in ops)


def kernel_table(
    func: FuncOp, seconds: Mapping[StepOp, float] | None, resources: Sequence[Resources] | None
) -> str:
    """Each kernel with its blocks, threads and register variables; with its time, its registers and its
    spilled bytes where these are known.
    """
    found = list(_kernel_rows(func))
    rows: list[tuple[str, ...]] = [
        ("kernel", "grid", "block", "registers", "shared bytes"),
        *(row for _, row in found),
    ]
    if resources is not None:
        module = func.parent_op()
        assert isinstance(module, ModuleOp)
        launched = [
            op for each in functions(module) for op in each.body.block.ops if isinstance(op, LaunchOp)
        ]
        taken: dict[Operation, Resources] = dict(zip(launched, resources, strict=True))
        more = [
            (str(taken[op].registers), str(taken[op].spilled)) if op in taken else ("", "") for op, _ in found
        ]
        more = [("registers a thread", "spilled bytes"), *more]
        rows = [(*row, *cells) for row, cells in zip(rows, more, strict=True)]
    if seconds is not None:
        spent = {op: f"{1e6 * second:.2f} us" for op, second in seconds.items()}
        times = ["time", *(spent.get(op, "") for op, _ in found)]
        rows = [(*row, time) for row, time in zip(rows, times, strict=True)]
    return table(rows)


def _kernel_rows(func: FuncOp) -> Iterator[tuple[StepOp, tuple[str, ...]]]:
    """The row of each kernel, loop and collective; the kernels of a loop follow it."""
    for op in func.body.block.ops:
        if isinstance(op, LaunchOp):
            spaces = [space_text(space.data) for space in (op.grid, op.block, op.registers)]
            yield op, (op.label.data, *spaces, str(op.shared_bytes))
        elif isinstance(op, CollectiveOp):
            yield op, (op.head, f"over {op.mesh.data}", "", "", "")
        elif isinstance(op, RepeatOp):
            yield op, (f"@{op.body.data}", f"{op.index.data}={op.count.data}", "", "", "")
            for inner, (label, *cells) in _kernel_rows(op.func):
                yield inner, (f"  {label}", *cells)


def space_text(space: Space) -> str:
    """The variables of a space with their sizes: `i=16 j=8`."""
    return " ".join(f"{n}={s}" for n, s in space)
