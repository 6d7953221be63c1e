"""Parallel regions of OpenMP runtimes, as the function of libgomp that compiled code calls.

Source: "LLVM OpenMP Runtime Interface" (kmp_csupport.cpp) of libomp and libiomp5; of vcomp140, what code of
Microsoft's compiler calls.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ocannl.runtime.host.jit import CompiledModule, compile_llvm

PARALLEL = "GOMP_parallel"
"""`void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags)`. The runtimes
of LLVM and Intel have it as well, but not on Windows.
"""
# The same by other functions of a runtime: those that it needs, and the text that calls them.
KMP = """
@where = private constant [23 x i8] c";unknown;unknown;0;0;;\\00", align 1
@place = private constant { i32, i32, i32, i32, ptr } { i32 0, i32 2, i32 0, i32 22, ptr @where }, align 8

declare i32 @__kmpc_global_thread_num(ptr)
declare void @__kmpc_push_num_threads(ptr, i32, i32)
declare void @__kmpc_fork_call(ptr, i32, ptr, ...)

define internal void @body(ptr %number, ptr %bound, ptr %function, ptr %data) nounwind {
  call void %function(ptr %data)
  ret void
}

define void @GOMP_parallel(ptr %function, ptr %data, i32 %threads, i32 %flags) nounwind {
  %thread = call i32 @__kmpc_global_thread_num(ptr @place)
  call void @__kmpc_push_num_threads(ptr @place, i32 %thread, i32 %threads)
  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr @place, i32 2, ptr @body, ptr %function, ptr %data)
  ret void
}
"""
VCOMP = """
declare void @omp_set_num_threads(i32)
declare void @_vcomp_fork(i32, i32, ptr, ...)

define internal void @body(ptr %function, ptr %data) nounwind {
  call void %function(ptr %data)
  ret void
}

define void @GOMP_parallel(ptr %function, ptr %data, i32 %threads, i32 %flags) nounwind {
  call void @omp_set_num_threads(i32 %threads)
  call void (i32, i32, ptr, ...) @_vcomp_fork(i32 1, i32 2, ptr @body, ptr %function, ptr %data)
  ret void
}
"""
INTERFACES = (
    (("__kmpc_global_thread_num", "__kmpc_push_num_threads", "__kmpc_fork_call"), KMP),
    (("omp_set_num_threads", "_vcomp_fork"), VCOMP),
)


def address(library: Any, name: str) -> int | None:
    """The address of a function of a library, if it has that."""
    found = getattr(library, name, None)
    return None if found is None else ctypes.cast(found, ctypes.c_void_p).value


def parallel(library: Any) -> tuple[int, CompiledModule | None] | None:
    """The address of a runtime's `GOMP_parallel`, with its code where that is ours; None if the runtime has
    no parallel regions.
    """
    if own := address(library, PARALLEL):
        return own, None
    for names, text in INTERFACES:
        symbols = {name: found for name in names if (found := address(library, name))}
        if len(symbols) == len(names):
            code = compile_llvm(text, symbols=symbols)
            return code.address(PARALLEL), code
    return None
