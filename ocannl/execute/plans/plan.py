"""Plans of programs on meshes: memory, messages and times, as values and as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby

from ocannl.dialects.routine import STAGE
from ocannl.execute.plans.machines import Machine
from ocannl.execute.plans.planned_collectives import PlannedCollective
from ocannl.execute.plans.planned_memory import PlannedMemory
from ocannl.execute.plans.planned_messages import PlannedMessage
from ocannl.passes.analysis.pipeline_schedules import bubble
from ocannl.program.text.html import text_html
from ocannl.program.text.text_table import table

MOST_ROWS = 16
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
Row = tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The memory, messages and time of a program on each device of a mesh and a machine. Its text is tables.

    Attributes:
        name: the program's name.
        machine_name: the machine's name.
        machine: the machine.
        mesh: the number of ranks along each axis.
        memory: the bytes of one device.
        collectives: what ranks exchange, in program order.
        needed_flops: the floating-point operations of one device in matrix products, by dtype, without those
            that are done again because their results were not kept.
        flops: all that it does in matrix products.
        compute_seconds: the time of computing, each step at the rate of its operations or of its bytes.
        microbatches: the number of microbatches of a run.
        stage_messages: what stages send each other.
        stage_memory: the bytes of a device of each stage.
    """

    name: str
    machine_name: str
    machine: Machine
    mesh: Mapping[str, int]
    memory: PlannedMemory
    collectives: tuple[PlannedCollective, ...]
    needed_flops: Mapping[str, int]
    flops: Mapping[str, int]
    compute_seconds: float
    microbatches: int = 1
    stage_messages: tuple[PlannedMessage, ...] = ()
    stage_memory: tuple[PlannedMemory, ...] = ()

    @property
    def stages(self) -> int:
        """The number of stages."""
        return self.mesh.get(STAGE, 1)

    @property
    def bubble(self) -> float:
        """The part of a run in which a stage waits for the others, (p - 1)/(m + p - 1) of p stages and m
        microbatches that take equally long (Narayanan et al., 2021).
        """
        return float(bubble(self.stages, self.microbatches))

    @property
    def waiting_seconds(self) -> float:
        """The time for which a stage waits for the others in a run."""
        return self.compute_seconds * self.bubble / (1 - self.bubble)

    @property
    def ranks(self) -> int:
        """The number of all ranks."""
        return math.prod(self.mesh.values())

    @property
    def sent(self) -> int:
        """The bytes that a rank sends in a run, by the best algorithms."""
        return sum(each.times * each.sent for each in self.collectives)

    @property
    def engine_sent(self) -> int:
        """The bytes that a rank sends in a run, by the engines of this package."""
        return sum(each.times * each.engine_sent for each in self.collectives)

    @property
    def messages(self) -> int:
        """The messages of all ranks in a run, by the faster of ring and tree each time."""
        return sum(each.times * each.fastest.messages for each in self.collectives)

    @property
    def bytes(self) -> int:
        """The bytes of all of these messages."""
        return sum(each.times * each.fastest.bytes for each in self.collectives)

    @property
    def inside(self) -> int:
        """The bytes that the busiest device sends to others of its node."""
        return sum(each.times * each.fastest.inside for each in self.collectives)

    @property
    def between(self) -> int:
        """The bytes that leave the busiest node, for each of its devices."""
        return sum(each.times * each.fastest.between for each in self.collectives)

    @property
    def communication_seconds(self) -> float:
        """The time of all collectives, and of the messages of the stage that sends longest, one after the
        other.
        """
        sent = [0.0] * self.stages
        for each in self.stage_messages:
            sent[each.start] += each.times * each.seconds
        return sum(each.seconds for each in self.collectives) + max(sent)

    @property
    def seconds(self) -> float:
        """The time of a run that computes, communicates or waits, never two at once."""
        return self.compute_seconds + self.communication_seconds + self.waiting_seconds

    @property
    def least_seconds(self) -> float:
        """The time of a run that does both at once, all the time that it does not wait."""
        return max(self.compute_seconds, self.communication_seconds) + self.waiting_seconds

    @property
    def utilization(self) -> float:
        """The share of a device's peak that needed products take of `seconds` (model FLOPs utilization;
        Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022).
        """
        at_peak = sum(count / self.machine.product_flops(t) for t, count in self.needed_flops.items())
        return at_peak / self.seconds if self.seconds else 0.0

    @property
    def fits(self) -> bool:
        """Whether a device has memory enough."""
        return self.memory.bytes <= self.machine.memory

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def _lines(self) -> Iterator[str]:
        axes = ", ".join(f"{axis} = {size}" for axis, size in self.mesh.items())
        yield f"{self.name!r} on a mesh ({axes}), {self.machine_name}"
        held = f"{scaled(self.memory.bytes)}B of {scaled(self.machine.memory)}B"
        yield f"\nmemory of a device: {held}{'' if self.fits else ', too much'}"
        yield table(self._memory_rows())
        if self.collectives:
            yield "\ncollectives, by the time they take"
            yield table([*self._collective_rows()])
            engines = f"{scaled(self.engine_sent)}B by the engines of this package"
            yield f"\na rank sends {scaled(self.sent)}B at least, {engines}"
            links = f"{scaled(self.inside)}B to its node, {scaled(self.between)}B to others"
            yield f"{self.messages} messages of all ranks; a device sends {links}"
        if self.stage_messages:
            yield f"\n{self.stages} stages, {self.microbatches} microbatches; a rank of each stage sends"
            yield table([*self._message_rows()])
        yield f"\ntime of a run: {time_text(self.seconds)}, {100 * self.utilization:.1f} % of the peak"
        yield f"  computing     {time_text(self.compute_seconds)}"
        yield f"  communicating {time_text(self.communication_seconds)}"
        if self.stages > 1:
            waiting = f"{time_text(self.waiting_seconds)}, {100 * self.bubble:.1f} % of a run (the bubble)"
            yield f"  waiting       {waiting}"
        yield f"  both at once  {time_text(self.least_seconds)} at least"

    def _memory_rows(self) -> list[Row]:
        sizes = [(each.name, getattr(self.memory, each.name)) for each in fields(self.memory)]
        return [("kind", "bytes"), *((name, f"{scaled(size)}B") for name, size in sizes if size)]

    def _message_rows(self) -> Iterator[Row]:
        yield ("from", "to", "bytes", "times", "sent", "time", "line")
        for each in self.stage_messages:
            yield (
                str(each.start),
                str(each.end),
                f"{scaled(each.bytes)}B",
                str(each.times),
                f"{scaled(each.times * each.bytes)}B",
                time_text(each.times * each.seconds),
                each.line.rpartition("/")[2],
            )

    def _collective_rows(self) -> Iterator[Row]:
        yield HEADING
        alike = groupby(sorted(self.collectives, key=_likeness), key=_likeness)
        groups = sorted(([*own] for _, own in alike), key=_total, reverse=True)
        yield from map(_row, groups[:MOST_ROWS])
        if rest := [each for group in groups[MOST_ROWS:] for each in group]:
            times, sent = sum(each.times for each in rest), sum(each.times * each.sent for each in rest)
            yield ("others", "", "", "", str(times), f"{scaled(sent)}B", *("" for _ in HEADING[6:]))


