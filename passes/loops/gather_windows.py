"""`gather-windows`: sums that windows scatter become sums that each element gathers, for a GPU."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import functions, single_nests
from ocannl.passes.rewrites.gathered_windows import Gathered, find_scatter, gathered
from ocannl.passes.rewrites.padded_sources import compute_in_place


@dataclass(frozen=True)
class GatherWindowsPass(ModulePass):
    """Sums of products that overlapping windows add to the same elements, as in the gradient of a
    convolution's input, become a sum for each element: the transposed convolution is one of a padded array
    (Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016).

    A local node that one nest computes is computed in the padded array, from which all read it. Where windows
    move by a stride, elements of one remainder are a nest, a phase. So all elements are computed at the same
    time, and contractions are tiled.
    """

    name = "gather-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            labels, found = labels_of(func), list[Gathered]()
            for nest in single_nests(func):
                scatter = find_scatter(func, nest)
                if scatter is not None:
                    found.append(gathered(func, scatter, labels))
            for each in found:
                compute_in_place(func, each.reset, each.copy)
