"""`gather-windows`: sums that windows scatter become sums that each element gathers, for a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import functions, single_nests
from ocannl.passes.rewrites.gathered_windows import find_scatter, gathered


@dataclass(frozen=True)
class GatherWindowsPass(ModulePass):
    """Sums of products that overlapping windows add to the same elements, as in the gradient of a
    convolution's input, become a sum for each element: the transposed convolution is one of a padded array
    (Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016).

    Where windows move by a stride, elements of one remainder are a nest, a phase. So all elements are
    computed at the same time, and contractions are tiled.
    """

    name = "gather-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            labels = labels_of(func)
            for nest in single_nests(func):
                scatter = find_scatter(func, nest)
                if scatter is not None:
                    gathered(func, scatter, labels)
