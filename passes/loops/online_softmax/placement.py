"""Where a group of nests can stand that were apart: the steps between them run before it or after it."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.loops import FuncOp
from ocannl.dialects.records import dataclass
from ocannl.passes.analysis.nests import Step, all_steps
from ocannl.passes.loops.online_softmax.score_nests import Kind, ScoreNest
from ocannl.passes.loops.online_softmax.steps import reads_of, writes_of


@dataclass(frozen=True)
class Placement:
    """A group stands before the last of its sums, and some steps move behind that."""

    last: ScoreNest
    behind: list[Step]


def placement(
    func: FuncOp, points: Sequence[ScoreNest], sums: Sequence[ScoreNest], members: Sequence[ScoreNest]
) -> Placement | None:
    """The place of a group of sums, which computes scores as `points` do; None where something stands in the
    way. Other members that compute scores do so in groups, too.
    """
    steps = all_steps(func)
    at = {step: position for position, step in enumerate(steps)}
    own = {member.nest: member for member in sums}
    copied = {member.nest for member in members if member.kind is Kind.POINTS}
    known = {member.nest for member in members}
    start, end = min(at[nest] for nest in own), max(at[nest] for nest in own)
    earlier: list[Step] = []
    behind: list[Step] = []
    for step in steps[start : end + 1]:
        if step in own and any(conflict(step, other) for other in behind):
            return None
        if step in own:
            earlier.append(step)
        elif step not in copied and any(conflict(step, other) for other in (*earlier, *behind)):
            behind.append(step)
    for member in points:
        for step in steps[at[member.nest] + 1 : end]:
            if (
                step not in known
                and step not in behind
                and not set(writes_of(step)).isdisjoint(member.inputs)
            ):
                return None
    last = next(member for nest, member in own.items() if at[nest] == end)
    return Placement(last, behind)


def conflict(one: Step, other: Step) -> bool:
    """Whether one of two steps writes what the other one touches."""
    first, second = set(writes_of(one)), set(writes_of(other))
    return not (first.isdisjoint((*reads_of(other), *second)) and second.isdisjoint(reads_of(one)))
