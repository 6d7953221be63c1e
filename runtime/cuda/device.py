"""NVIDIA GPUs as devices of routines, whose kernels are PTX."""

from __future__ import annotations

import weakref
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from ocannl.dialects.ir.errors import DeviceError
from ocannl.lowering.kernels.description import Dispatch, descriptions
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET
from ocannl.runtime.cuda.driver import CudaError
from ocannl.runtime.cuda.gpu import Gpu, check_runs
from ocannl.runtime.cuda.program import CudaProgram
from ocannl.runtime.cuda.ptx import ARCHS, ptx_text
from ocannl.runtime.interface import Interface
from ocannl.runtime.kernel_plan import kernel_plan
from ocannl.runtime.settings import config, is_on

LOG_BYTES = 8192


class PtxWriter:
    """Writes PTX of routines for an architecture."""

    language = "ptx"
    target = DEFAULT_TARGET
    arch: str

    @property
    def key(self) -> str:
        return self.arch

    @property
    def lines(self) -> bool:
        """Whether debuggers and profilers are told the user's lines, as `OCANNL_DEBUG_INFO` says."""
        return is_on("debug_info")

    def text(self, module: ModuleOp) -> str:
        return ptx_text(module, self.arch, lines=self.lines)


class CudaDevice(PtxWriter, Gpu):
    """An NVIDIA GPU that writes, loads and runs routines: for the architecture `arch`, by default
    `OCANNL_CUDA_ARCH`, else its own one.

    Raises `DeviceError` where there is no such GPU, or it runs no code for the architecture.
    """

    def __init__(self, number: int = 0, arch: str | None = None) -> None:
        super().__init__(number)
        if wanted := arch or config["cuda_arch"]:
            check_runs(self.name, self.capability(), wanted)
            self.arch = wanted

    def program(self, text: str, interface: Interface) -> CudaProgram:
        """The routine of PTX that has one. Raises `DeviceError`."""
        self.enter()
        routines = descriptions(text)
        module = self.load(text)
        kernels = {kernel.function: kernel for routine in routines for kernel in routine.kernels}
        functions = {name: self.function(module, kernel) for name, kernel in kernels.items()}
        plan = kernel_plan(routines, interface.layout)
        program = CudaProgram(self, interface.name, plan, routines[-1].steps, interface.layout, functions)
        weakref.finalize(program, self.unload, module)
        return program

    def function(self, module: Any, kernel: Dispatch) -> Any:
        """A kernel of a module, with leave to use the shared memory that it needs. Raises `DeviceError`."""
        found = self.ask("cuModuleGetFunction", module, kernel.function.encode())
        if kernel.given_shared_bytes:
            most = self.driver.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.ask("cuFuncSetAttribute", found, most, kernel.given_shared_bytes)
        return found

    def load(self, text: str) -> Any:
        """A module of PTX, compiled by the driver. Raises `DeviceError` with the log of the driver."""
        options, log = self.driver.api.CUjit_option, bytearray(LOG_BYTES)
        given = {options.CU_JIT_ERROR_LOG_BUFFER: log, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: len(log)}
        if self.lines:
            given[options.CU_JIT_GENERATE_LINE_INFO] = 1
        try:
            return self.driver.call(
                "the NVIDIA driver rejects the kernels",
                "cuModuleLoadDataEx",
                text.encode() + b"\0",
                len(given),
                [*given],
                [*given.values()],
            )
        except CudaError as error:
            if error.code == "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
                raise DeviceError(
                    f"the NVIDIA driver is too old for kernels of {self.arch}: it is for CUDA "
                    f"{self.driver.version()} ({error.code}); arch={ARCHS[0]!r} asks least of it"
                ) from None
            said = log.split(b"\0", 1)[0].decode(errors="replace").strip()
            raise CudaError(f"{error}\n{said}" if said else str(error), error.code) from None

    def unload(self, module: Any) -> None:
        """Unloads a module after its last kernel. Its errors are those of an earlier call, which has raised
        them.
        """
        with self.for_now() as api:
            api.cuStreamSynchronize(self.stream)
            api.cuModuleUnload(module)
