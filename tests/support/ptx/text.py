"""PTX text as functions: instructions with their operands, in order, and where branches lead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

LABEL = re.compile(r"\s*(\$\w+):")
STATEMENT = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
ENTRY = re.compile(r"\.entry (\w+)\((.*?)\)[^{]*\n\{\n(.*?)\n\}\n", re.DOTALL)
CALLED = re.compile(r"\.func  ?\(\.param \.\w+ (\w+)\) ([\w$]+)\((.*?)\)\n?\{\n(.*?)\n\}\n", re.DOTALL)
PARAMETER = re.compile(r"\.param [^,)]*?([\w$]+)(?:\[\d+\])?(?=,|\s*$)")
SHARED = re.compile(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d*)\]")
FLOAT = re.compile(r"0[fd]([0-9A-Fa-f]+)")


@dataclass(frozen=True)
class Address:
    """A register, or the name of an array or parameter; and a distance from there in bytes."""

    base: str
    offset: int


@dataclass(frozen=True)
class Place:
    """A register with the address of a tensor map, and indices into the tensor."""

    base: str
    indices: tuple[int | str, ...]


Operand: TypeAlias = "int | str | Address | Place | tuple[int | str, ...]"


@dataclass(frozen=True, eq=False)
class Instruction:
    """`@guard name.mode.mode operands;`. `is_looped` if it is between a branch and where that leads back."""

    name: str
    modes: Sequence[str]
    operands: Sequence[Operand]
    guard: str | None
    is_negated: bool
    text: str
    is_looped: bool = False


@dataclass(eq=False)
class Function:
    """A kernel, or a function that `calls` of such have by name, whose value is in `result`. Of shared arrays
    it has sizes and alignments.
    """

    name: str
    parameters: Sequence[str]
    shared: dict[str, tuple[int, int]]
    calls: dict[str, Function]
    result: str | None = None
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])


@cache
def functions(text: str) -> dict[str, Function]:
    """The kernels of a text by name."""
    outside = arrays(ENTRY.sub("", text))
    calls = dict[str, Function]()
    for result, name, parameters, body in CALLED.findall(text):
        calls[name] = parsed(name, parameters, body, {}, calls)
        calls[name].result = result
    return {
        name: parsed(name, parameters, body, outside, calls) for name, parameters, body in ENTRY.findall(text)
    }


def arrays(text: str) -> dict[str, tuple[int, int]]:
    """The sizes and the alignments of shared arrays; the size of a dynamic one is 0."""
    return {name: (int(size or 0), int(alignment)) for alignment, name, size in SHARED.findall(text)}


def parsed(
    name: str, parameters: str, body: str, outside: dict[str, tuple[int, int]], calls: dict[str, Function]
) -> Function:
    body = re.sub(r"//.*", "", body)
    shared = {array: found for array, found in outside.items() if re.search(rf"\b{array}\b", body)}
    shared |= arrays(body)
    function = Function(name, PARAMETER.findall(parameters), shared, calls)
    for statement in body.split(";"):
        statement = statement.lstrip("{} \t\n")  # of sequences of a call
        while (label := LABEL.match(statement)) is not None:
            function.labels[label[1]] = len(function.instructions)
            statement = statement[label.end() :]
        matched = STATEMENT.fullmatch(statement.strip())
        if matched is not None:
            function.instructions.append(instruction(name, *matched.groups()))
    mark_loops(function)
    return function


def instruction(
    function: str, negation: str | None, guard: str | None, operation: str, operands: str
) -> Instruction:
    name, *modes = operation.replace("::", "__").split(".")
    text = " ".join(f"{function}: {operation} {operands}".split())
    parts = [operand(part) for part in OPERAND.findall(operands)]
    return Instruction(name, modes, parts, guard, bool(negation), text)


def operand(text: str) -> Operand:
    if text[0] == "{":
        return tuple(single(part) for part in re.split(r"[,\s]+", text.strip("{} ")))
    if text[0] == "[" and "{" in text:
        base, _, indices = text.strip("[]").partition(",")
        return Place(base.strip(), tuple(single(part) for part in re.split(r"[,\s]+", indices.strip("{} "))))
    if text[0] == "[":
        base, _, offset = text.strip("[]").partition("+")
        return Address(base.strip(), int(offset or 0))
    return single(text)


def single(text: str) -> int | str:
    """A number, of which floats are their bits, or a name."""
    if (bits := FLOAT.fullmatch(text)) is not None:
        return int(bits[1], 16)
    return int(text, 0) if re.fullmatch(r"-?(0x)?[0-9A-Fa-f]+", text) else text


def mark_loops(function: Function) -> None:
    """Notes which instructions a branch may lead back to."""
    looped = set[int]()
    for place, found in enumerate(function.instructions):
        if found.name == "bra" and (start := function.labels[str(found.operands[0])]) <= place:
            looped |= set(range(start, place + 1))
    for place in looped:
        object.__setattr__(function.instructions[place], "is_looped", True)
