"""The pass `infer-precisions` and its parts: types of floats, of whole numbers, and of numbers in terms."""

from ocannl.passes.texpr.infer_precisions.infer_precisions import InferPrecisionsPass

__all__ = ["InferPrecisionsPass"]
