"""The text of C of a library: a routine, and the memory that it starts with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute

from ocannl.lowering.arena import ALIGNMENT
from ocannl.lowering.loops_to_c.types import float_literal
from ocannl.shipping.node import TYPES, Node

# Numbers in a line.
COLUMNS = 12
FLOATS: dict[str, Attribute] = {"float32": f32, "float64": f64}


def c_source(routine: str, name: str, nodes: Sequence[Node], workspace_bytes: int) -> str:
    """The text of a routine with `NAME_default()`, the memory that has the present values of its nodes."""
    inside = [node for node in nodes if node.offset is None]
    aligned = f"static _Alignas({ALIGNMENT})"
    arrays = [
        f"{aligned} {TYPES[node.dtype]} {_array(node)}[{max(node.size, 1)}]{_initial(node)};"
        for node in inside
    ]
    fields = [f".{node.name} = {_array(node)}" for node in inside]
    return "\n".join(
        [
            routine,
            *arrays,
            f"{aligned} char default_workspace[{workspace_bytes}];",
            f"static {name}_memory default_memory = {{",
            *(f"    {field}," for field in [*fields, ".workspace = default_workspace"]),
            "};",
            "",
            f"{name}_memory *{name}_default(void) {{ return &default_memory; }}",
            "",
        ]
    )


def _array(node: Node) -> str:
    return f"default_{node.name}"


def _initial(node: Node) -> str:
    if node.values is None or not node.values.any() or not node.size:
        return ""
    numbers = _numbers(node.values)
    lines = [", ".join(numbers[at : at + COLUMNS]) for at in range(0, len(numbers), COLUMNS)]
    return " = {\n    " + ",\n    ".join(lines) + "}"


def _numbers(values: NDArray[Any]) -> list[str]:
    """The numbers of an array as literals; of floats that C lacks, their bits."""
    flat = values.reshape(-1)
    if flat.dtype.name in FLOATS:
        return [float_literal(value, FLOATS[flat.dtype.name]) for value in flat]
    if flat.dtype.kind not in "iub":
        flat = flat.view(f"uint{8 * flat.itemsize}")
    return [_integer(int(value)) for value in flat]


def _integer(value: int) -> str:
    if value >= 2**63:
        return f"UINT64_C({value})"
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})" if abs(value) >= 2**31 else str(value)
