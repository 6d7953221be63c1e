"""Whole modules: one function per different nest or group, and one entry per routine that calls them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.loops import FuncOp, GroupOp, IndexOp, LoadOp, NestOp, StoreOp
from ocannl.lowering.loops_to_llvm.builder import FunctionBuilder, Position
from ocannl.lowering.loops_to_llvm.group import GroupEmitter
from ocannl.lowering.loops_to_llvm.nest import NestEmitter
from ocannl.lowering.loops_to_llvm.types import value_type
from ocannl.passes.nests import declaration, steps

ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" }'


@dataclass(frozen=True)
class EntryLayout:
    """What a routine's entry `void name(ptr args)` expects in its slots of 8 bytes.

    Slot 0 holds the arena's address. `nodes` are the labels of the nodes with memory of their own, whose
    addresses stand from `node_slot` on; `indices` are the static indices, with their values from `index_slot`
    on.
    """

    nodes: tuple[str, ...]
    indices: tuple[str, ...]
    arena_bytes: int
    arena_slot: int = 0
    node_slot: int = 1

    @property
    def index_slot(self) -> int:
        return self.node_slot + len(self.nodes)

    @property
    def slots(self) -> int:
        return self.index_slot + len(self.indices)


def entry_layout(func: FuncOp) -> EntryLayout:
    """The slots of a routine's entry."""
    arena_bytes = 0
    labels: list[str] = []
    for node in func.body.block.ops:
        if not isinstance(node, NodeOp):
            continue
        if node.mode.data == "local" and node.result.first_use is not None:
            arena_bytes = max(arena_bytes, sum(arena_range(node)))
        elif has_own_memory(node):
            labels.append(node.label.data)
    return EntryLayout(tuple(labels), tuple(n for n, _ in func.indices.data), arena_bytes)


def has_own_memory(node: NodeOp) -> bool:
    """The node is passed by pointer, and keeps its values between runs."""
    return node.mode.data in ("on_device", "constant")


def arena_range(node: NodeOp) -> tuple[int, int]:
    """Offset and size of a local node in the arena, in bytes."""
    assert node.mode.data == "local", f"{node.mode.data} node {node.label.data} is in use"
    assert node.offset is not None, f"local node {node.label.data} has no place in the arena: run plan-memory"
    size = value_type(node.result.type.get_element_type()).bytes
    for extent in node.result.type.get_shape():
        size *= extent
    return node.offset.data, size


def loops_to_llvm(module: ModuleOp) -> str:
    """The LLVM IR text of all routines of a module."""
    emitter = _ModuleEmitter()
    for func in module.body.block.ops:
        if isinstance(func, FuncOp):
            emitter.emit_func(func)
    return "\n\n".join([*emitter.parts, *sorted(emitter.declarations), ATTRIBUTES]) + "\n"


@dataclass
class _ModuleEmitter:
    parts: list[str] = field(default_factory=list[str])
    declarations: set[str] = field(default_factory=set[str])
    kernels: dict[str, str] = field(default_factory=dict[str, str])
    names: set[str] = field(default_factory=set[str])

    def emit_func(self, func: FuncOp) -> None:
        entry = _Entry(func)
        for step in steps(func):
            self.emit_call(func, step, entry)
        self.parts.append(entry.text())

    def emit_call(self, func: FuncOp, step: NestOp | GroupOp, entry: _Entry) -> None:
        nodes, indices = used_names(step, func.ranges)
        b = FunctionBuilder()
        pointers = {node: f"%p{k}" for k, node in enumerate(nodes)}
        positions = {name: Position(f"%s{k}") for k, name in enumerate(indices)}
        if isinstance(step, NestOp):
            NestEmitter(b, step, pointers, positions).emit()
        else:
            GroupEmitter(b, step, pointers, positions).emit()
        apart = disjoint(nodes)
        parameters = [f"ptr{' noalias' if node in apart else ''} {pointers[node]}" for node in nodes]
        parameters += [f"i64 {positions[name].name}" for name in indices]
        kernel = self.kernel(
            f"{func.sym_name.data}.{step.label.data}", f"({', '.join(parameters)}) #0 {{\n{b.text()}"
        )
        self.declarations |= b.declarations
        entry.call(kernel, nodes, indices)

    def kernel(self, name: str, rest: str) -> str:
        """The name of the function with this text, emitted unless an equal one was before."""
        if rest not in self.kernels:
            name = re.sub(r"[^\w.$-]", "_", name, flags=re.ASCII)
            unique, count = name, 1
            while unique in self.names:
                unique, count = f"{name}.{count}", count + 1
            self.names.add(unique)
            self.kernels[rest] = f'@"{unique}"'
            self.parts.append(f'define internal void @"{unique}"{rest}\n  ret void\n}}')
        return self.kernels[rest]


