"""The dialects and passes of the project as an xDSL universe, for the tools of xDSL."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from ocannl.dialects.assign import ASSIGN
from ocannl.dialects.kernel import KERNEL
from ocannl.dialects.loops import LOOPS
from ocannl.dialects.texpr import TEXPR
from ocannl.lowering.pipelines import PIPELINES


def _dialect(dialect: Dialect) -> Callable[[], Dialect]:
    return lambda: dialect


def _pass(found: type[ModulePass]) -> Callable[[], type[ModulePass]]:
    return lambda: found


OCANNL_UNIVERSE = Universe(
    all_dialects={d.name: _dialect(d) for d in (TEXPR, ASSIGN, LOOPS, KERNEL)},
    all_passes={
        p.name: _pass(p if isinstance(p, type) else p.made) for passes in PIPELINES.values() for p in passes
    },
)