HEADING = (
    "collective",
    "operand",
    "axis",
    "bytes",
    "times",
    "sent",
    "engine",
    "messages",
    "ring",
    "tree",
    "line",
)


def _likeness(each: PlannedCollective) -> tuple[str, str, int, str]:
    return each.kind, each.axis, each.bytes, each.line


def _total(group: Sequence[PlannedCollective]) -> float:
    return sum(each.seconds for each in group)


def _row(group: Sequence[PlannedCollective]) -> Row:
    """The row of collectives that are alike: bytes of one call, then those that a rank sends in all calls."""
    first, times = group[0], sum(each.times for each in group)
    others = len({each.operand for each in group}) - 1
    return (
        first.kind,
        first.operand if not others else f"{first.operand} and {others} more",
        first.axis,
        f"{scaled(first.bytes)}B",
        str(times),
        f"{scaled(times * first.sent)}B",
        f"{scaled(times * first.engine_sent)}B",
        str(times * first.fastest.messages),
        time_text(times * first.ring.seconds),
        "" if first.tree is None else time_text(times * first.tree.seconds),
        first.line.rpartition("/")[2],
    )


def scaled(count: float) -> str:
    """A count with three digits and a decimal prefix, `1.23 G`."""
    for factor, prefix in PREFIXES:
        if count >= factor:
            return f"{count / factor:.3g} {prefix}"
    return f"{count:.3g} "


def time_text(seconds: float) -> str:
    """Seconds with three digits, in a fitting unit."""
    factor, unit = next(((f, u) for f, u in ((1, "s"), (1e3, "ms")) if seconds * f >= 1), (1e6, "us"))
    return f"{seconds * factor:.3g} {unit}"
