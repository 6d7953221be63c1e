"""Structural equality of nests and groups: equal but for names, so that work on equal ones is done once."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.ir import Attribute, Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.ir.op_helpers import operands_of, operations_of

# Properties for readers, on which nothing depends.
NAMES = {"label", "why"}
Words: TypeAlias = list[str | int]


class StructuralNumbering:
    """Numbers nests and groups: structurally equal ones get the same number.

    They may differ in labels, names of values, and the nodes, of equal types, that they use: everything that
    follows from one of them alone follows from the others.
    """

    def __init__(self) -> None:
        self.numbers: dict[tuple[str | int, ...], int] = {}
        self.attributes: dict[Attribute, int] = {}
        self.known: dict[int, int] = {}
        """The numbers of attributes, from 1 on, by their `id`: copies share them, and to hash one is slow."""
        self.kept: list[Attribute] = []

    def number(self, step: Operation) -> int:
        return self.number_and_nodes(step)[0]

    def number_and_nodes(self, step: Operation) -> tuple[int, list[SSAValue]]:
        """The number of a step, and the nodes from outside that it uses, in the order of their first use."""
        words: Words = []
        for variable, size in scope_sizes(step).items():
            words += (variable, size)
        met: list[SSAValue] = []
        self.read(step, words, met, {})
        block = step.regions[0].block
        nodes = [v for v in met if type(v.owner) is NodeOp and v.owner.parent is not block]
        return self.numbers.setdefault(tuple(words), len(self.numbers)), nodes

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
