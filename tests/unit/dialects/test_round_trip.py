"""Everything prints, parses back to the same, and malformed text is told so."""

from __future__ import annotations

import math
import re
from functools import cache
from io import StringIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.layering import TESTS
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, f32, f64, i8, i64
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException, ParseError

from ocannl.dialects import assign, loops, texpr
from ocannl.dialects.assign.node import CONSTANT, MEMORY_MODES, VIRTUAL
from ocannl.dialects.index.linear import Linear, MapAttr, SpaceAttr, identity_map
from ocannl.dialects.index.memref import memref_shape
from ocannl.dialects.ir.locating_parser import LocatingParser
from ocannl.dialects.ir.op_helpers import copied
from ocannl.dialects.ir.text_printer import op_text
from ocannl.dialects.routine import IndicesAttr
from ocannl.dialects.scalar import SCALAR_OPS, accumulators
from ocannl.dialects.scalar.combination import Combination, TermAttr
from ocannl.dialects.scalar.streams import Stream
from ocannl.dialects.scalar.terms import App, Arg, Const, Term
from ocannl.dialects.shapes.shape import Dim, DimVar, Row, RowVar, Shape
from ocannl.dialects.texpr.tensor_type import DimsAttr, ShapeAttr, TensorType
from ocannl.lowering.pipelines import new_context

FILES = sorted((TESTS / "filecheck" / "dialects").glob("*/*.mlir"))
RANDOM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cache
def context() -> Context:
    return new_context()


def text_of(module: ModuleOp, generic: bool = False) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


def generic_text(routine: Operation) -> str:
    """A program of one routine: examples that fail are shown as text."""
    return text_of(ModuleOp([routine]), generic=True)


def parse(text: str) -> ModuleOp:
    return LocatingParser(context(), text, "test.mlir").parse_module()


# Attributes.

NAMES = st.sampled_from(["b", "i", "o", "batch_n", "x.y", "_", "e1", "inf", "true", "over"])
BASES = st.none() | st.sampled_from(["rgb", "x", "f32", "e5", "true"])
ELEMENTS = st.sampled_from([f32, f64, i8, i64])
SIZES = st.integers(0, 2**63)

linears = st.builds(Linear.of, st.dictionaries(NAMES, st.integers(), max_size=3), st.integers())
maps = st.lists(linears, max_size=3).map(tuple)
spaces = st.dictionaries(NAMES, SIZES, max_size=3).map(lambda sizes: tuple(sizes.items()))
numbers = st.floats(allow_nan=False) | st.just(math.nan)
dims = st.builds(Dim, SIZES, BASES) | st.builds(DimVar, st.integers(0, 99))
axes = st.lists(dims, max_size=3).map(tuple)
rows = st.builds(Row, axes, st.none() | st.builds(RowVar, st.integers(0, 99)), axes)
shapes = st.builds(Shape, rows, rows, rows)


