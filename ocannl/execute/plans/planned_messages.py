"""The messages between the stages of a program: what each stage sends, and how long they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ocannl.dialects.ir.errors import location_text
from ocannl.dialects.loops import CollectiveOp, FuncOp
from ocannl.dialects.routine import STAGE
from ocannl.passes.analysis.communication.simulation import Links
from ocannl.passes.analysis.costs.roofline import runs_of
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import declaration
from ocannl.runtime.collectives.grid import Grid


@dataclass(frozen=True)
class PlannedMessage:
    """A message from a stage to another, once for each microbatch or once in a run.

    Attributes:
        start: the stage that sends.
        end: the stage that receives.
        line: the user's line that it comes from, `file:line`.
        bytes: the bytes of one message.
        times: the messages of one rank in a run.
        seconds: the time of one message.
    """

    start: int
    end: int
    line: str
    bytes: int
    times: int
    seconds: float


def messages_of(stages: Sequence[FuncOp], mesh: Mapping[str, int], links: Links) -> list[PlannedMessage]:
    """The messages of all stages, those that are alike together, in the order of the program."""
    found: dict[tuple[int, int, str, int], int] = {}
    for start, func in enumerate(stages):
        for step, times in runs_of(func):
            message = step.number_and_peer if isinstance(step, CollectiveOp) and step.read else None
            if isinstance(step, CollectiveOp) and message is not None:
                size, line = byte_size(declaration(step.moved)), location_text(step) or ""
                key = start, message[1], line, size
                found[key] = found.get(key, 0) + times
    return [
        PlannedMessage(start, end, line, size, times, _seconds(start, end, size, mesh, links))
        for (start, end, line, size), times in found.items()
    ]


def _seconds(start: int, end: int, size: int, mesh: Mapping[str, int], links: Links) -> float:
    """Hockney's model of latency and bandwidth, of a link within a node or between two."""
    ranks = Grid(mesh).group(0, STAGE)
    is_inside = ranks[start] // links.devices_a_node == ranks[end] // links.devices_a_node
    if is_inside:
        return links.inside_latency + size / links.inside_bandwidth
    return links.between_latency + size / links.between_bandwidth
