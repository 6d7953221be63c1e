"""The kernels of PTX as functions of the CPU: an emulation of the module that the text was written of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.loops import FuncOp, StepOp
from ocannl.execute.backends import EMULATED_LEVEL
from ocannl.lowering.entry import entry_layout, entry_symbol, used_names
from ocannl.lowering.kernels.calls import TensorMap, launches
from ocannl.lowering.kernels.description import RoutineDescription, descriptions
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.pipelines import module_text, parse_text
from ocannl.passes.analysis.nests import functions
from ocannl.runtime.cuda.device import PtxWriter
from ocannl.runtime.host.jit import CompiledModule, compile_llvm
from ocannl.runtime.memory import ArgBlock, bind_call


@dataclass(eq=False)
class Kernel:
    """A kernel of a loaded module: how it is launched, and its emulation."""

    name: str
    launch: LaunchOp
    sizes: Sequence[int]
    """The bytes of each node that it takes, at least."""
    indices: Sequence[str]
    args: ArgBlock
    slots: Sequence[int]
    index_slots: Sequence[int]
    run: Callable[[], None]
    code: CompiledModule
    ptx: str
    maps: Sequence[TensorMap]
    most_shared_bytes: int = 48 * 2**10

    @property
    def given_shared_bytes(self) -> int:
        """The dynamic shared memory: all of it, if that is more than kernels may declare."""
        needed = self.launch.shared_bytes
        return needed if needed > 48 * 2**10 else 0


modules: dict[str, str] = {}
"""The kernels that PTX was made of, by its text."""


def kernels_of(ptx: str) -> dict[str, Kernel]:
    """The kernels of PTX by name. The text says how they are called, its module what they do."""
    module = parse_text(modules[ptx])
    calls: dict[str, tuple[FuncOp, RoutineDescription, int]] = {}
    for func, routine in zip(functions(module), descriptions(ptx), strict=True):
        for number, dispatch in enumerate(routine.kernels):
            calls.setdefault(dispatch.function, (func, routine, number))
    funcs = [single(func, number, name) for name, (func, _, number) in calls.items()]
    # So it does not say that they are apart.
    text = to_llvm(ModuleOp(list[Operation](funcs))).replace(" noalias", "")
    code = compile_llvm(text, opt_level=EMULATED_LEVEL)
    found: dict[str, Kernel] = {}
    for (name, (_, routine, number)), func in zip(calls.items(), funcs, strict=True):
        layout = entry_layout(func)
        (launch,) = launches(func)
        values, indices = used_names(launch, func.ranges)
        nodes = [value.owner for value in values if isinstance(value.owner, NodeOp)]
        assert [node.label.data for node in nodes] == routine.kernels[number].buffers
        assert indices == routine.kernels[number].indices
        assert f".visible .entry {name}(" in ptx
        args = ArgBlock(layout.slots)
        slots = [layout.node_slots[node.label.data] for node in nodes]
        index_slots = [layout.index_slot + layout.indices.index(index) for index in indices]
        run = bind_call(code.address(entry_symbol(func.sym_name.data)), args)
        sizes, maps = sizes_of(routine, name), routine.kernels[number].maps
        found[name] = Kernel(name, launch, sizes, indices, args, slots, index_slots, run, code, ptx, maps)
    return found


def sizes_of(routine: RoutineDescription, function: str) -> list[int]:
    """The bytes of the nodes of a kernel; calls of equal kernels may have nodes of different sizes."""
    bytes = {buffer.name: buffer.bytes for buffer in routine.buffers}
    calls = [kernel.buffers for kernel in routine.kernels if kernel.function == function]
    return [min(bytes[name] for name in names) for names in zip(*calls, strict=True)]


def single(whole: FuncOp, number: int, name: str) -> FuncOp:
    """A routine with one of its kernels. All nodes have memory of their own, since another call of an equal
    kernel may find them elsewhere in the arena.
    """
    func = whole.clone()
    func.properties["sym_name"] = StringAttr(name)
    kept = list(launches(func))[number]
    for step in list(func.body.block.ops):
        if isinstance(step, StepOp) and step is not kept:
            step.detach()
            step.erase()
    for node in func.body.block.ops:
        if isinstance(node, NodeOp) and node.result.first_use is not None:
            node.set_mode("on_device", "argument of a kernel")
    return func


def note_kernels(monkeypatch: pytest.MonkeyPatch, see: Callable[[str], None] | None = None) -> None:
    """Remembers what PTX is made of; `see` is called with it."""
    write = PtxWriter.text

    def noted(device: PtxWriter, module: ModuleOp) -> str:
        text = write(device, module)
        modules[text] = module_text(module)
        if see is not None:
            see(text)
        return text

    monkeypatch.setattr(PtxWriter, "text", noted)
