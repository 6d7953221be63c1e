"""The values of a nest as expressions of C, and the elements that it accesses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.linear import POSITION
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.loops import IndexOp, LoadOp, PositionOp, StoreOp, UniformOp
from ocannl.dialects.loops.values import position_sizes
from ocannl.dialects.scalar.precisions import is_float
from ocannl.lowering.c_family.text_lines import TextLines
from ocannl.lowering.c_family.variable_names import VariableNames
from ocannl.lowering.loops_to_c.scalar import bare, expression, uniform
from ocannl.lowering.loops_to_c.types import c_type, suffix


class ValueWriter(TextLines):
    """Writes values as text that needs no parentheses; `arrays` are the names of nodes."""

    def __init__(self, names: VariableNames, arrays: Mapping[SSAValue, str]) -> None:
        super().__init__(names)
        self.arrays = dict(arrays)
        self.values: dict[SSAValue, str] = {}
        self.live: Collection[Operation] = ()

    def text(self, op: Operation) -> str:
        match op:
            case LoadOp():
                return self.element(op)
            case IndexOp():
                index = self.linear(op.index.terms, op.index.constant, scope_sizes(op))
                return f"(({c_type(op.result.type)})({index}))"
            case UniformOp():
                return uniform(op, self.values[op.place], self.values[op.counter])
            case _:
                return expression(op, [self.values[operand] for operand in op.operands])

    def element(self, op: LoadOp | StoreOp) -> str:
        """The element that an access reaches."""
        sizes = scope_sizes(op) | position_sizes(op)
        found = {f"{POSITION}{k}": self.values[position] for k, position in enumerate(op.positions)}
        indices = [self.linear(index.terms, index.constant, sizes, found) for index in op.indices.data]
        return f"{self.arrays[op.node]}{''.join(f'[{index}]' for index in indices or ['0'])}"

    def position(self, op: PositionOp) -> None:
        """A number as a position, and whether it is one."""
        number, end = self.values[op.number], suffix(op.number.type)
        if number[0] == "(":
            number = self.named(c_type(op.number.type), number)
        is_whole = f"{number} == trunc{end}({number}) && " if is_float(op.number.type) else ""
        inside = self.named("bool", f"({is_whole}{number} >= 0 && {number} < {op.size.data})")
        self.values[op.inside] = inside
        if any(use.operation in self.live for use in op.position.uses):
            self.values[op.position] = self.named("int64_t", f"({inside} ? (int64_t){number} : 0)")

    def named(self, type: str, text: str) -> str:
        """Declares a value with a name of its own."""
        name = self.fresh()
        self.line(f"const {type} {name} = {bare(text)};")
        return name
