"""Random programs of several nests as text: pointwise, reductions, transposes, slices, overwrites.

Values stay whole or halved numbers of moderate size, so that every order of summation gives the same double.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from ocannl.dialects.index.linear import Linear, Map

SHAPES = ((), (3,), (1, 3), (2, 3), (2, 3), (3, 2), (3, 2), (3, 3))
REDUCED = (1, 2, 3, 2, 3)
STATIC = {"s": 2}
BINARY = ("arith.addf", "arith.subf", "arith.maximumf", "arith.minimumf", "product")
UNARY = ("arith.negf", "math.absf", "costly", "gate")
ACCUMULATIONS = ("add", "add", "max", "min")


@dataclass
class NestWriter:
    """Grows the body of one nest by drawing; what the nest stores to is loaded at the same point only.

    `shapes` are those of the nodes that have values.
    """

    draw: st.DrawFn
    shapes: Mapping[str, tuple[int, ...]]
    stored: dict[str, Map]
    reduced: Sequence[int] = REDUCED
    lines: list[str] = field(default_factory=list[str])
    values: int = 0
    reductions: int = 0

    def emit(self, text: str, indent: int) -> str:
        self.values += 1
        self.lines.append(f"{'  ' * indent}%v{self.values} = {text}")
        return f"%v{self.values}"

    def expression(self, scope: dict[str, int], depth: int, indent: int = 2) -> str:
        kinds = ["load"] * 8 if self.shapes else []
        kinds += ["constant", "index"]
        if depth > 0:
            kinds += ["reduce", "binary", "unary", "choice"] * 8
        match self.draw(st.sampled_from(kinds)):
            case "load":
                return self.load(scope, indent)
            case "constant":
                value = self.draw(st.sampled_from((-1.0, 0.0, 0.5, 1.0, 2.0)))
                return self.emit(f"arith.constant {value} : f64", indent)
            case "index":
                names = sorted(scope)
                index = Linear.var(self.draw(st.sampled_from(names))) + Linear((), 1)
                return self.emit(f"loops.index {index} : f64", indent)
            case "unary":
                return self.unary(self.expression(scope, depth - 1, indent), indent)
            case "choice":
                return self.choice(scope, depth, indent)
            case "binary":
                first = self.expression(scope, depth - 1, indent)
                return self.binary(first, self.expression(scope, depth - 1, indent), indent)
            case _:
                return self.reduce(scope, depth, indent)

    def load(self, scope: dict[str, int], indent: int, node: str | None = None) -> str:
        node = node or self.draw(st.sampled_from(sorted(self.shapes)))
        indices = self.stored.get(node)
        if indices is None:
            indices = tuple(self.index(scope, size) for size in self.shapes[node])
        return self.emit(f"loops.load %{node}[{', '.join(map(str, indices))}]", indent)

    def index(self, scope: dict[str, int], size: int) -> Linear:
        if size == 1:
            return Linear()
        choices = [Linear((), k) for k in range(size)]
        reduced = [name for name in scope if name.startswith("r")]
        for name, extent in scope.items():
            if extent == size:
                choices += [Linear.var(name)] * (9 if name in reduced else 5)
                choices.append(Linear.var(name) * -1 + Linear((), size - 1))
            elif extent < size:
                choices.append(Linear.var(name) + Linear((), size - extent))
        return self.draw(st.sampled_from(choices))

    def unary(self, value: str, indent: int) -> str:
        match self.draw(st.sampled_from(UNARY)):
            case "costly":
                return self.emit(
                    f"math.roundeven {self.emit(f'math.tanh {value} : f64', indent)} : f64", indent
                )
            case "gate":
                zero = self.emit("arith.constant 0.0 : f64", indent)
                positive = self.emit(f"arith.cmpf ogt, {value}, {zero} : f64", indent)
                return self.emit(f"arith.select {positive}, {value}, {zero} : f64", indent)
            case op:
                return self.emit(f"{op} {value} : f64", indent)

    def binary(self, first: str, second: str, indent: int) -> str:
        op = self.draw(st.sampled_from(BINARY))
        if op != "product":
            return self.emit(f"{op} {first}, {second} : f64", indent)
        bound = self.emit("arith.constant 4.0 : f64", indent)
        small = self.emit(f"arith.minimumf {second}, {bound} : f64", indent)
        gate = self.emit(f"arith.cmpf oge, {small}, {first} : f64", indent)
        return self.emit(
            f"arith.mulf {first}, {self.emit(f'arith.uitofp {gate} : i1 to f64', indent)} : f64", indent
        )

    def choice(self, scope: dict[str, int], depth: int, indent: int) -> str:
        """A value where a variable is some number, which may be outside its range or no position; else 0."""
        id = self.expression(scope, min(depth - 1, 1), indent)
        value = self.expression(scope, depth - 1, indent)
        return self.chosen(self.draw(st.sampled_from(sorted(scope))), id, value, 0.0, indent)

    def chosen(self, variable: str, id: str, value: str, neutral: float, indent: int) -> str:
        index = self.emit(f"loops.index {variable} : f64", indent)
        pair = ", ".join(self.draw(st.permutations([id, index])))
        chosen = self.emit(f"arith.cmpf oeq, {pair} : f64", indent)
        if neutral or self.draw(st.booleans()):
            other = self.emit(f"arith.constant {HEX[neutral]} : f64", indent)
            return self.emit(f"arith.select {chosen}, {value}, {other} : f64", indent)
        factors = [self.emit(f"arith.uitofp {chosen} : i1 to f64", indent), value]
        return self.emit(f"arith.mulf {', '.join(self.draw(st.permutations(factors)))} : f64", indent)

    def bounded(self, value: str, indent: int) -> str:
        low, high = (self.emit(f"arith.constant {bound} : f64", indent) for bound in (-8.0, 8.0))
        return self.emit(
            f"arith.minimumf {self.emit(f'arith.maximumf {value}, {low} : f64', indent)}, {high} : f64",
            indent,
        )

    def choosing_reduce(self, space: dict[str, int], accum: str) -> str:
        """Chooses one or two variables of the nest or of the reduction, by ids that vary anywhere."""
        reduced = {"m": 3, "n": 4} if self.draw(st.booleans()) else {"m": 3}
        self.lines.append(f"    %sum = loops.reduce {accum} ({space_text(reduced)}) : f64 {{")
        value = self.expression(space | reduced, 1, 3)
        for variable in self.draw(st.lists(st.sampled_from([*space, *reduced]), min_size=1, max_size=2)):
            id = self.load(space | reduced, 3, "ids")
            value = self.chosen(variable, id, value, NEUTRAL[accum], 3)
        self.lines += [f"      loops.yield {value}", "    }"]
        return "%sum"

    def reduce(self, scope: dict[str, int], depth: int, indent: int) -> str:
        accum = self.draw(st.sampled_from(ACCUMULATIONS))
        sizes = self.draw(st.lists(st.sampled_from(self.reduced), min_size=1, max_size=2))
        space = {}
        for size in sizes:
            self.reductions += 1
            space[f"r{self.reductions}"] = size
        self.values += 1
        result = f"%v{self.values}"
        self.lines.append(f"{'  ' * indent}{result} = loops.reduce {accum} ({space_text(space)}) : f64 {{")
        value = self.expression(scope | space, depth - 1, indent + 1)
        self.lines += [f"{'  ' * indent}  loops.yield {value}", "  " * indent + "}"]
        return result


HEX = {0.0: "0.0", 1.0: "1.0", math.inf: "0x7FF0000000000000", -math.inf: "0xFFF0000000000000"}
ACCUMULATION_OPS = {
    "add": "arith.addf",
    "mul": "arith.mulf",
    "max": "arith.maximumf",
    "min": "arith.minimumf",
}
NEUTRAL = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}


@st.composite
def choosing_programs(draw: st.DrawFn) -> str:
    """A function of gathers and scatters: reductions of what is neutral unless a variable is some number."""
    shapes = {"ids": (3,), "x": (4, 3), "y": (4, 3), "z": (3, 4)}
    lines = [f"loops.func @choosing indices ({space_text(STATIC)}) {{"]
    for node, shape in shapes.items():
        lines.append(f'  %{node} = assign.node "{node}" on_device : memref<{"x".join(map(str, shape))}xf64>')
    for k in range(draw(st.integers(1, 3))):
        node = draw(st.sampled_from("xyz"))
        space = dict(zip(draw(st.permutations("ij")), shapes[node], strict=True))
        indices = tuple(map(Linear.var, space))
        writer = NestWriter(draw, shapes, {node: indices})
        accum = draw(st.sampled_from(("add", "add", "mul", "max", "min")))
        value = writer.choosing_reduce(space, accum)
        if draw(st.booleans()):
            pair = draw(st.permutations([writer.load(space, 2, node), value]))
            value = writer.emit(f"{ACCUMULATION_OPS[accum]} {', '.join(pair)} : f64", 2)
        elif math.isinf(NEUTRAL[accum]):
            value = writer.bounded(value, 2)
        writer.lines.append(f"    loops.store {value}, %{node}[{', '.join(map(str, indices))}]")
        lines += [f'  loops.nest "p{k}" ({space_text(space)}) {{', *writer.lines, "  }"]
    return "\n".join([*lines, "}"])


def space_text(space: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in space.items())


@st.composite
def targets(
    draw: st.DrawFn, shapes: Mapping[str, tuple[int, ...]], valued: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, int], dict[str, Map]]:
    """The space of a nest, and what it stores to at which map: whole nodes, or parts of valued ones."""
    node = draw(st.sampled_from(sorted(shapes)))
    space: dict[str, int] = {}
    indices: list[Linear] = []
    names = draw(st.permutations(["i", "j"]))
    for name, size in zip(names, shapes[node], strict=False):
        kind = (
            draw(st.sampled_from(("whole",) * 6 + ("part", "row", "static"))) if node in valued else "whole"
        )
        if kind == "part" and size > 1:
            space[name] = size - 1
            indices.append(Linear.var(name) + Linear((), draw(st.integers(0, 1))))
        elif kind == "row":
            indices.append(Linear((), draw(st.integers(0, size - 1))))
        elif kind == "static" and size == STATIC["s"]:
            indices.append(Linear.var("s"))
        else:
            space[name] = size
            indices.append(Linear.var(name))
    stored = {node: tuple(indices)}
    others = sorted(n for n in valued if n != node and shapes[n] == shapes[node])
    if others and draw(st.integers(0, 2)) == 0:
        stored[draw(st.sampled_from(others))] = tuple(indices)
    return {name: space[name] for name in draw(st.permutations(sorted(space)))}, stored


@dataclass(frozen=True)
class Body:
    """The body of loops: its name, the shapes of its nodes with memory of their own, and its text."""

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    text: str


@st.composite
def loop_programs(
    draw: st.DrawFn, choices: Sequence[tuple[int, ...]] = SHAPES, reduced: Sequence[int] = REDUCED
) -> str:
    """A function of some nests over a few nodes, half of them local; `reduced` are sizes of reductions."""
    return draw(functions("random", choices, reduced)).text


@st.composite
def repeating_programs(draw: st.DrawFn) -> str:
    """A function of nests and loops, whose bodies are such functions, in which values stay small."""
    inner = draw(functions("inner", most=2, is_body=True))
    outer = draw(functions("outer", most=2, is_body=True, body=inner))
    found = draw(functions("random", most=4, body=draw(st.sampled_from((inner, outer))))).text
    for body in (outer, inner):
        found = f"{body.text}\n{found}" if f"@{body.name} " in found else found
    return found


def repeat_text(draw: st.DrawFn, body: Body, valued: Mapping[str, tuple[int, ...]]) -> str | None:
    """A loop over a body, some of whose nodes are given to it; None if there are too few."""
    left, bound = dict(valued), list[str]()
    for label, shape in body.shapes.items():
        fitting = [node for node, own in left.items() if own == shape]
        if not fitting:
            return None
        node = draw(st.sampled_from(fitting))
        del left[node]
        bound.append(f'"{label}" = %{node}')
    return f"  loops.repeat @{body.name} s = 2 ({', '.join(bound)})"


@st.composite
def functions(
    draw: st.DrawFn,
    name: str,
    choices: Sequence[tuple[int, ...]] = SHAPES,
    reduced: Sequence[int] = REDUCED,
    most: int = 8,
    *,
    is_body: bool = False,
    body: Body | None = None,
) -> Body:
    shapes = {f"n{k}": draw(st.sampled_from(choices)) for k in range(draw(st.integers(3, 6)))}
    modes = {node: draw(st.sampled_from(("on_device", "local"))) for node in shapes}
    if body is not None:
        shapes |= {f"b{k}": shape for k, shape in enumerate(body.shapes.values())}
        modes |= {node: "on_device" for node in shapes if node not in modes}
    lines = [f"loops.func @{name} indices ({space_text(STATIC)}) {{"]
    for node, shape in shapes.items():
        type, mode = "x".join([*map(str, shape), "f64"]), modes[node]
        lines.append(f'  %{node} = assign.node "{node}" {mode} because "intermediate value" : memref<{type}>')
    own = {node: shape for node, shape in shapes.items() if modes[node] == "on_device"}
    valued = dict(own)
    for k in range(draw(st.integers(min(3, most), most))):
        if body is not None and (repeat := repeat_text(draw, body, valued)) and draw(st.booleans()):
            lines.append(repeat)
        space, stored = draw(targets(shapes, valued))
        writer = NestWriter(draw, dict(valued), stored, reduced)
        for node, indices in stored.items():
            value = writer.expression(space | STATIC, draw(st.integers(1, 3)))
            value = writer.bounded(value, 2) if is_body else value
            writer.lines.append(f"    loops.store {value}, %{node}[{', '.join(map(str, indices))}]")
        valued |= {node: shapes[node] for node in stored}
        lines += [f'  loops.nest "p{k}" ({space_text(space)}) {{', *writer.lines, "  }"]
    return Body(name, own, "\n".join([*lines, "}"]))


ROWS, COLUMNS = 4, 6
# What a nest over some variables may reduce.
REDUCTIONS = {"ij": ("",), "i": ("j", "j", ""), "j": ("i", "i", ""), "": ("ij", "i")}


@st.composite
def row_programs(draw: st.DrawFn) -> str:
    """Nests over rows and columns: pointwise, and sums of either or of both."""
    lines: list[str] = ["loops.func @rows {"]
    body: list[str] = []
    valued = {"x": "ij", "b": "j"}
    sizes = {"i": ROWS, "j": COLUMNS}
    for k in range(draw(st.integers(2, 9))):
        axes = draw(st.sampled_from(("ij", "ij", "i", "j", "")))
        space, inner = (
            {n: sizes[n] for n in names} for names in (axes, draw(st.sampled_from(REDUCTIONS[axes])))
        )
        scope = {*space, *inner}
        indent = "      " if inner else "    "
        loads = draw(st.lists(st.sampled_from(sorted(valued)), min_size=1, max_size=3))
        loads = [node for node in loads if scope.issuperset(valued[node])]
        ops = [f"%c = arith.constant {k}.0 : f64"]
        last = "%c"
        for n, node in enumerate(loads):
            ops += [f"%l{n} = loops.load %{node}[{', '.join(valued[node])}]"]
            ops += [f"%s{n} = {draw(st.sampled_from(('arith.addf', 'arith.maximumf')))} {last}, %l{n} : f64"]
            last = f"%s{n}"
        body.append(f'  loops.nest "n{k}" ({space_text(space)}) {{')
        if inner:
            accum = draw(st.sampled_from(("add", "add", "max")))
            body.append(f"    %r = loops.reduce {accum} ({space_text(inner)}) : f64 {{")
            body += [indent + op for op in (*ops, f"loops.yield {last}")]
            body += ["    }", "    %h = arith.constant 0.5 : f64", "    %v = arith.mulf %r, %h : f64"]
            last = "%v"
        else:
            body += [indent + op for op in ops]
        body += [f"    loops.store {last}, %n{k}[{', '.join(axes)}]", "  }"]
        valued[f"n{k}"] = axes
    for node, axes in valued.items():
        mode = draw(st.sampled_from(("on_device", "local"))) if node[0] == "n" else "on_device"
        type = "x".join([*(str(sizes[name]) for name in axes), "f64"])
        lines.append(f'  %{node} = assign.node "{node}" {mode} because "node" : memref<{type}>')
    return "\n".join([*lines, *body, "}"])