def used_names(step: NestOp | GroupOp, ranges: Mapping[str, int | None]) -> tuple[list[SSAValue], list[str]]:
    """The routine's nodes and static indices that a nest or a group uses, by first use."""
    nodes: dict[SSAValue, None] = {}
    indices: dict[str, None] = {}
    for op in step.body.walk():
        if isinstance(op, LoadOp | StoreOp) and declaration(op.node).parent is not step.body.block:
            nodes[op.node] = None
        if isinstance(op, LoadOp | StoreOp | IndexOp):
            for index in op.indices.data:
                indices.update(dict.fromkeys(n for n, _ in index.terms if n in ranges))
    return list(nodes), list(indices)


def disjoint(nodes: list[SSAValue]) -> set[SSAValue]:
    """The nodes that share no memory with another one of these."""
    places = sorted(
        (arena_range(node.owner), k)
        for k, node in enumerate(nodes)
        if isinstance(node.owner, NodeOp) and node.owner.mode.data == "local"
    )
    shared: set[SSAValue] = set()
    end, last = 0, 0
    for (start, size), k in places:
        if start < end:
            shared |= {nodes[last], nodes[k]}
        if start + size > end:
            end, last = start + size, k
    return set(nodes) - shared


class _Entry:
    """The text of a routine's entry."""

    def __init__(self, func: FuncOp) -> None:
        self.name = func.sym_name.data
        self.layout = layout = entry_layout(func)
        self.lines: list[str] = []
        self.pointers: dict[SSAValue, str] = {}
        if layout.arena_bytes:
            self.lines.append("  %arena = load ptr, ptr %args, align 8")
        slot = layout.node_slot
        for node in func.body.block.ops:
            if not isinstance(node, NodeOp):
                continue
            if node.result.first_use is not None:
                self.load_node(node, slot)
            slot += has_own_memory(node)
        for k, index in enumerate(layout.indices):
            self.load_slot(f"%index.{index}", "i64", layout.index_slot + k)

    def load_node(self, node: NodeOp, slot: int) -> None:
        name = self.pointers[node.result] = f"%n{len(self.pointers)}"
        if has_own_memory(node):
            self.load_slot(name, "ptr", slot)
        else:
            self.lines.append(f"  {name} = getelementptr i8, ptr %arena, i64 {arena_range(node)[0]}")

    def load_slot(self, name: str, type: str, slot: int) -> None:
        self.lines.append(f"  {name}.slot = getelementptr i64, ptr %args, i64 {slot}")
        self.lines.append(f"  {name} = load {type}, ptr {name}.slot, align 8")

    def call(self, kernel: str, nodes: list[SSAValue], indices: list[str]) -> None:
        arguments = [f"ptr {self.pointers[node]}" for node in nodes]
        arguments += [f"i64 %index.{name}" for name in indices]
        self.lines.append(f"  call void {kernel}({', '.join(arguments)})")

    def text(self) -> str:
        return "\n".join(
            [f'define void @"{self.name}"(ptr noalias %args) #0 {{', *self.lines, "  ret void", "}"]
        )
