"""The kernels of a module and the calls that make up its routines, for the targets that write kernels."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.loops import FuncOp


@dataclass(frozen=True, slots=True)
class KernelCall:
    """What a host launches: a kernel by name, its blocks, the threads and the bytes of shared memory of each,
    and its arguments: first the addresses of nodes, in one `structure` or not, then the values of static
    indices, as 64-bit numbers.
    """

    kernel: str
    blocks: int
    threads: int
    shared_bytes: int
    nodes: tuple[SSAValue, ...]
    indices: tuple[str, ...]
    structure: bool = False

    @staticmethod
    def of(
        launch: LaunchOp,
        kernel: str,
        nodes: Sequence[SSAValue],
        indices: Sequence[str],
        *,
        structure: bool = False,
    ) -> KernelCall:
        return KernelCall(
            kernel,
            launch.blocks,
            launch.threads,
            launch.shared_bytes,
            tuple(nodes),
            tuple(indices),
            structure,
        )


def routines(module: ModuleOp) -> Iterator[FuncOp]:
    """The routines of a module. Raises `OcannlError` for what is none yet."""
    for op in module.body.block.ops:
        if not isinstance(op, FuncOp):
            raise OcannlError(
                at_line(op, f"`{op.name}` has no kernels yet: run the pipeline first, `-p gpu`")
            )
        yield op


def launches(func: FuncOp) -> Iterator[LaunchOp]:
    """The kernels of a routine, in order. Raises `OcannlError` for what is no kernel yet."""
    for step in func.body.block.ops:
        if isinstance(step, LaunchOp):
            yield step
        elif not isinstance(step, NodeOp):
            raise OcannlError(at_line(step, f"`{step.name}` is no kernel yet: run lower-loops-to-kernels"))


@dataclass
class KernelNames:
    """Names of kernels, each different from the others and from those that are `reserved`."""

    reserved: Collection[str] = ()
    taken: set[str] = field(default_factory=set[str])

    def fresh(self, func: FuncOp, launch: LaunchOp) -> str:
        """A new name, of letters, digits and `_`, made of those of the routine and the kernel."""
        name = re.sub(r"\W+", "_", f"{func.sym_name.data}_{launch.label.data}", flags=re.ASCII)
        name = name if re.match(r"[a-zA-Z]", name) else f"k_{name}"
        unique, count = name, 1
        while unique in self.taken or unique in self.reserved:
            unique, count = f"{name}_{count}", count + 1
        self.taken.add(unique)
        return unique
