"""Proofs of shapes on the page: for each expression the lines from which its shape follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ocannl.dialects import texpr
from ocannl.dialects.ir.origins import name_of
from ocannl.dialects.texpr.tensor_type import shape_of
from ocannl.passes.texpr.infer_shapes.descriptions import tensor_name
from ocannl.program.values import Value, operation_of
from ocannl.program.why.equal_proofs import EqualProofs
from ocannl.program.why.reasons import given_by, lines_of
from ocannl.runtime.locks import shared
from ocannl.viewer.levels import Levels
from ocannl.viewer.reasons import numbers_of


@dataclass
class Proofs:
    """The proofs of the shapes of values, given by label: `oc.why(t.shape)` of each. `lines` are all that
    they consist of, by file, line and text; a proof has their numbers.
    """

    values: Mapping[str, Value]
    lines: list[int] = field(default_factory=list[int])
    pictures: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _numbers: dict[texpr.TensorOp, int] = field(default_factory=dict[texpr.TensorOp, int])

    def read(self, routine: texpr.TexprRoutineOp, levels: Levels) -> None:
        """Takes the proofs of the shapes that a routine has after inference."""
        if not self.values:
            return
        with shared:
            proofs = EqualProofs([operation_of(value) for value in self.values.values()])
            for op in routine.body.block.ops:
                # A size is a number by itself.
                if isinstance(op, texpr.TensorOp) and not isinstance(op, texpr.SizeOp):
                    self._read(op, proofs, levels)

    def _read(self, op: texpr.TensorOp, proofs: EqualProofs, levels: Levels) -> None:
        """Takes the proof of one; a gradient has the shape of what it is of."""
        source = op.source.owner if isinstance(op, texpr.OfOp) else op
        value = self.values.get(_name(source)) if isinstance(source, texpr.TensorOp) else None
        lines = None if value is None else proofs.of(value)
        if value is None or lines is None or proofs.shape(value) != shape_of(op.result):
            return
        name = _name(op) if isinstance(op, texpr.OfOp) else tensor_name(value)
        answer = f"`{name}` has the shape {shape_of(op.result)}"
        numbers = [self._number(line, levels) for line in lines]
        own = {"answer": levels.text(answer), "origins": levels.set_of(op.location)}
        self.pictures.append({**own, "lines": numbers})

    def _number(self, line: texpr.TensorOp, levels: Levels) -> int:
        if line not in self._numbers:
            self._numbers[line] = len(self._numbers)
            self.lines += numbers_of(lines_of([line], given_by([line])), levels)
        return self._numbers[line]


def _name(op: texpr.TensorOp) -> str:
    """The label that an expression was extracted by."""
    return name_of(op.location) or ""
