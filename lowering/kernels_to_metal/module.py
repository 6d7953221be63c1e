"""Whole modules as Metal text: a function for each different kernel, and metadata for the host."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import loaded_type
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.kernel import LaunchOp
from ocannl.dialects.kernel.gpu import METAL_SHARED_BYTES
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.dialects.loops import FuncOp, StoreOp
from ocannl.lowering.entry import used_names
from ocannl.lowering.kernels.calls import KernelCall, KernelNames, launches, routines
from ocannl.lowering.kernels.description import RoutineDescription, describe, description_text
from ocannl.lowering.kernels_to_metal.functions import called, definitions
from ocannl.lowering.kernels_to_metal.names import RESERVED, variable_names
from ocannl.lowering.kernels_to_metal.thread import ThreadWriter
from ocannl.lowering.kernels_to_metal.types import NotInMetal, metal_type

# Limits that every GPU of Apple's allows: arguments of a kernel, and of nodes in a structure.
MOST_ARGUMENTS, MOST_NODES = 31, 512
# The ending of the name of a kernel's structure.
NODES = "_nodes"

# No fast math: the expansions of functions depend on each rounding.
HEAD = """\
// Metal Shading Language 3.1
#include <metal_stdlib>
using namespace metal;

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#define UNROLL _Pragma("clang loop unroll(full)")

// NaN if one of them is.
template <typename T> inline T max_nan(T x, T y) { return y > x || y != y ? y : x; }
template <typename T> inline T min_nan(T x, T y) { return y < x || y != y ? y : x; }"""


def to_metal(module: ModuleOp) -> str:
    """The Metal text of the kernels of all routines of a module, and a description of them for a host.

    Raises `OcannlError` for what is no kernel yet, and for types and functions that Metal does not have.
    """
    writer = _Writer()
    found = [writer.write_routine(func) for func in routines(module, "metal")]
    return "\n\n".join([HEAD, *definitions(writer.called), *writer.parts, description_text(found)])


class _Writer:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.kernels: dict[str, str] = {}
        self.names = KernelNames(set(RESERVED))
        self.called: set[str] = set()

    def write_routine(self, func: FuncOp) -> RoutineDescription:
        calls: list[KernelCall] = []
        for launch in launches(func):
            try:
                calls.append(self.write_kernel(func, launch))
            except NotInMetal as error:
                raise OcannlError(at_line(launch, f"kernel {launch.label.data!r}: {error}")) from None
        return describe(func, calls, metal_type)

    def write_kernel(self, func: FuncOp, launch: LaunchOp) -> KernelCall:
        nodes, indices = used_names(launch, func.ranges)
        if launch.shared_bytes > METAL_SHARED_BYTES:
            raise NotInMetal(
                f"it has {launch.shared_bytes} bytes of shared memory, and Metal has {METAL_SHARED_BYTES}"
            )
        if launch.has_roles:
            raise NotInMetal("its threads have roles: run lower-loops-to-kernels{roles=false}")
        if any(isinstance(op, MmaOp) for op in launch.body.walk()):
            raise NotInMetal("`kernel.mma` has no text: run lower-loops-to-kernels{tensor_cores=false}")
        key = f"{launch.threads}{function_text(launch, nodes, indices, '')}"
        structure = needs_structure(len(nodes), len(indices))
        if key not in self.kernels:
            self.kernels[key] = name = self.names.fresh(func, launch, [NODES] if structure else [])
            self.parts.append(function_text(launch, nodes, indices, name))
            self.called |= called(launch.body.walk())
        return KernelCall.of(launch, self.kernels[key], nodes, indices, structure=structure)


def function_text(launch: LaunchOp, nodes: Sequence[SSAValue], indices: Sequence[str], name: str) -> str:
    """The function of a kernel. Where it has too many arguments, a structure has the addresses of nodes."""
    names = variable_names()
    arrays = {node: f"p{k}" for k, node in enumerate(nodes)}
    written = {op.node for op in launch.body.walk() if isinstance(op, StoreOp)}
    pointers = [
        f"{'' if node in written else 'const '}device {metal_type(loaded_type(node))} *" for node in nodes
    ]
    parameters = [f"{type}{name}" for type, name in zip(pointers, arrays.values(), strict=True)]
    structure, locals = "", list[str]()
    if needs_structure(len(nodes), len(indices)):
        structure = f"struct {name}{NODES} {{\n" + "".join(f"  {p};\n" for p in parameters) + "};\n\n"
        locals = [f"  {type}const p{k} = nodes.p{k};" for k, type in enumerate(pointers)]
        parameters = [f"constant {name}{NODES} &nodes"]
    parameters += [f"constant long &{names[index]}" for index in indices]
    if len(parameters) > MOST_ARGUMENTS or len(nodes) > MOST_NODES:
        raise NotInMetal(
            f"it uses {len(nodes)} nodes and {len(indices)} static indices; "
            f"Metal takes {MOST_NODES} and {MOST_ARGUMENTS - 1}"
        )
    declared = [f"    {parameter} [[buffer({k})]]," for k, parameter in enumerate(parameters)]
    return "\n".join(
        [
            f"{structure}[[kernel, max_total_threads_per_threadgroup({launch.threads})]]",
            f"void {name}(",
            *declared,
            "    uint block_number [[threadgroup_position_in_grid]],",
            "    uint thread_number [[thread_index_in_threadgroup]]) {",
            *locals,
            *ThreadWriter(launch, arrays, names).write(),
            "}",
        ]
    )


def needs_structure(nodes: int, indices: int) -> bool:
    """Whether a kernel has more arguments than Metal takes."""
    return nodes + indices > MOST_ARGUMENTS
