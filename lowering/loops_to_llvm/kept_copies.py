"""Copies that are kept between runs: how often memory was written, and the copy of what has changed."""

from __future__ import annotations

from ocannl.dialects.loops import LoadOp, StoreOp
from ocannl.lowering.arena import COPIED, VERSION
from ocannl.lowering.loops_to_llvm.frame import load_slot
from ocannl.lowering.loops_to_llvm.nest import NestEmitter


def count_write(name: str, slot: int) -> list[str]:
    """Counts a write of the node in a slot; other lines have no names that begin with this one."""
    return [
        *load_slot("%args", name, "ptr", slot),
        f"  {name}.at = getelementptr i8, ptr {name}, i64 {VERSION}",
        f"  {name}.before = load i64, ptr {name}.at, align 8",
        f"  {name}.after = add i64 {name}.before, 1",
        f"  store i64 {name}.after, ptr {name}.at, align 8",
    ]


def emit_where_stale(nest: NestEmitter) -> None:
    """Emits a nest that writes a kept copy: it runs where its source was written since, or where that is not
    counted.
    """
    b = nest.b
    (load,) = (op for op in nest.nest.body.block.ops if isinstance(op, LoadOp))
    (store,) = (op for op in nest.nest.body.block.ops if isinstance(op, StoreOp))
    version, copied = word(nest, load, VERSION), word(nest, store, COPIED)
    now = b.emit(f"load i64, ptr {version}, align 8")
    before = b.emit(f"load i64, ptr {copied}, align 8")
    changed, unknown = b.emit(f"icmp ne i64 {now}, {before}"), b.emit(f"icmp slt i64 {now}, 1")
    branch = b.open_branch(b.emit(f"or i1 {changed}, {unknown}"))
    nest.emit()
    b.emit_void(f"store i64 {now}, ptr {copied}, align 8")
    b.close_branch(branch)


def word(nest: NestEmitter, op: LoadOp | StoreOp, offset: int) -> str:
    """The address of a number before the memory of an access."""
    pointer, start = nest.env.pointers[op.node], nest.env.first_byte(op.node)
    return nest.b.emit(f"getelementptr i8, ptr {pointer}, i64 {offset - start}")
