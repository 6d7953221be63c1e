"""An interpreter of the `loops` dialect in NumPy: all points of a nest at once, one axis a variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from support import random_reference
from xdsl.dialects import arith, math
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.linear import POSITION, Linear
from ocannl.dialects.loops import (
    FuncOp,
    GroupOp,
    IndexOp,
    LoadOp,
    NestOp,
    PositionOp,
    ReduceOp,
    RepeatOp,
    StoreOp,
    UniformOp,
)
from ocannl.dialects.scalar.small_floats import small_format

Array: TypeAlias = NDArray[Any]

PREDICATES: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

SCALAR: dict[type[Operation], Callable[..., Array]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
    arith.SelectOp: np.where,
    math.AbsFOp: np.abs,
    math.CeilOp: np.ceil,
    math.CopySignOp: np.copysign,
    math.AcosOp: np.arccos,
    math.AsinOp: np.arcsin,
    math.Atan2Op: np.arctan2,
    math.AtanOp: np.arctan,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.ExpM1Op: np.expm1,
    math.Log10Op: np.log10,
    math.Log1pOp: np.log1p,
    math.SinhOp: np.sinh,
    math.TanOp: np.tan,
    math.Exp2Op: np.exp2,
    math.ExpOp: np.exp,
    math.FloorOp: np.floor,
    math.FmaOp: lambda x, y, z: x * y + z,
    math.Log2Op: np.log2,
    math.LogOp: np.log,
    math.PowFOp: np.power,
    math.RoundEvenOp: np.rint,
    math.SinOp: np.sin,
    math.SqrtOp: np.sqrt,
    math.TanhOp: np.tanh,
    math.TruncOp: np.trunc,
}

CASTS = (arith.ExtFOp, arith.ExtSIOp, arith.FPToSIOp, arith.SIToFPOp, arith.TruncFOp, arith.TruncIOp)

REDUCTIONS: dict[str, Callable[..., Array]] = {
    "add": lambda x, axis: np.sum(x, axis, np.result_type(x, np.float64)),
    "mul": lambda x, axis: np.prod(x, axis, np.result_type(x, np.float64)),
    "max": lambda x, axis: np.max(x, axis, initial=-np.inf),
    "min": lambda x, axis: np.min(x, axis, initial=np.inf),
    "or": np.any,
    "and": np.all,
}


def dtype(type: Attribute) -> np.dtype[Any]:
    match type:
        case Float32Type():
            return np.dtype(np.float32)
        case Float64Type():
            return np.dtype(np.float64)
        case IntegerType():
            bits = type.width.data
            return np.dtype(bool) if bits == 1 else np.dtype(f"int{bits}")
        case _:
            format = small_format(type)
            assert format is not None, f"no NumPy type for {type}"
            return np.dtype(getattr(ml_dtypes, format.dtype, format.dtype))


def unsigned(x: Array) -> Array:
    return x.astype(np.uint8) if x.dtype == bool else x.view(f"uint{x.itemsize * 8}")


def run_func(func: FuncOp, nodes: Mapping[str, Array], indices: Mapping[str, int] | None = None) -> None:
    """Runs a function on the arrays of its nodes, by label, in place. Local nodes may be missing."""
    memory: dict[SSAValue, Array] = {}
    with np.errstate(all="ignore"):
        for op in func.body.block.ops:
            if isinstance(op, NodeOp):
                shape, type = op.result.type.get_shape(), op.result.type.get_element_type()
                found = nodes.get(op.label.data)
                memory[op.result] = np.zeros(shape, dtype(type)) if found is None else found
            elif isinstance(op, NestOp):
                run_nest(op, memory, indices or {})
            elif isinstance(op, GroupOp):
                run_group(op, memory, indices or {})
            elif isinstance(op, RepeatOp):
                run_repeat(op, memory, indices or {})


def run_repeat(repeat: RepeatOp, memory: Mapping[SSAValue, Array], indices: Mapping[str, int]) -> None:
    """The local nodes of a body have other values at the start of each iteration. They are in the workspace
    if there is one.
    """
    body, own = repeat.func, {label: memory[node] for label, node in repeat.bound.items()}
    local = [node for node in body.body.block.ops if isinstance(node, NodeOp) and node.mode.data == "local"]
    for node in local:
        shape, type = node.result.type.get_shape(), dtype(node.result.type.get_element_type())
        if repeat.workspace is None or node.offset is None:
            own[node.label.data] = np.zeros(shape, type)
        else:
            place = memory[repeat.workspace][node.offset.data :][: prod(shape) * type.itemsize]
            own[node.label.data] = place.view(type).reshape(shape)
    for t in range(repeat.count.data):
        if repeat.flag is not None and not memory[repeat.flag].any():
            break
        for node in local:
            own[node.label.data][...] = 100 + t
        run_func(body, own, {**indices, repeat.index.data: t})


def run_group(group: GroupOp, memory: dict[SSAValue, Array], indices: Mapping[str, int]) -> None:
    """Point by point; what a group declares has other values at the start of each."""
    names = group.space.names
    for k, point in enumerate(np.ndindex(*(size for _, size in group.space.data))):
        at = {**indices, **dict(zip(names, point, strict=True))}
        if any(index_value(bound.index, at) >= bound.below for bound in group.bounds):
            continue
        for node in group.nodes:
            shape, type = node.result.type.get_shape(), node.result.type.get_element_type()
            memory[node.result] = np.full(shape, 1000 + k, dtype(type))
        for nest in group.nests:
            run_nest(nest, memory, at)


def index_value(index: Linear, at: Mapping[str, int]) -> int:
    return index.constant + sum(coefficient * at[name] for name, coefficient in index.terms)


def run_nest(nest: NestOp, memory: Mapping[SSAValue, Array], indices: Mapping[str, int]) -> None:
    """Points that may store to the same cell run one after the other, all others at once."""
    sizes, in_turn = dict(nest.space.data), sorted(nest.clashing)
    for point in np.ndindex(*(sizes[name] for name in in_turn)):
        interpreter = Interpreter(memory, {**indices, **dict(zip(in_turn, point, strict=True))})
        interpreter.enter(tuple(d for d in nest.space.data if d[0] not in in_turn))
        if interpreter.not_empty:
            interpreter.run_block(nest.body.block)


@dataclass
class Interpreter:
    """The values of one nest: arrays whose axis k is variable k of `path`, or has size 1."""

    memory: Mapping[SSAValue, Array]
    indices: Mapping[str, int]
    path: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    values: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])

    def enter(self, space: tuple[tuple[str, int], ...]) -> None:
        self.path += space

    @property
    def not_empty(self) -> bool:
        return all(size for _, size in self.path)

    def value(self, value: SSAValue) -> Array:
        return self.aligned(self.values[value])

    def aligned(self, array: Array) -> Array:
        return array.reshape(array.shape + (1,) * (len(self.path) - array.ndim))

    def linear(self, index: Linear) -> Array:
        total = np.full((1,) * len(self.path), index.constant, np.int64)
        axes = {name: axis for axis, (name, _) in enumerate(self.path)}
        for name, coefficient in index.terms:
            if name in axes:
                shape = [1] * len(self.path)
                shape[axes[name]] = self.path[axes[name]][1]
                total = total + coefficient * np.arange(shape[axes[name]]).reshape(shape)
            else:
                total = total + coefficient * self.indices[name]
        return total

    def run_block(self, block: Block) -> None:
        for op in block.ops:
            self.run_op(op)

    def run_op(self, op: Operation) -> None:
        match op:
            case PositionOp():
                self.position(op)
            case LoadOp():
                places = self.places(op)
                self.values[op.result] = self.aligned(np.asarray(self.memory[op.node][places]))
            case StoreOp():
                places = self.places(op)
                value = np.broadcast_to(self.value(op.value), [size for _, size in self.path])
                self.memory[op.node][places] = value
            case IndexOp():
                self.values[op.result] = self.linear(op.index).astype(dtype(op.result.type))
            case ReduceOp():
                self.reduce(op)
            case UniformOp():
                self.values[op.result] = self.uniform(op)
            case arith.ConstantOp():
                number: Any = op.value
                value = np.array(number.value.data).astype(dtype(op.result.type))
                self.values[op.result] = self.aligned(value)
            case _ if op.results:
                result = self.scalar(op, [self.value(operand) for operand in op.operands])
                self.values[op.results[0]] = result.astype(dtype(op.results[0].type), copy=False)
            case _:
                pass

    def position(self, op: PositionOp) -> None:
        number = self.value(op.number)
        inside = (number >= 0) & (number < op.size.data) & (np.floor(number) == number)
        self.values[op.inside] = inside
        self.values[op.position] = np.where(inside, number, 0).astype(np.int64)

    def places(self, op: LoadOp | StoreOp) -> tuple[Array, ...]:
        positions = {f"{POSITION}{k}": self.value(value) for k, value in enumerate(op.positions)}

        def place(index: Linear) -> Array:
            static = Linear.of({n: c for n, c in index.terms if n not in positions}, index.constant)
            moved = [coefficient * positions[name] for name, coefficient in index.terms if name in positions]
            return sum(moved, self.linear(static))

        return tuple(place(index) for index in op.indices.data)

    def uniform(self, op: UniformOp) -> Array:
        place = unsigned(self.value(op.place)).astype(np.uint64)
        words = random_reference.block(op.stream.data.key, place, unsigned(self.value(op.counter)))
        return random_reference.number(words, dtype(op.result.type), op.stream.data.second)

    def reduce(self, op: ReduceOp) -> None:
        outer = len(self.path)
        self.enter(op.space.data)
        if all(size for _, size in op.space.data):
            self.run_block(op.body.block)
            yielded = self.value(op.yielded)
        else:
            yielded = np.zeros((1,) * len(self.path), dtype(op.result.type))
        sizes = [size for _, size in self.path[outer:]]
        yielded = np.broadcast_to(yielded, [*yielded.shape[:outer], *sizes])
        del self.path[outer:]
        axes = tuple(range(outer, yielded.ndim))
        reduced = REDUCTIONS[op.accum.data](yielded, axis=axes)
        self.values[op.result] = np.asarray(reduced).astype(dtype(op.result.type))

    def scalar(self, op: Operation, operands: list[Array]) -> Array:
        match op:
            case arith.CmpfOp():
                return compare_floats(CMPF_COMPARISON_OPERATIONS[op.predicate.value.data], *operands)
            case arith.CmpiOp():
                return compare_integers(CMPI_COMPARISON_OPERATIONS[op.predicate.value.data], *operands)
            case arith.BitcastOp():
                return operands[0].view(dtype(op.result.type))
            case arith.ShRUIOp():
                return np.right_shift(*map(unsigned, operands)).view(operands[0].dtype)
            case arith.ExtUIOp() | arith.UIToFPOp():
                return unsigned(operands[0]).astype(dtype(op.results[0].type))
            case _ if isinstance(op, CASTS):
                return operands[0].astype(dtype(op.results[0].type))
            case _:
                return SCALAR[type(op)](*operands)


def compare_floats(predicate: str, x: Array, y: Array) -> Array:
    unordered = np.isnan(x) | np.isnan(y)
    match predicate:
        case "true" | "false":
            return np.full(np.broadcast_shapes(x.shape, y.shape), predicate == "true")
        case "uno":
            return unordered
        case "ord":
            return ~unordered
        case _:
            ordered = PREDICATES[predicate[1:]](x, y)
            return ordered | unordered if predicate[0] == "u" else ordered & ~unordered


def compare_integers(predicate: str, x: Array, y: Array) -> Array:
    if predicate[0] == "u":
        x, y = unsigned(x), unsigned(y)
    return PREDICATES[predicate.removeprefix("u").removeprefix("s")](x, y)
