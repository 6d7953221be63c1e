"""Fixed points, with derivatives by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable

from ocannl.dialects.shapes.shape import Dim
from ocannl.program.arguments.checks import integer
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.eager.cells import in_cell
from ocannl.program.loops.carried_shapes import check_carries
from ocannl.program.loops.loop import Loop, arguments
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.values import now, values_of


def fixed_point(
    f: Callable[..., TensorLike], x0: TensorLike, *args: TensorLike, tolerance: float = 1e-6, most: int = 100
) -> Tensor:
    """The `x` for which `x = f(x, *args)`, by iteration from `x0` until no element changes by more than
    `tolerance` but to NaN, `most` times at most. Random numbers are the same in all iterations.

    Derivatives are those of the implicit function theorem, which a second iteration solves, to `tolerance`
    times the greatest element that it begins with, so that no iteration is saved (Bai et al., "Deep
    Equilibrium Models", 2019). They go to `args` and to all else that `f` uses, but not to `x0`. Where `f`
    does not contract, neither of them converges.
    """
    if not tolerance >= 0:
        raise ArgumentError(f"a tolerance is 0 or more, found {tolerance}")
    since, count = now(), Dim(integer(most, "the most iterations of a loop"))
    (carry,) = carries = arguments([(as_tensor(x0).ir_value, None)], count, f)
    inits = [values_of(carry.op)[0]]
    with in_cell():
        found = as_tensor(f(Tensor(carry), *args)).ir_value
    check_carries("a fixed point", inits, carries, [found])
    loop = Loop(count, inits, [], carries, False, since, within=tolerance)
    (last,), _ = loop.results([found], [])
    return Tensor(last)
