"""What a host has to know of Metal text to run it, as JSON at the end of the text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

HEADING = "// What a host has to know, as JSON:"


@dataclass(frozen=True)
class Buffer:
    """A node with elements of a Metal type: a buffer of its own; with an `offset`, a part of the arena."""

    name: str
    type: str
    shape: Sequence[int]
    bytes: int
    mode: str
    offset: int | None = None


@dataclass(frozen=True)
class Dispatch:
    """A kernel in the order in which they run: so many threadgroups of so many threads of a function.

    Its arguments are, from index 0 on, the buffers, then the values of static indices, of 8 bytes each. With
    a `structure` one argument, of the GPU addresses of all buffers, comes in place of these.
    """

    function: str
    threadgroups: int
    threads: int
    threadgroup_bytes: int
    buffers: Sequence[str]
    indices: Sequence[str]
    structure: bool


@dataclass(frozen=True)
class RoutineDescription:
    """A routine: its kernels, the buffers that they use, the bytes of its arena, and its static indices with
    their ranges.
    """

    name: str
    arena_bytes: int
    buffers: Sequence[Buffer]
    indices: Mapping[str, int | None]
    kernels: Sequence[Dispatch]


def description_text(routines: Sequence[RoutineDescription]) -> str:
    """The comment that tells a host what it has to know."""
    text = f'{{"routines": [\n{_rows(map(_routine_text, routines))}]}}'
    return "\n".join([HEADING, *(f"// {line}" for line in text.splitlines())])


def _routine_text(routine: RoutineDescription) -> str:
    buffers, kernels = (
        f"[\n{_rows(json.dumps(asdict(part)) for part in parts)}]"
        for parts in (routine.buffers, routine.kernels)
    )
    head = json.dumps({"name": routine.name, "arena_bytes": routine.arena_bytes, "indices": routine.indices})
    return f'{head[:-1]},\n"buffers": {buffers},\n"kernels": {kernels}}}'


def _rows(texts: Iterable[str]) -> str:
    return ",\n".join(texts)


def descriptions(text: str) -> list[RoutineDescription]:
    """What Metal text says of its routines."""
    _, _, comment = text.rpartition(HEADING)
    found = json.loads("".join(line.removeprefix("//") for line in comment.splitlines()))
    return [
        RoutineDescription(
            routine["name"],
            routine["arena_bytes"],
            [Buffer(**buffer) for buffer in routine["buffers"]],
            routine["indices"],
            [Dispatch(**kernel) for kernel in routine["kernels"]],
        )
        for routine in found["routines"]
    ]
