"""Metal text under construction: loops over registers, bounds and places in arrays."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.bounds import Bound
from ocannl.dialects.index.linear import POSITION, Linear, Map, Space
from ocannl.dialects.index.memref import is_ring, memref_shape
from ocannl.dialects.index.scopes import scope_sizes
from ocannl.dialects.kernel import CopyOp
from ocannl.dialects.kernel.launch import LaunchOp
from ocannl.dialects.loops import LoadOp, ReduceOp, StoreOp
from ocannl.dialects.loops.values import position_sizes
from ocannl.lowering.c_family.text_lines import TextLines
from ocannl.lowering.c_family.variable_names import VariableNames
from ocannl.lowering.kernels.registers import Variables, register_variables


class TextWriter(TextLines):
    """Writes lines of a kernel's body; `arrays` are the names of its nodes."""

    def __init__(self, launch: LaunchOp, arrays: Mapping[SSAValue, str], names: VariableNames) -> None:
        super().__init__(names)
        self.launch = launch
        self.arrays = dict(arrays)
        self.sizes = dict(launch.registers.data)
        self.over = register_variables(launch)
        self.values: dict[SSAValue, str] = {}
        self.open: set[str] = set()

    @contextmanager
    def loops(self, variables: Variables) -> Generator[None]:
        """Loops over register variables."""
        with ExitStack() as stack:
            for name in variables:
                stack.enter_context(self.braces(f"UNROLL {self.heading(name, self.sizes[name])}"))
            self.open.update(variables)
            yield
            self.open.difference_update(variables)

    @contextmanager
    def bounded(self, op: Operation, bounds: Sequence[Bound]) -> Generator[None]:
        """An `if` around code that runs where bounds hold, if there are any."""
        if not bounds:
            yield
            return
        with self.braces(f"if ({self.condition(op, bounds)})"):
            yield

    def array(self, name: str, type: str, over: Variables) -> str:
        """Declares an array over register variables; returns its element at the point of the open loops."""
        self.line(f"{type} {name}{''.join(f'[{self.sizes[variable]}]' for variable in over)};")
        return name + "".join(f"[{self.variables[variable]}]" for variable in over)

    def filled(self, type: str, over: Variables, text: str) -> str:
        """Declares and initializes a value over register variables; returns its element at the open loops."""
        if not over:
            name = self.fresh()
            self.line(f"{type} {name} = {text};")
            return name
        found = self.array(self.fresh(), type, over)
        with self.loops(over):
            self.line(f"{found} = {text};")
        return found

    def free(self, over: Iterable[str]) -> Variables:
        """The register variables that no loop is open over."""
        return tuple(variable for variable in over if variable not in self.open)

    def variables_of(self, number: str, space: Space, steps: Mapping[str, int] | None = None) -> None:
        """Declares the variables of a space at its point `number`, times steps; the last varies fastest."""
        inner = math.prod(size for _, size in space)
        for name, size in space:
            is_first = inner == math.prod(size for _, size in space)
            inner //= size
            value = number if inner == 1 else f"{number} / {inner}"
            value = "0" if size == 1 else value if is_first else f"{value} % {size}"
            step = (steps or {}).get(name, 1)
            value = value if step == 1 else f"{value} * {step}"
            self.line(f"const int {self.variables[name]} = {value};")

    # Index expressions.

    def condition(self, op: Operation, bounds: Sequence[Bound]) -> str:
        spaces = [op.space.data] if isinstance(op, ReduceOp | CopyOp) else []
        sizes = {**scope_sizes(op), **{name: size for space in spaces for name, size in space}}
        texts = [
            f"{self.linear(bound.index.terms, bound.index.constant, sizes)} < {bound.below}"
            for bound in bounds
        ]
        return " && ".join(texts)

    def element(self, op: LoadOp | StoreOp, without: str | None = None) -> str:
        """The text of the element that an access reaches, with the variable `without` at 0."""
        positions = {f"{POSITION}{k}": self.values[position] for k, position in enumerate(op.positions)}
        return self.place(op.node, op.indices.data, scope_sizes(op) | position_sizes(op), positions, without)

    def place(
        self,
        array: SSAValue,
        indices: Map,
        sizes: Mapping[str, int],
        positions: Mapping[str, str] | None = None,
        without: str | None = None,
    ) -> str:
        """The text of an element of an array at an index map; the first index of a ring is modulo
        its size.
        """
        slot = ""
        if is_ring(array):
            first, (count, *inner) = indices[0], memref_shape(array)
            if first.terms:
                turn = self.linear(first.terms, first.constant, sizes)
                slot = f"({turn}) % {count} * {math.prod(inner)} + "
            indices = (Linear((), 0 if slot else first.constant % count), *indices[1:])
        address = flatten(array, indices)
        terms = [(name, coefficient) for name, coefficient in address.terms if name != without]
        return f"{self.arrays[array]}[{slot}{self.linear(terms, address.constant, sizes, positions)}]"
