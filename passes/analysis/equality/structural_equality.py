"""Structural equality of steps: equal but for names, so that work on equal ones is done once."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.ir.op_helpers import operands_of, operations_of
from ocannl.dialects.loops.late_bodies import LateBody, Pattern, late_body

# Properties for readers, on which nothing depends.
NAMES = {"label", "why", "summed", "gathered"}
Words: TypeAlias = list[str | int]


class StructuralNumbering:
    """Numbers nests, groups and collectives: structurally equal ones get the same number.

    They may differ in labels, names of values, and the nodes, of equal types, that they use: everything that
    follows from one of them alone follows from the others.
    """

    def __init__(self) -> None:
        self.numbers: dict[tuple[str | int, ...], int] = {}
        self.attributes: dict[Attribute, int] = {}
        self.known: dict[int, int] = {}
        """The numbers of attributes, from 1 on, by their `id`: copies share them, and to hash one is slow."""
        self.kept: list[Attribute] = []
        self.patterns: dict[Pattern, tuple[int, list[SSAValue]]] = {}

    def number(self, step: Operation) -> int:
        return self.number_and_nodes(step)[0]

    def number_and_nodes(self, step: Operation) -> tuple[int, list[SSAValue]]:
        """The number of a step, and the nodes from outside that it uses, in the order of their first use."""
        late, around = late_body(step), scope_sizes(step)
        if late is not None and not around and is_unchanged(step, late):
            number, own = self.of_pattern(late.pattern)
            return number, [late.nodes[node] for node in own]
        words: Words = []
        for variable, size in around.items():
            words += (variable, size)
        met: list[SSAValue] = []
        self.read(step, words, met, {})
        inside = [region.block for region in step.regions]
        nodes = [v for v in met if type(v.owner) is NodeOp and v.owner.parent not in inside]
        return self.numbers.setdefault(tuple(words), len(self.numbers)), nodes

    def of_pattern(self, pattern: Pattern) -> tuple[int, list[SSAValue]]:
        found = self.patterns.get(pattern)
        if found is None:
            found = self.patterns[pattern] = self.number_and_nodes(pattern.nest)
        return found

    def read(self, op: Operation, words: Words, met: list[SSAValue], places: dict[int, int]) -> None:
        """Appends words that identify an operation up to names.

        A known value is identified by its place among the values `met`, a new one by its type. `places` has
        the places by the `id` of the values.
        """
        known, operands = self.known, operands_of(op)
        words += (op.name, len(operands))
        for value in operands:
            place = places.get(id(value))
            if place is None:
                places[id(value)] = len(met)
                met.append(value)
                place = -(known.get(id(value.type)) or self.new_number(value.type))
            words.append(place)
        for name, part in op.properties.items():
            if name not in NAMES:
                words.append(known.get(id(part)) or self.new_number(part))
        for value in op.results:
            places[id(value)] = len(met)
            met.append(value)
            words.append(-(known.get(id(value.type)) or self.new_number(value.type)))
        for region in op.regions:
            words.append("{")
            for inner in operations_of(region.block):
                self.read(inner, words, met, places)
            words.append("}")

    def new_number(self, attribute: Attribute) -> int:
        number = self.attributes.setdefault(attribute, 1 + len(self.attributes))
        self.known[id(attribute)] = number
        self.kept.append(attribute)
        return number


def is_unchanged(step: Operation, late: LateBody) -> bool:
    """Whether a step whose body is not made yet has the properties of its pattern."""
    properties, made = step.properties, late.pattern.nest.properties
    return properties.keys() == made.keys() and all(
        properties[name] is part for name, part in made.items() if name not in NAMES
    )
