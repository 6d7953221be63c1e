"""Metadata with which a host runs the kernels of a text: buffers and launches, as JSON at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.memref import element_bytes, element_type
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.kernel.gpu import STATIC_SHARED_BYTES
from ocannl.dialects.loops import CollectiveOp, FuncOp, RepeatOp, StepOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.precisions import is_float
from ocannl.lowering.arena import arena_range, has_own_memory
from ocannl.lowering.entry import collectives, entry_layout
from ocannl.lowering.kernels.calls import KernelCall, TensorMap
from ocannl.passes.analysis.dataflow.memory import byte_size

HEADING = "// What a host has to know, as JSON:"


@dataclass(frozen=True)
class Buffer:
    """A node, with the target's name of its element type: a buffer of its own, or with an `offset` a part of
    the arena.
    """

    name: str
    type: str
    shape: Sequence[int]
    bytes: int
    mode: str
    offset: int | None = None


@dataclass(frozen=True)
class Dispatch:
    """One launch of a kernel: blocks, threads of each, bytes of shared memory, and which of its buffers
    it writes.

    Its arguments are the buffers, then the values of static indices, of 8 bytes each, then tensor maps. With
    a `structure` one argument, of the GPU addresses of all buffers, comes in place of these.
    """

    function: str
    blocks: int
    threads: int
    shared_bytes: int
    buffers: Sequence[str]
    writes: Sequence[str]
    indices: Sequence[str]
    structure: bool
    maps: Sequence[TensorMap] = ()

    @property
    def given_shared_bytes(self) -> int:
        """The bytes of dynamic shared memory on an NVIDIA GPU: all, if a kernel cannot declare as many."""
        return self.shared_bytes if self.shared_bytes > STATIC_SHARED_BYTES else 0


@dataclass(frozen=True)
class Flag:
    """A buffer of one element at which a loop looks: its bytes, and whether it is a float."""

    buffer: str
    bytes: int
    is_float: bool


@dataclass(frozen=True)
class Loop:
    """A loop over a body, a routine that is described before: the number of this step among the kernels and
    loops of its routine, the index that counts, the buffers of the routine by the names of the body's, the
    flag that is not 0 while it goes on, and the buffer of the body's arena.
    """

    step: int
    body: str
    index: str
    count: int
    bound: Mapping[str, str]
    flag: Flag | None
    workspace: str | None


@dataclass(frozen=True)
class Collective:
    """An exchange of ranks between kernels: the number of this step, as that of a loop; its number
    among the collectives of all routines; and the buffers of the target and the source.
    """

    step: int
    number: int
    target: str
    source: str


@dataclass(frozen=True)
class RoutineDescription:
    """A routine: its kernels, the buffers that they use, the bytes of its arena, its static indices with
    their ranges, and the loops and collectives between the kernels.
    """

    name: str
    arena_bytes: int
    buffers: Sequence[Buffer]
    indices: Mapping[str, int | None]
    kernels: Sequence[Dispatch]
    loops: Sequence[Loop] = ()
    collectives: Sequence[Collective] = ()

    @property
    def steps(self) -> int:
        """The number of kernels, loops and collectives."""
        return len(self.kernels) + len(self.loops) + len(self.collectives)


def describe(
    func: FuncOp, calls: Sequence[KernelCall], type_name: Callable[[Attribute], str]
) -> RoutineDescription:
    """The description of a routine that calls kernels in order."""
    steps = [op for op in operations_of(func.body.block) if isinstance(op, StepOp)]
    repeats = {step: number for number, step in enumerate(steps) if isinstance(step, RepeatOp)}
    exchanges = {step: number for number, step in enumerate(steps) if isinstance(step, CollectiveOp)}
    used = dict.fromkeys(node for call in calls for node in call.nodes)
    used |= dict.fromkeys(node for step in (*repeats, *exchanges) for node in step.nodes)
    return RoutineDescription(
        func.sym_name.data,
        entry_layout(func).arena_bytes,
        tuple(_buffer(node, type_name) for node in used),
        func.ranges,
        tuple(
            Dispatch(
                call.kernel,
                call.blocks,
                call.threads,
                call.shared_bytes,
                tuple(_node(node).label.data for node in call.nodes),
                tuple(_node(node).label.data for node in call.nodes if node in call.written),
                call.indices,
                call.structure,
                call.maps,
            )
            for call in calls
        ),
        tuple(_loop(repeat, number) for repeat, number in repeats.items()),
        tuple(_collective(exchange, number) for exchange, number in exchanges.items()),
    )


def _collective(exchange: CollectiveOp, step: int) -> Collective:
    func = exchange.parent_op()
    module = func and func.parent_op()
    assert isinstance(module, ModuleOp)
    names = [_node(node).label.data for node in (exchange.arrays[0], exchange.arrays[-1])]
    return Collective(step, collectives(module).index(exchange), *names)


def _loop(repeat: RepeatOp, step: int) -> Loop:
    bound = {label: _node(node).label.data for label, node in repeat.bound.items()}
    flag, workspace = repeat.flag, repeat.workspace
    return Loop(
        step,
        repeat.body.data,
        repeat.index.data,
        repeat.count.data,
        bound,
        flag and Flag(_node(flag).label.data, element_bytes(flag), is_float(element_type(flag))),
        workspace and _node(workspace).label.data,
    )


def _buffer(node: SSAValue, type_name: Callable[[Attribute], str]) -> Buffer:
    owner = _node(node)
    offset = None if has_own_memory(owner) else arena_range(owner)[0]
    type, shape = type_name(element_type(node)), owner.result.type.get_shape()
    return Buffer(owner.label.data, type, shape, byte_size(owner), owner.mode.data, offset)


def _node(value: SSAValue) -> NodeOp:
    assert isinstance(value.owner, NodeOp)
    return value.owner


def description_text(routines: Sequence[RoutineDescription]) -> str:
    """The comment with the metadata."""
    text = f'{{"routines": [\n{_rows(map(_routine_text, routines))}]}}'
    return "\n".join([HEADING, *(f"// {line}" for line in text.splitlines())]) + "\n"


def _routine_text(routine: RoutineDescription) -> str:
    buffers, kernels = (
        f"[\n{_rows(map(_part_text, parts))}]" for parts in (routine.buffers, routine.kernels)
    )
    head = json.dumps({"name": routine.name, "arena_bytes": routine.arena_bytes, "indices": routine.indices})
    between = "".join(
        f',\n"{name}": {json.dumps([asdict(step) for step in steps])}'
        for name, steps in (("loops", routine.loops), ("collectives", routine.collectives))
        if steps
    )
    return f'{head[:-1]},\n"buffers": {buffers},\n"kernels": {kernels}{between}}}'


def _part_text(part: Buffer | Dispatch) -> str:
    return json.dumps({name: value for name, value in asdict(part).items() if name != "maps" or value})


def _rows(texts: Iterable[str]) -> str:
    return ",\n".join(texts)


def descriptions(text: str) -> list[RoutineDescription]:
    """Reads the metadata of routines from a text of kernels."""
    _, _, comment = text.rpartition(HEADING)
    found = json.loads("".join(line.removeprefix("//") for line in comment.splitlines()))
    return [
        RoutineDescription(
            routine["name"],
            routine["arena_bytes"],
            [Buffer(**buffer) for buffer in routine["buffers"]],
            routine["indices"],
            [_read_dispatch(kernel) for kernel in routine["kernels"]],
            [_read_loop(loop) for loop in routine.get("loops", ())],
            [Collective(**step) for step in routine.get("collectives", ())],
        )
        for routine in found["routines"]
    ]


def _read_dispatch(kernel: dict[str, Any]) -> Dispatch:
    maps = [TensorMap(**map) for map in kernel.pop("maps", ())]
    return Dispatch(**kernel, maps=maps)


def _read_loop(loop: dict[str, Any]) -> Loop:
    flag = loop.pop("flag")
    return Loop(**loop, flag=None if flag is None else Flag(**flag))
