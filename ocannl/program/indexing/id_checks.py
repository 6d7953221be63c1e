"""Checks of ids at run time: statements that find a wrong id, and the error that names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.texpr import ForwardOp

# Stands for larger ids, since infinity is the least of no ids.
GREATEST = float(np.finfo(np.float32).max)


UNLABELLED = -100
"""The id of what has no class, in data made for PyTorch."""


@dataclass(frozen=True)
class IdCheck:
    """The check that all ids of a tensor are positions of an axis of this size.

    `statement` computes the least id that is not a position, in f32; infinity if all are. `place` is what the
    ids choose from, where it has a name. Checks with equal keys are the same, as long as no memory
    changes that the ids read.
    """

    op: Operation
    ids: str
    size: Callable[[], int]
    statement: ForwardOp
    place: str | None = None
    key: Hashable = field(default_factory=object)

    def raise_for(self, least: float) -> None:
        """Raises `OcannlError` if there is an id that is not a position."""
        if least != math.inf:
            found = "inf" if least >= GREATEST else f"{least:.9g}"
            where = "" if self.place is None else f"in `{self.place}`, "
            size = self.size()
            known = f"outside of 0 to {size - 1}, the positions of an axis of size {size}"
            if not size:
                known = "outside of an axis that has no positions"
            if least == UNLABELLED:
                known += ": ignore_index=-100 of a loss leaves it out, as PyTorch does"
            raise OcannlError(at_line(self.op, f"{where}the id {found} in `{self.ids}` is {known}"))


def least_wrong() -> Term:
    """The id, of the arguments id, size and id in f32, if it is not a position; else infinity."""
    is_whole = App("eq", (Arg(0), App("floor", (Arg(0),))))
    is_inside = App("and", (App("le", (Const(0), Arg(0))), App("lt", (Arg(0), Arg(1)))))
    id = App("min", (Arg(2), Const(GREATEST)))
    return App("where", (App("and", (is_inside, is_whole)), Const(math.inf), id))
