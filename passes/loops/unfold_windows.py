"""`unfold-windows`: products over windows of few channels become products of matrices, for a GPU."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import labels_of
from ocannl.passes.analysis.nests import functions, single_nests
from ocannl.passes.rewrites.unfolded_windows import Unfolder, find_unfolding

# Fewer products are done before another kernel has started.
LEAST_PRODUCTS = 2**23


@dataclass(frozen=True)
class UnfoldWindowsPass(ModulePass):
    """Im2col (Chellapilla, Puri and Simard, "High Performance Convolutional Neural Networks for Document
    Processing", 2006): sums of products over windows, none of whose axes suffices for tiles, run over the
    columns of a matrix that has a window in each row; and so do the gradients of their kernels.

    So convolutions of few channels are contractions, which are tiled. A convolution and the gradient of its
    kernel share the matrix.

    Attributes:
        least: the products that a nest has at least.
    """

    name = "unfold-windows"
    least: int = LEAST_PRODUCTS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in functions(op):
            unfolder = Unfolder(func, labels_of(func))
            for nest in single_nests(func):
                found = find_unfolding(nest, self.least)
                if found is not None:
                    unfolder.run(found)