def applications(terms: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    def of(name: str) -> st.SearchStrategy[Term]:
        return st.tuples(*[terms] * SCALAR_OPS[name].arity).map(lambda args: App(name, args))

    return st.sampled_from(sorted(SCALAR_OPS)).flatmap(of)


terms = st.recursive(
    st.builds(Arg, st.integers(0, 12)) | st.builds(Const, numbers), applications, max_leaves=6
)
extents = st.tuples(NAMES, st.integers(0, 64))
schedules = st.builds(
    loops.Schedule,
    st.lists(NAMES, max_size=3).map(tuple),
    st.none() | extents,
    st.none() | extents,
    st.lists(extents, max_size=2).map(tuple),
)

attributes: st.SearchStrategy[Attribute] = st.one_of(
    st.builds(MapAttr, maps),
    st.builds(SpaceAttr, spaces),
    st.builds(TermAttr, terms),
    st.builds(IndicesAttr, st.lists(st.tuples(NAMES, st.none() | SIZES), max_size=3).map(tuple)),
    st.builds(ShapeAttr, shapes),
    st.builds(TensorType.of, shapes, st.none() | ELEMENTS),
    st.builds(DimsAttr, st.dictionaries(NAMES, dims, max_size=3).map(lambda d: tuple(d.items()))),
    st.builds(loops.ScheduleAttr, schedules),
)


@given(attributes)
@settings(RANDOM, max_examples=30)
def test_attributes(attribute: Attribute):
    parser = LocatingParser(context(), str(attribute), "test.mlir")
    found = parser.parse_attribute()
    assert found == attribute
    assert str(found) == str(attribute)
    assert parser.pos == len(str(attribute))


# Operations.

LABELS = st.text(max_size=6)
small = st.lists(st.integers(1, 5), max_size=3).map(tuple)
ACCUMULATIONS = st.none() | st.sampled_from([op.name for op in accumulators()])


def numbered(term: Term, count: list[int], limit: int) -> Term:
    """The term with its arguments numbered as they are written, up to a limit, then again from 0."""
    match term:
        case Arg():
            count[0] += 1
            return Arg((count[0] - 1) % limit)
        case App(op, args):
            return App(op, tuple(numbered(a, count, limit) for a in args))
        case Const():
            return term


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Leaves, an expression of some of them as built, and code about it."""
    leaves: list[Operation] = [
        draw(st.sampled_from([texpr.ParamOp, texpr.DataOp, texpr.NodeOp]))(
            draw(LABELS), TensorType.of(draw(shapes), draw(st.none() | ELEMENTS))
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    leaves.append(texpr.ConstantOp(draw(numbers), TensorType.of(draw(shapes))))
    leaves.append(texpr.SizeOp(draw(dims), TensorType.of(draw(shapes))))
    leaves.append(texpr.EmbedOp(Linear((), draw(st.integers())), TensorType.of(draw(shapes))))
    stream = Stream(draw(LABELS), draw(st.booleans()))
    like = draw(st.none() | st.just(leaves[0].results[0]))
    leaves.append(texpr.EmbedOp(Linear((), 3), TensorType.of(Shape(Row(), Row(), Row()))))
    leaves.append(texpr.UniformOp(stream, leaves[-1].results[0], TensorType.of(draw(shapes), f64), like))
    count = [0]
    term = numbered(draw(terms), count, 1000)
    args = [draw(st.sampled_from(leaves)).results[0] for _ in range(count[0])]
    apply = texpr.ApplyOp(
        term,
        args,
        TensorType.of(draw(shapes)),
        accum=draw(ACCUMULATIONS),
        logic=draw(st.sampled_from([".", "; ".join(["..."] * len(args)) + " => h i"] if args else ["."])),
        dims=tuple(draw(st.dictionaries(st.sampled_from("hi"), dims)).items()),
        stop=draw(st.booleans()),
        mode=draw(st.sampled_from([None, "materialized", "virtual"])),
    )
    y, x, type = (
        apply.result,
        leaves[0].results[0],
        TensorType.of(Shape(*[Row((), RowVar(k), ()) for k in range(3)])),
    )
    adjoint = texpr.AdjointOp(y, type)
    pairs = draw(st.integers(0, 2))
    derivatives: list[Operation] = [
        texpr.VjpOp(y, x, draw(st.sampled_from([None, x])), type),
        texpr.JvpOp(y, [x] * pairs, [y] * pairs, type),
        adjoint,
        texpr.CustomOp(y, adjoint.result, [x] * pairs, [adjoint.result] * pairs, type),
    ]
    code: list[Operation] = [
        texpr.CommentOp(draw(LABELS)),
        texpr.ForwardOp(apply.result),
        texpr.AssignOp(
            leaves[0].results[0],
            apply.result,
            accum=draw(ACCUMULATIONS),
            logic=draw(st.sampled_from([".", "T", "... => a"])),
        ),
    ]
    return generic_text(texpr.TexprRoutineOp("r", (), Region(Block([*leaves, apply, *derivatives, *code]))))


@st.composite
def assignments(draw: st.DrawFn) -> str:
    """Nodes and an assignment to the first of them from others, its indices inside."""
    labels = draw(st.lists(LABELS, min_size=2, max_size=4, unique=True))
    modes = [st.sampled_from(MEMORY_MODES) for _ in labels]
    modes[0] = modes[0].filter(lambda mode: mode not in (CONSTANT, VIRTUAL))  # it is written
    nodes = [
        assign.NodeOp(label, draw(mode), draw(LABELS), MemRefType(draw(ELEMENTS), draw(small)))
        for label, mode in zip(labels, modes, strict=True)
    ]
    lhs = nodes[0].result
    sizes = {f"i{axis}": size for axis, size in enumerate(memref_shape(lhs))}
    accum = draw(ACCUMULATIONS)
    if accum is not None:
        sizes |= {"k": 3}

    def index(size: int) -> Linear:
        fitting = [Linear.var(name) for name, reach in sizes.items() if reach <= size]
        reverse = [v * -1 + Linear((), size - 1) for v in fitting]
        return draw(st.sampled_from([Linear((), size - 1), *fitting, *reverse]))

    operands = [draw(st.sampled_from(nodes[1:])).result for _ in range(3)]
    maps = [tuple(map(index, memref_shape(operand))) for operand in operands]
    combination = Combination.of(numbered(draw(terms), [0], 3), operands, maps)
    identity = identity_map(n for n in sizes if n != "k")
    accumulation = assign.AccumOp(
        lhs, identity, combination, tuple(sizes.items()), accum, draw(st.booleans())
    )
    block = Block([*nodes, assign.CommentOp(draw(LABELS)), accumulation])
    return generic_text(assign.AssignRoutineOp("r", (("n", 5), ("m", None)), Region(block)))


@st.composite
def nests(draw: st.DrawFn) -> str:
    """A nest with a reduction and a schedule."""
    sizes = draw(small.filter(bool))
    node, sums = (assign.NodeOp(label, "on_device", draw(LABELS), MemRefType(f32, sizes)) for label in "xy")
    names = [f"i{axis}" for axis in range(len(sizes))]
    load = loops.LoadOp(node.result, identity_map([*names[:-1], "k"]))
    inner = Region(Block([load, loops.YieldOp(load.result)]))
    reduce = loops.ReduceOp("add", [("k", sizes[-1])], inner, f32)
    index = loops.IndexOp(draw(linears.map(lambda a: Linear.of({names[-1]: a.constant}, 1))), f64)
    store = loops.StoreOp(reduce.result, sums.result, identity_map(names))
    merged = (tuple(names[:-1]),) if len(names) > 2 else ()
    first = "*".join(names[:-1] or names)
    order = tuple(draw(st.permutations(sorted({first, names[-1]}))))
    schedule = loops.Schedule(order, (first, 2), ("k", 4), ((first, 6),), merged, draw(st.integers(1, 3)))
    nest = loops.NestOp(
        draw(LABELS),
        tuple(zip(names, sizes, strict=True)),
        Region(Block([index, reduce, store])),
        draw(st.sampled_from([None, schedule])),
    )
    return generic_text(loops.FuncOp("r", (), Region(Block([node, sums, nest]))))


@given(expressions() | assignments() | nests())
@settings(RANDOM, max_examples=settings().max_examples // 2)
def test_operations(text: str):
    """From the generic format and from ours, to the same program; our printer writes what xDSL's does."""
    module = parse(text)
    module.verify()
    assert text_of(module, generic=True) == text
    assert op_text(module) == text_of(module)
    again = parse(text_of(module))
    again.verify()
    assert text_of(again) == text_of(module)
    assert again.is_structurally_equivalent(module)


# Malformed text.

TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_][\w.]*|[%@#!]\w+|\d+|->|\.\.\.|\s+|.', re.DOTALL)


def routines() -> list[str]:
    """The routines of the files of this folder's tests, each also in the generic format; with loops, all of a
    file, since they run others.
    """
    found: list[str] = []
    for file in FILES:
        if "invalid" in file.name:
            continue
        text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("//"))
        module = parse(text)
        has_loops = any(isinstance(op, assign.RepeatOp | loops.RepeatOp) for op in module.walk())
        apart = [[*module.body.block.ops]] if has_loops else [[op] for op in module.body.block.ops]
        for generic in (False, True):
            found += [text_of(ModuleOp([op.clone() for op in ops]), generic) for ops in apart]
    return found


