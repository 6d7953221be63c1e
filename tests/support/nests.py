"""Random nests as text, and their compiled runs against the interpreter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.interpret_loops import dtype, run_func
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.math import Math
from xdsl.parser import Parser

from ocannl.dialects.assign import ASSIGN, NodeOp
from ocannl.dialects.index.linear import Linear, identity_map
from ocannl.dialects.kernel import KERNEL
from ocannl.dialects.loops import LOOPS, FuncOp, NestOp, ReduceOp
from ocannl.dialects.loops.schedule import Schedule, schedule_text
from ocannl.execute.backends import EMULATED_LEVEL
from ocannl.lowering.entry import entry_layout, entry_symbol
from ocannl.lowering.kernels_to_llvm import Emulation, to_llvm
from ocannl.lowering.llvm.range_check import VIOLATION
from ocannl.passes.analysis.fusion.mergeable_loops import mergeable_loops
from ocannl.passes.analysis.nests import nests
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.analysis.targets.target import TargetDescription
from ocannl.passes.loops.plan_memory import PlanMemoryPass
from ocannl.passes.loops.schedule.schedule import SchedulePass
from ocannl.runtime.cpu.team import Team
from ocannl.runtime.cpu.violation import Violation
from ocannl.runtime.host.jit import compile_llvm
from ocannl.runtime.host.processor import host
from ocannl.runtime.interface import the_func
from ocannl.runtime.memory import ArgBlock, aligned_array, bind_call

Arrays = dict[str, NDArray[Any]]


PRODUCT = """
loops.func @product {
  %w = assign.node "w" on_device : memref<96x64xf32>
  %x = assign.node "x" on_device : memref<64x48xf32>
  %y = assign.node "y" on_device : memref<96x48xf32>
  loops.nest "y" (b = 48, o = 96) {
    %sum = loops.reduce add (i = 64) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[i, b]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[o, b]
  }
}"""
"""A product of which one operand is not contiguous along the columns of the result."""


def parse_module(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Arith, Math, ASSIGN, LOOPS, KERNEL):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def scheduled(text: str, target: TargetDescription | str) -> ModuleOp:
    """A module with schedules for a processor, which may be a name, and places in memory."""
    module = parse_module(text)
    SchedulePass(described=processor(target) if isinstance(target, str) else target).apply(Context(), module)
    PlanMemoryPass().apply(Context(), module)
    module.verify()
    return module


def random_arrays(func: FuncOp, seed: int = 0) -> Arrays:
    """Values for the nodes that persist."""
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    for node in func.body.block.ops:
        if isinstance(node, NodeOp) and node.mode.data in ("on_device", "constant"):
            shape, type = node.result.type.get_shape(), dtype(node.result.type.get_element_type())
            array = aligned_array(shape, type)
            array[...] = rng.standard_normal(shape) if type.kind == "f" else rng.integers(-99, 99, shape)
            arrays[node.label.data] = array
    return arrays


def run_compiled(
    module: ModuleOp,
    arrays: Arrays,
    indices: Mapping[str, int] | None = None,
    threads: int = 1,
    emulation: Emulation | None = None,
    target: TargetDescription | None = None,
) -> None:
    """Compiles and runs a module's function on the arrays of its nodes, in place; for this processor, or a
    lesser one.
    """
    target = target or host()
    func = the_func(module)
    layout = entry_layout(func)
    block = ArgBlock(layout.slots)
    block.set_pointer(layout.arena_slot, aligned_array((max(1, layout.arena_bytes),), np.uint8))
    for slot, label in enumerate(layout.nodes, layout.node_slot):
        block.set_pointer(slot, arrays[label])
    for slot, name in enumerate(layout.indices, layout.index_slot):
        block.values[slot] = (indices or {})[name]
    if layout.is_parallel:
        block.set_pointer(layout.team_slot, Team(threads).start())
    text, level = to_llvm(module, emulation, target=target), 2 if emulation is None else EMULATED_LEVEL
    compiled = compile_llvm(text, target=target, opt_level=level, cache=None)
    bind_call(compiled.address(entry_symbol(func.sym_name.data)), block)()
    if emulation is not None and emulation.check:
        Violation(compiled.address(VIOLATION)).raise_first()


def check(
    module: ModuleOp, indices: Mapping[str, int] | None = None, tolerance: float = 1e-4, threads: int = 1
) -> None:
    """The compiled function computes what the interpreter does."""
    func = the_func(module)
    compiled = random_arrays(func)
    expected = {label: array.copy() for label, array in compiled.items()}
    run_compiled(module, compiled, indices, threads)
    run_func(func, expected, indices)
    compare(compiled, expected, tolerance)


def compare(found: Arrays, expected: Arrays, tolerance: float = 1e-4) -> None:
    for label, array in expected.items():
        # A sum's rounding error is relative to its terms, not to its value.
        scale = float(np.max(np.abs(array), initial=0, where=np.isfinite(array)))
        np.testing.assert_allclose(
            found[label], array, rtol=tolerance, atol=tolerance * (1 + scale), err_msg=label
        )


@dataclass
class NestText:
    """The text of a function with one nest, grown by drawing.

    If it is `whole`, loads run over all of their nodes in the order of the variables, and loops can merge.
    Sums may be in blocks if it has them.
    """

    draw: st.DrawFn
    element: str
    own: dict[str, int]
    whole: bool
    has_blocks: bool
    nodes: list[str] = field(default_factory=list[str])
    loads: int = 0

    def load(self, scope: Mapping[str, int], indent: str) -> tuple[str, str]:
        """A load with random index expressions over the variables in scope, from a node that fits them."""
        indices: list[Linear] = []
        shape: list[int] = []
        if self.whole:
            names = [name for name in sorted(scope) if name not in STATIC_INDICES]
            start = self.draw(st.integers(0, len(names) - 1))
            indices += identity_map(names[start:])
            shape += [scope[name] for name in names[start:]]
        for _ in range(0 if self.whole else self.draw(st.integers(0, 3))):
            names = self.draw(st.lists(st.sampled_from(sorted(scope)), max_size=2, unique=True))
            index = Linear.of({name: self.draw(st.sampled_from((1, 1, 1, 2, 3, -1))) for name in names})
            low, high = index.extremes({name: max(1, size) for name, size in scope.items()}) or (0, 0)
            slack = self.draw(st.integers(0, 2))
            indices.append(index + Linear((), slack - low))
            shape.append(high - low + slack + 1)
        self.loads += 1
        name = f"%n{self.loads}"
        type = "x".join([*map(str, shape), self.element])
        self.nodes.append(f'{name} = assign.node "n{self.loads}" constant : memref<{type}>')
        value = f"%l{self.loads}"
        return value, f"{indent}{value} = loops.load {name}[{', '.join(map(str, indices))}]"


OPS = ("arith.addf", "arith.mulf", "arith.subf", "arith.maximumf", "arith.minimumf")
ACCUMULATIONS = ("add", "add", "add", "max", "min")
BLOCKS = ("", "", " blocks 1", " blocks 2 compensated", " blocks 5", " blocks 8 compensated")
STATIC_INDICES = {"step": 3, "batch": 4}


@st.composite
def schedules(draw: st.DrawFn, nest: NestOp) -> str:
    """A random schedule over the variables of a nest and of its reductions, some of them merged."""
    groups = draw(st.lists(st.sampled_from(mergeable_loops(nest) or (None,)), max_size=2, unique=True))
    schedule = Schedule(merged=tuple(group for group in groups if group is not None))
    own = list(schedule.loops(nest.space.data))
    reduced = [
        name for op in nest.walk() if isinstance(op, ReduceOp) for name in schedule.loops(op.space.data)
    ]
    order: tuple[str, ...] = tuple(draw(st.permutations(own))) if draw(st.booleans()) else ()
    lanes = draw(st.none() | st.sampled_from(own + reduced))
    rows = draw(st.none() | st.sampled_from(own))
    tiles: dict[str, int] = {}
    if rows is not None and rows != lanes:
        tiles[rows] = draw(st.integers(1, 9))
    if lanes is not None:
        tiles[lanes] = draw(st.sampled_from((1, 2, 4, 6, 8, 16, 32)))
    cut = draw(st.lists(st.sampled_from(own), max_size=2, unique=True))
    stripped = draw(st.none() | st.sampled_from(own))
    strips = {} if stripped is None else {stripped: tiles.get(stripped, 1) * draw(st.integers(1, 3))}
    return " schedule " + schedule_text(
        Schedule(
            order,
            None if rows in (None, lanes) else (rows, tiles[rows]),
            None if lanes is None else (lanes, tiles[lanes]),
            tuple((name, strips.get(name, tiles.get(name, 1)) * draw(st.integers(1, 3))) for name in cut),
            schedule.merged,
            draw(st.sampled_from((1, 1, 2, 3, 8))),
            strips=next(iter(strips.items()), None),
        )
    )


@st.composite
def nest_functions(draw: st.DrawFn, *, scheduled: bool = True) -> str:
    """A function of one nest with random accesses, reductions and, if asked for, a random schedule."""
    element = draw(st.sampled_from(("f32", "f64")))
    own = {f"a{k}": draw(st.integers(1, 21)) for k in range(draw(st.integers(1, 3)))}
    text = NestText(draw, element, own, draw(st.integers(0, 3)) == 0, scheduled)
    values: list[str] = []
    lines: list[str] = []
    scope = own | STATIC_INDICES
    for _ in range(draw(st.integers(1, 2))):
        value, line = text.load(scope, "    ")
        values.append(value)
        lines.append(line)
    for k in range(draw(st.integers(0, 2))):
        values.append(reduction(text, f"r{k}", scope, values, "    ", lines))
    if draw(st.booleans()):
        names = sorted(own | STATIC_INDICES)
        index = Linear.of({n: draw(st.integers(-2, 3)) for n in names}, draw(st.integers(-2, 2)))
        lines.append(f"    %i = loops.index {index} : {element}")
        values.append("%i")
    result = combine(draw, values, "%z", "    ", element, lines)
    order = sorted(own) if text.whole else draw(st.permutations(sorted(own)))
    shape = "x".join([*(str(own[name]) for name in order), element])
    lines.append(f"    loops.store {result}, %out[{', '.join(order)}]")
    space = ", ".join(f"{name} = {size}" for name, size in own.items())
    ranges = ", ".join(f"{name} = {size}" for name, size in STATIC_INDICES.items())
    head = [
        f"loops.func @random indices ({ranges}) {{",
        *(f"  {node}" for node in text.nodes),
        f'  %out = assign.node "out" on_device : memref<{shape}>',
        f'  loops.nest "nest" ({space})',
    ]
    body = "\n".join([" {", *lines, "  }", "}"])
    plain = "\n".join(head) + body
    if not scheduled:
        return plain
    (nest,) = nests(the_func(parse_module(plain)))
    return "\n".join(head) + draw(schedules(nest)) + body


def reduction(
    text: NestText, name: str, scope: Mapping[str, int], values: list[str], indent: str, lines: list[str]
) -> str:
    """A random reduction of loads, earlier values, indices and perhaps another reduction."""
    draw, element = text.draw, text.element
    largest = 21 if len(name) == 2 else 5
    space = {f"{name}{j}": draw(st.integers(0, largest)) for j in range(draw(st.integers(1, 2)))}
    scope = {**scope, **space}
    # Long products overflow, in one order of multiplication and not in another.
    short = math.prod(space.values()) <= 21 and len(name) == 2
    accum = draw(st.sampled_from(("mul", *ACCUMULATIONS) if short else ACCUMULATIONS))
    head = ", ".join(f"{variable} = {size}" for variable, size in space.items())
    blocks = draw(st.sampled_from(BLOCKS)) if text.has_blocks and accum == "add" else ""
    lines.append(f"{indent}%{name} = loops.reduce {accum} ({head}){blocks} : {element} {{")
    inner_indent, inner = indent + "  ", list[str]()
    for _ in range(draw(st.integers(1, 2))):
        value, line = text.load(scope, inner_indent)
        inner.append(value)
        lines.append(line)
    if len(name) == 2 and accum != "mul" and draw(st.integers(0, 3)) == 0:
        inner.append(reduction(text, f"{name}x", scope, inner, inner_indent, lines))
    if accum != "mul" and draw(st.integers(0, 3)) == 0:
        index = Linear.of({variable: draw(st.integers(-1, 2)) for variable in sorted(scope)})
        lines.append(f"{inner_indent}%{name}i = loops.index {index} : {element}")
        inner.append(f"%{name}i")
    result = combine(draw, [*inner, *values], f"%{name}y", inner_indent, element, lines)
    lines += [f"{inner_indent}loops.yield {result}", f"{indent}}}"]
    return f"%{name}"


def combine(
    draw: st.DrawFn, values: list[str], stem: str, indent: str, element: str, lines: list[str]
) -> str:
    """Combines values by random operations; returns the last one's name."""
    result = values[0]
    for k, value in enumerate(values[1:]):
        op = draw(st.sampled_from(OPS))
        lines.append(f"{indent}{stem}{k} = {op} {value}, {result} : {element}")
        result = f"{stem}{k}"
    return result
