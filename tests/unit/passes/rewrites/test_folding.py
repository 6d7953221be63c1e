"""Simplification keeps the value of every operation on constants, and beside a constant, bit by bit: also of
infinities, NaN, zeros of both signs, denormal numbers, and integers at the ends of their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.interpret_loops import run_func
from support.nests import parse_module
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ocannl.passes.analysis.nests import functions
from ocannl.passes.loops.simplify import SimplifyPass

FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 3e38, np.inf, -np.inf, np.nan)
FLOAT_OPERATIONS = ("addf", "subf", "mulf", "divf", "maximumf", "minimumf")
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
FLOAT_PREDICATES = ("ord", "uno", *(kind + name for kind in "ou" for name in ORDERED))
INTEGER_OPERATIONS = ("addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi")
INTEGER_PREDICATES = ("eq", "ne", *(kind + name for kind in "su" for name in ORDERED[2:]))
DTYPES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i64": np.int64}


@dataclass
class Program:
    """A nest over some values `x`, which are constants, too, whose results are columns of `out`."""

    type: str
    values: Sequence[float]
    lines: list[str] = field(default_factory=list[str])
    count: int = 0

    def add(self, name: str, *operands: str) -> None:
        """An operation on some operands."""
        self.lines.append(f"%r{self.count} = arith.{name} {', '.join(operands)} : {self.type}")
        self._store()

    def compare(self, predicate: str, *operands: str) -> None:
        """A comparison, which gives the third or the first value."""
        operation = f"arith.cmp{self.type[0]} {predicate}"
        self.lines.append(f"%c{self.count} = {operation}, {', '.join(operands)} : {self.type}")
        self.lines.append(f"%r{self.count} = arith.select %c{self.count}, %v2, %v0 : {self.type}")
        self._store()

    def _store(self) -> None:
        self.lines.append(f"loops.store %r{self.count}, %out[k, {self.count}]")
        self.count += 1

    def module(self) -> ModuleOp:
        rows = len(self.values)
        constants = [
            f"%v{k} = arith.constant {self.number(v)} : {self.type}" for k, v in enumerate(self.values)
        ]
        body = "\n    ".join([*constants, "%x = loops.load %in[k]", *self.lines])
        return parse_module(f"""
loops.func @f {{
  %in = assign.node "in" on_device : memref<{rows}x{self.type}>
  %out = assign.node "out" on_device : memref<{rows}x{self.count}x{self.type}>
  loops.nest "n" (k = {rows}) {{
    {body}
  }}
}}""")

    def number(self, value: float) -> str:
        """A constant as text: of a float its bits."""
        if self.type[0] == "i":
            return str(value)
        bits = np.array(value, DTYPES[self.type]).view(f"uint{self.type[1:]}")
        return f"0x{int(bits):0{int(self.type[1:]) // 4}X}"

    def results(self, module: ModuleOp) -> NDArray[Any]:
        values = np.array(self.values, DTYPES[self.type])
        out = np.zeros((len(self.values), self.count), DTYPES[self.type])
        run_func(functions(module)[0], {"in": values, "out": out})
        return out


def with_everything(type: str) -> Program:
    """All operations on each pair of constants, and on a constant and a value, in both orders."""
    most = 2 ** (int(type[1:]) - 1) - 1
    program = Program(type, FLOATS if type[0] == "f" else (0, 1, -1, 7, -5, most, -most - 1))
    constants = [f"%v{k}" for k in range(len(program.values))]
    pairs = [
        *product(constants, constants),
        *product(["%x"], constants),
        *product(constants, ["%x"]),
        ("%x", "%x"),
    ]
    for pair in pairs:
        for name in FLOAT_OPERATIONS if type[0] == "f" else INTEGER_OPERATIONS:
            program.add(name, *pair)
        for predicate in FLOAT_PREDICATES if type[0] == "f" else INTEGER_PREDICATES:
            program.compare(predicate, *pair)
    return program


@pytest.mark.sampled(5)
@pytest.mark.parametrize("type", DTYPES)
def test_operations_on_constants_keep_their_values(type: str):
    program = with_everything(type)
    module = program.module()
    expected = program.results(module)
    SimplifyPass().apply(Context(), module)
    module.verify()
    found = program.results(module)
    np.testing.assert_array_equal(found, expected)
    # The one exception: 0 + x is x, as accumulations start at 0.
    signs = np.signbit(found) == np.signbit(expected)
    starts = [" arith.addf %v0," in line for line in program.lines if line.startswith("%r")]
    assert (signs | np.isnan(expected) | np.array(starts)).all()
