"""The kernels of a routine and their launches, for all emitters of kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.memref import element_bytes, memref_shape
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.loops import CollectiveOp, FuncOp, RepeatOp, StoreOp
from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The facts of a node that bulk copies need: the number of its buffer among those of a kernel, the bytes
    of an element, its sizes in memory, and those of the `box` that a copy moves. The last axis is contiguous.
    Where rows in memory are padded, `extents` are the sizes without padding. Copies of a map that `rounds`
    round f32 to TF32, to the nearest.
    """

    buffer: int
    bytes: int
    shape: Sequence[int]
    box: Sequence[int]
    extents: Sequence[int] = ()
    rounds: bool = False

    @staticmethod
    def of(
        buffer: int, node: SSAValue, box: Sequence[int], extents: Sequence[int], rounds: bool
    ) -> TensorMap:
        shape = memref_shape(node)
        return TensorMap(buffer, element_bytes(node), shape, box, extents if extents != shape else (), rounds)


@dataclass(frozen=True, slots=True)
class KernelCall:
    """The launch of a kernel by a host: blocks, threads of each, bytes of shared memory of each, and
    arguments.

    These are first the addresses of nodes, all in one `structure` or each by itself, then the values of
    static indices, as 64-bit numbers, then tensor maps.
    """

    kernel: str
    blocks: int
    threads: int
    shared_bytes: int
    nodes: tuple[SSAValue, ...]
    written: frozenset[SSAValue]
    indices: tuple[str, ...]
    structure: bool = False
    maps: tuple[TensorMap, ...] = ()

    @staticmethod
    def of(
        launch: LaunchOp,
        kernel: str,
        nodes: Sequence[SSAValue],
        indices: Sequence[str],
        *,
        structure: bool = False,
        maps: Sequence[TensorMap] = (),
    ) -> KernelCall:
        return KernelCall(
            kernel,
            launch.blocks,
            launch.all_threads,
            launch.shared_bytes,
            tuple(nodes),
            frozenset(op.node for op in launch.body.walk() if isinstance(op, StoreOp)),
            tuple(indices),
            structure,
            tuple(maps),
        )


def routines(module: ModuleOp, pipeline: str) -> Iterator[FuncOp]:
    """The routines of a module. Raises `OcannlError` for other operations, which a pipeline lowers."""
    for op in module.body.block.ops:
        if not isinstance(op, FuncOp):
            wanted = f"run the pipeline first, `-p {pipeline}`"
            raise OcannlError(at_line(op, f"`{op.name}` has no kernels yet: {wanted}"))
        yield op


def launches(func: FuncOp) -> Iterator[LaunchOp]:
    """The kernels of a routine, in order. Raises `OcannlError` for steps that are not lowered."""
    for step in func.body.block.ops:
        if isinstance(step, LaunchOp):
            yield step
        elif not isinstance(step, NodeOp | RepeatOp | CollectiveOp):
            raise OcannlError(at_line(step, f"`{step.name}` is no kernel yet: run lower-loops-to-kernels"))


@dataclass
class KernelNames:
    """Names of kernels, each different from the others and from those that are `taken` before."""

    taken: set[str] = field(default_factory=set[str])

    def fresh(self, func: FuncOp, launch: LaunchOp, endings: Sequence[str] = ()) -> str:
        """A new name, of letters, digits and `_`, made of those of the routine and the kernel. With each of
        the endings, it names something that belongs to the kernel.
        """
        name = re.sub(r"\W+", "_", f"{func.sym_name.data}_{launch.label.data}", flags=re.ASCII)
        name = name if re.match(r"[a-zA-Z]", name) else f"k_{name}"
        unique, count = name, 1
        while not self.taken.isdisjoint(own := [unique + e for e in ("", *endings)]):
            unique, count = f"{name}_{count}", count + 1
        self.taken.update(own)
        return unique