ROUTINES = routines()
WORDS = sorted({word for text in ROUTINES for word in TOKEN.findall(text) if not word.isspace()})
edits = st.tuples(
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(["drop", "put", "replace", "swap"]),
    st.sampled_from(WORDS),
)


def edited(tokens: list[str], at: float, how: str, word: str) -> list[str]:
    place = int(at * len(tokens))
    before, token, after = tokens[:place], tokens[place], tokens[place + 1 :]
    match how:
        case "drop":
            return [*before, *after]
        case "put":
            return [*before, word, " ", token, *after]
        case "replace":
            return [*before, word, *after]
        case _:
            return [*before, *reversed([token, *after[:2]]), *after[2:]]


@given(st.sampled_from(ROUTINES), st.lists(edits, min_size=1, max_size=3))
@settings(RANDOM, max_examples=80)
def test_malformed_text(text: str, changes: list[tuple[float, str, str]]):
    """It is refused with a message, or else it is a program that prints and parses."""
    tokens = TOKEN.findall(text)
    for change in changes:
        tokens = edited(tokens, *change)
    try:
        module = parse("".join(tokens))
        module.verify()
    except (ParseError, DiagnosticException):
        return
    printed = text_of(module)
    assert text_of(parse(printed)) == printed


def test_origins_are_printed_as_xdsl_prints_them():
    for text in ROUTINES:
        module, out = parse(text), StringIO()
        Printer(out, print_debuginfo=True).print_op(module)
        assert op_text(module, origins=True) == out.getvalue()


