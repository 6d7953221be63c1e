"""Placements on one mesh axis: what is given, what follows from it, and the cheapest of the rest."""

from __future__ import annotations

from ocannl.passes.analysis.infer_placements.costs import Machine
from ocannl.passes.analysis.infer_placements.problem import WHOLE, Placements, Problem
from ocannl.passes.analysis.infer_placements.propagation import Propagation
from ocannl.passes.analysis.infer_placements.search import Search


class ImpossiblePlacement(Exception):
    """Given splits with which a step cannot be computed."""

    def __init__(self, step: int) -> None:
        super().__init__(f"step {step} cannot be computed")
        self.step = step


def solve(problem: Problem, machine: Machine | None = None) -> Placements:
    """The placements of a program. Equal problems have equal answers.

    Only steps are searched whose values are split in ways that do not fit: without placements nothing is
    divided, and what follows from them stays. Raises `ImpossiblePlacement`.
    """
    found = Propagation(problem)
    found.run()
    splits = [WHOLE if split is None else split for split in found.splits]
    ways = [step.ways[0] if way is None else way for step, way in zip(problem.steps, found.ways, strict=True)]
    search = Search(
        problem,
        machine or Machine(),
        splits,
        ways,
        frozenset(value for value, split in enumerate(found.splits) if split is None),
        [
            number
            for number, step in enumerate(problem.steps)
            if found.ways[number] is None and any(splits[v] != WHOLE for v in (*step.operands, *step.results))
        ],
    )
    search.run()
    impossible = search.impossible()
    if impossible is not None:
        raise ImpossiblePlacement(impossible)
    return Placements(tuple(splits), tuple(ways), tuple(found.facts))
