"""Kernels as LLVM IR for NVIDIA GPUs: a function for each different kernel, which a host launches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import is_swizzled
from ocannl.dialects.kernel import BarrierOp
from ocannl.dialects.kernel.gpu import SWIZZLED_ALIGNMENT, VECTOR_BYTES, WARPGROUP_ARCH
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.loops import FuncOp, LoadOp, StoreOp
from ocannl.dialects.records import dataclass
from ocannl.lowering.arena import arena_ranges, disjoint
from ocannl.lowering.entry import used_names
from ocannl.lowering.kernels.calls import KernelCall, KernelNames, TensorMap, launches, routines
from ocannl.lowering.kernels.description import RoutineDescription, describe
from ocannl.lowering.kernels_to_llvm.bulk_copies import MAP_PARAMETER
from ocannl.lowering.kernels_to_llvm.device_thread import DeviceThread
from ocannl.lowering.kernels_to_llvm.limits import check_arguments, check_roles, check_shared, limits
from ocannl.lowering.kernels_to_llvm.role_thread import RoleThread
from ocannl.lowering.llvm.builder import FunctionBuilder, Position
from ocannl.lowering.llvm.debug_info import DebugInfo
from ocannl.lowering.llvm.machine import Machine

# Places in PTX, and no sections of debug information, which ptxas makes of them.
DIRECTIVES = "DebugDirectivesOnly"
TRIPLE = "nvptx64-nvidia-cuda"

# Small floats that the hardware converts from and to f32; from sm_89 on it has those of 8 bits, but what is
# too large becomes the greatest finite one there.
CONVERTED = frozenset({"f16", "bf16"})
COMPARED = frozenset({"float"})


@dataclass(frozen=True, slots=True)
class DeviceModule:
    """LLVM IR text of kernels, and the routines that call them."""

    text: str
    routines: tuple[RoutineDescription, ...]


def kernels_to_device(module: ModuleOp, arch: str, *, lines: bool = False) -> DeviceModule:
    """The kernels of all routines of a module, for an NVIDIA GPU of an architecture. With `lines`, their
    instructions have those of the user's program.

    Raises `OcannlError` for what is no kernel yet, and for functions and shared memory that the hardware does
    not have.
    """
    emitter = _DeviceEmitter(arch, DebugInfo(DIRECTIVES) if lines else None)
    found = [
        describe(func, [emitter.emit_launch(func, launch) for launch in launches(func)], str)
        for func in routines(module, "gpu")
    ]
    parts = [f'target triple = "{TRIPLE}"', *sorted(emitter.functions), *emitter.parts]
    parts += [] if emitter.debug is None else [emitter.debug.text()]
    text = "\n\n".join(parts) + "\n"
    return DeviceModule(text, tuple(found))


class _DeviceEmitter:
    def __init__(self, arch: str, debug: DebugInfo | None) -> None:
        self.arch, self.debug = arch, debug
        self.parts: list[str] = []
        self.functions: set[str] = set()
        self.kernels: dict[str, str] = {}
        self.names = KernelNames({"WARP_SZ"})  # a constant of PTX

    def emit_launch(self, func: FuncOp, launch: LaunchOp) -> KernelCall:
        nodes, indices = used_names(launch, func.ranges)
        check_shared(launch, self.arch)
        check_roles(launch, self.arch)
        scope = None if self.debug is None else self.debug.function(launch.label.data, launch)
        place_of = None if self.debug is None or scope is None else partial(self.debug.place, scope)
        b = FunctionBuilder(Machine(CONVERTED, COMPARED), place_of=place_of)
        pointers = {node: f"%p{k}" for k, node in enumerate(nodes)}
        positions = {name: Position(f"%s{k}") for k, name in enumerate(indices)}
        if launch.has_roles:
            kernel = RoleThread(b, launch, pointers, positions)
        else:
            kernel = DeviceThread(b, launch, pointers, positions, self.arch == WARPGROUP_ARCH)
        kernel.emit()
        check_arguments(launch, len(nodes), len(indices), len(kernel.maps))
        self.functions |= {text for text in b.declarations if text.startswith("define")}
        parameters = [
            f"ptr{attributes} {pointers[n]}" for n, attributes in parameter_attributes(launch, nodes)
        ]
        parameters += [f"i64 {positions[name].name}" for name in indices]
        parameters += [f"{MAP_PARAMETER} {name}" for name in kernel.maps.values()]
        head = f"nounwind {limits(launch)}{'' if scope is None else f' !dbg {scope}'}"
        text = f"({', '.join(parameters)}) {head} {{\n{b.text()}\n  ret void\n}}"
        maps = [TensorMap.of(nodes.index(key[0]), *key) for key in kernel.maps]
        name = self.kernel(func, launch, text, kernel.shared)
        return KernelCall.of(launch, name, nodes, indices, maps=maps)

    def kernel(self, func: FuncOp, launch: LaunchOp, text: str, shared: Mapping[str, int]) -> str:
        """The name of the kernel with this text, emitted unless an equal one was before."""
        whole = f"{text}{shared}"
        if whole not in self.kernels:
            unique = self.names.fresh(func, launch, [f"_{array[1:]}" for array in shared])
            arrays = (op for op in launch.body.block.ops if isinstance(op, SharedOp))
            align = SWIZZLED_ALIGNMENT if any(is_swizzled(op.result) for op in arrays) else VECTOR_BYTES
            for array, size in shared.items():
                own = f"@{unique}_{array[1:]}"
                text = re.sub(rf"{array}\b", own, text)
                kind, value = ("internal", " undef") if size else ("external", "")
                self.parts.append(f"{own} = {kind} addrspace(3) global [{size} x i8]{value}, align {align}")
            self.parts.append(f"define ptx_kernel void @{unique}{text}")
            self.kernels[whole] = unique
        return self.kernels[whole]


def parameter_attributes(launch: LaunchOp, nodes: list[SSAValue]) -> list[tuple[SSAValue, str]]:
    """Attributes of each node's pointer in LLVM: `noalias`, where nothing else reaches its memory;
    `readonly`.

    Memory that threads exchange values through at barriers is not `noalias`.
    """
    ops = list(launch.body.walk())
    written = {op.node for op in ops if isinstance(op, StoreOp)}
    passed_on = written & {op.node for op in ops if isinstance(op, LoadOp)}
    waits = any(isinstance(op, BarrierOp) for op in ops)
    apart = disjoint(nodes, arena_ranges(nodes)) - (passed_on if waits else set())
    return [(n, (" noalias" if n in apart else "") + ("" if n in written else " readonly")) for n in nodes]