def test_copies():
    """They print as the same text, and use values of their own."""
    for text in ROUTINES:
        module = parse(text)
        copy = copied(module, {})
        copy.verify()
        assert op_text(copy) == op_text(module)
        originals = set(module.walk())
        for op in copy.walk():
            assert originals.isdisjoint(value.owner for value in op.operands)
            assert originals.isdisjoint(use.operation for value in op.results for use in value.uses)


@pytest.mark.parametrize("text", ["texpr.routine", "texpr.routine @r {", "%x =", '"', "loops.nest", "@"])
def test_text_that_ends_too_early(text: str):
    with pytest.raises(ParseError):
        parse(text)


@pytest.mark.parametrize(
    "number",
    ["9" * 400, "9" * 5000, "²", f"{'neg(' * 2000}1.0{')' * 2000}"],
    ids=["huge", "long", "odd", "deep"],
)
def test_numbers_that_python_cannot_read(number: str):
    with pytest.raises(ParseError):
        parse(f'texpr.routine @r {{ %x = texpr.apply = {number} logic "." : !texpr.tensor<> }}')


def test_text_beyond_ascii():
    label = "größe — 重み"
    node = assign.NodeOp(label, "on_device", label, MemRefType(f32, [2]))
    module = parse(text_of(parse(generic_text(assign.AssignRoutineOp("r", (), Region(Block([node])))))))
    (found,) = (op for op in module.walk() if isinstance(op, assign.NodeOp))
    assert (found.label.data, found.why.data) == (label, label)


def test_a_value_that_is_read_several_times_has_one_slot():
    text = """texpr.routine @f {
  %i = texpr.data "i" : !texpr.tensor<3, i32>
  %n = texpr.constant 5 : !texpr.tensor<i32>
  %w = texpr.apply min= where(lt(%i, %n), %i, floor(%i)) logic "... | ...; => 0" : !texpr.tensor<1, i32>
  %x = texpr.apply add= mul(%i, %i) logic "a; b => a, b" : !texpr.tensor<3, 3, i32>
}"""
    module = LocatingParser(new_context(), text, "text").parse_module()
    applied = [op for op in module.walk() if isinstance(op, texpr.ApplyOp)]
    assert [len(op.args) for op in applied] == [2, 2]
    module.verify()
