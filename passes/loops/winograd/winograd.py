"""`winograd`: convolutions of 3 x 3 by tiles of 2 x 2 positions, with fewer multiplications."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ocannl.dialects.loops import FuncOp, NestOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.names import Names, labels_of
from ocannl.passes.analysis.nests import functions, nests
from ocannl.passes.analysis.patterns.convolutions import find_convolution
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.analysis.targets.target_options import TargetOptions
from ocannl.passes.loops.winograd.blocks import pays
from ocannl.passes.loops.winograd.scattered import gathered_nests
from ocannl.passes.loops.winograd.tiling import Tiling, extents_of
from ocannl.passes.loops.winograd.transforms import OFFSETS, POSITIONS


@dataclass(frozen=True)
class WinogradPass(TargetOptions, ModulePass):
    """Minimal filtering F(2 x 2, 3 x 3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
    2016): a tile of 2 x 2 sums of 3 x 3 products takes 16 multiplications of transformed operands in place of
    36, which are products of matrices over the channels.

    So do the gradients of images and of kernels. Convolutions of f32 whose positions are even are rewritten
    where a model of multiplications, transformations and traffic between caches expects that to pay; for a
    target without `winograd`, none.
    """

    name = "winograd"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.target.winograd:
            return
        for func in functions(op):
            labels = labels_of(func)
            for nest in nests(func):
                for found in gathered_nests(func, nest, labels, self.target) or [nest]:
                    tile(found, labels, self.target)


def tile(nest: NestOp, labels: Names, target: TargetDescription) -> None:
    """Makes a nest that is a convolution one of tiles, if that pays."""
    found = find_convolution(nest, OFFSETS, POSITIONS) if isinstance(nest.parent_op(), FuncOp) else None
    if found is not None and pays(extents_of(found), target):
        Tiling(found, labels, target).run()
