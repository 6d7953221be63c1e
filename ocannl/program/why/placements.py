"""Placements that tensors have in a program for a mesh, and what they follow from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from xdsl.ir import Operation

from ocannl.dialects.ir.errors import OcannlError, location_text
from ocannl.dialects.routine import STAGE
from ocannl.lowering.pipelines import passes_until, run_passes
from ocannl.passes.analysis.infer_placements.problem import Placements
from ocannl.passes.texpr.fold_layers.fold_layers import FoldLayersPass
from ocannl.passes.texpr.partition.explain import chain, placement_text
from ocannl.passes.texpr.partition.partition import Partition
from ocannl.program.meshes.mesh import latest_mesh
from ocannl.program.module.extract import extract
from ocannl.program.values import Value, label_of
from ocannl.program.why.reasons import Line, Reasons

BEFORE = "distribute-scans"
"""The pass before `partition`."""


class OfValue(Protocol):
    """A tensor."""

    @property
    def ir_value(self) -> Value: ...


class PlacementView:
    """How a tensor is split in a program, for the mesh that was made last. Reading it decides nothing."""

    def __init__(self, value: Value, statements: Sequence[Operation]) -> None:
        self._value = value
        self._statements = statements

    @cached_property
    def _found(self) -> list[tuple[str, list[Line]]]:
        """How it is split over each mesh axis, and why."""
        mesh = latest_mesh()
        if mesh is None:
            raise OcannlError('there is no mesh: oc.Mesh({"data": 4}) makes one')
        program = extract(self._statements, "placement")
        program.routine.set_mesh(mesh.program_axes)
        copy = program.copies.get(self._value)
        # Layers that are folded are left out, and the value may be of one of these.
        run_passes(program.module, [p for p in passes_until("cpu", BEFORE) if p is not FoldLayersPass])
        found: list[tuple[str, list[Line]]] = []
        for axis, ranks in mesh.sizes.items():
            if ranks > 1 and axis != STAGE:
                partition = Partition(program.routine, axis, ranks)
                placements = partition.solve()
                number = None if copy is None else partition.program.numbers.get(copy)
                if number is None:
                    raise OcannlError(f"the program does not compute `{label_of(self._value)}`")
                found.append(self._over(partition, placements, number))
                partition.rewrite(placements)
        return found

    def _over(self, partition: Partition, placements: Placements, number: int) -> tuple[str, list[Line]]:
        lines = chain(partition.program, placements, number)
        text = placement_text(partition.program, placements, number)
        return text, [Line(location_text(op), said) for op, said in lines]

    @property
    def reasons(self) -> Reasons:
        """The placement, and the lines that it follows from, the nearest first."""
        lines = [line for _, own in self._found for line in own]
        return Reasons(f"`{label_of(self._value)}` is {self}", tuple(lines))

    def __str__(self) -> str:
        return ", ".join(text for text, _ in self._found) or "whole"

    __repr__ = __str__
