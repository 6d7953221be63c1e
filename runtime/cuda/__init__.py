"""NVIDIA GPUs: PTX, and running it through the driver API of the package cuda-bindings."""

from ocannl.runtime.cuda.device import CudaDevice

__all__ = ["CudaDevice"]
