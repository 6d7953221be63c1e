"""The ranks that do not come to a collective, among others that wait for those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ocannl.dialects.records import dataclass


@dataclass(frozen=True)
class Waiting:
    """The ranks for which one waits, and the line of the program at which it does."""

    peers: tuple[int, ...]
    line: str


def lost_ranks(rank: int, waiting: Mapping[int, Waiting]) -> list[int]:
    """The ranks that keep a rank waiting and do not wait themselves. The rank may wait for them through
    others: in a grid, for a rank that is there, but that waits for a lost one.
    """
    seen, rest = {rank}, [rank]
    while rest:
        new = {*waiting[rest.pop()].peers} - seen
        seen |= new
        rest += sorted(new & waiting.keys())
    return sorted(seen - waiting.keys())


def absence_text(rank: int, waiting: Mapping[int, Waiting], timeout: float) -> str:
    """The reason for which a rank waits in vain: lost ranks, or ranks that wait at other lines."""
    if lost := lost_ranks(rank, waiting):
        return f"{names(lost)} did not come to this collective within {timeout:g} s"
    places = [f"rank {peer} at {waiting[peer].line}" for peer in waiting[rank].peers]
    return f"ranks wait at different collectives: {', '.join(places)}"


def names(ranks: Iterable[int]) -> str:
    return ", ".join([f"rank {rank}" for rank in ranks])
