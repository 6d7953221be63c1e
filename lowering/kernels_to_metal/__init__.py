"""Writes kernels as Metal Shading Language, for the GPUs of Apple's computers."""

from ocannl.lowering.kernels_to_metal.module import to_metal

__all__ = ["to_metal"]
