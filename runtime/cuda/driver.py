"""Calls of NVIDIA's driver."""

from __future__ import annotations

import importlib
from typing import Any

from ocannl.dialects.ir.errors import DeviceError

BINDINGS = "cuda.bindings.driver"
NO_BINDINGS = (
    "CUDA runs through the package cuda-bindings: pip install 'ocannl[cuda]'; "
    "this Python has no module `cuda.bindings`"
)
NO_DRIVER = (
    "there is no NVIDIA driver here: install that of the GPU; a container needs the one of its host, "
    "as by `docker run --gpus all`"
)
NO_START = "the NVIDIA driver does not start"
NO_GPU = "the NVIDIA driver finds no GPU; CUDA_VISIBLE_DEVICES may hide it"


class CudaError(DeviceError):
    """A failed call of the driver; `code` is a name such as `CUDA_ERROR_OUT_OF_MEMORY`.

    Without one it can be unpickled, which sets it later.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Driver:
    """The driver's functions and types: `api` is their module.

    Raises `DeviceError` where there is no driver, or no GPU for it.
    """

    def __init__(self) -> None:
        try:
            self.api: Any = importlib.import_module(BINDINGS)
            (code,) = self.api.cuInit(0)
        except ImportError:
            raise DeviceError(NO_BINDINGS) from None
        except RuntimeError as missing:
            raise DeviceError(NO_DRIVER) from missing
        except ValueError as unknown:
            raise DeviceError(f"{NO_START}: {unknown}") from None
        if code == self.api.CUresult.CUDA_ERROR_NO_DEVICE:
            raise DeviceError(NO_GPU)
        if code:
            raise self.error(NO_START, code)

    def call(self, failure: str, function: str, *arguments: Any) -> Any:
        """The first result of a function, None if it has none. Raises as `results` does."""
        results = self.results(failure, function, *arguments)
        return results[0] if results else None

    def results(self, failure: str, function: str, *arguments: Any) -> list[Any]:
        """The results of a function.

        Raises `CudaError` that begins with `failure` where the driver refuses, and `DeviceError` where it has
        no such function.
        """
        try:
            code, *results = getattr(self.api, function)(*arguments)
        except RuntimeError as missing:
            (_, number) = self.api.cuDriverGetVersion()
            wanted = f"pip install 'cuda-bindings=={number // 1000}.*'"
            said = f"{missing}; the driver is for CUDA {version_text(number)}: {wanted}"
            raise DeviceError(f"{failure}: {said}") from None
        except (ValueError, OverflowError) as error:
            raise DeviceError(f"{failure}: {error}") from None
        if code:
            raise self.error(failure, code)
        return results

    def error(self, failure: str, code: Any) -> CudaError:
        """The error for a result other than success, with the driver's description."""
        answers = [get(code) for get in (self.api.cuGetErrorName, self.api.cuGetErrorString)]
        name, words = (f"error {int(code)}" if unknown else text.decode() for unknown, text in answers)
        return CudaError(f"{failure}: {words} ({name})", name)

    def version(self) -> str:
        """The latest version of CUDA that the driver knows."""
        return version_text(int(self.call("the NVIDIA driver tells no version", "cuDriverGetVersion")))


def version_text(number: int) -> str:
    """A version of CUDA, as the driver tells it, as people write it."""
    return f"{number // 1000}.{number % 1000 // 10}"
