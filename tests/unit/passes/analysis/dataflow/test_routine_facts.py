"""The interface of a routine: the nodes that it reads first and writes, and the range of its indices."""

from __future__ import annotations

import pytest
from support.nests import parse_module, the_func

from ocannl.passes.analysis.dataflow.routine_facts import RoutineFacts, routine_facts

LOAD_X, LOAD_Y = "%v = loops.load %x[i]", "%v = loops.load %y[i]"
STORE_Y, STORE_Z = "loops.store %v, %y[i]", "loops.store %v, %z[i]"


def facts(*nests: tuple[int, str, str], side: int | None = None) -> RoutineFacts:
    """Of nests over so many points, which load and store."""
    nodes = "\n".join(f'%{n} = assign.node "{n}" on_device : memref<8xf32>' for n in "xyz")
    local = '%t = assign.node "t" local : memref<8xf32>'
    sides = [f", side = {side}" if "side" in store else "" for _, _, store in nests]
    text = "\n".join(
        f'loops.nest "n" (i = {size}{more}) {{\n {load}\n {store}\n }}'
        for (size, load, store), more in zip(nests, sides, strict=True)
    )
    func = the_func(parse_module(f"loops.func @f indices (s, n) {{\n {nodes}\n {local}\n {text}\n }}"))
    return routine_facts(func)


@pytest.mark.parametrize(
    ("nests", "reads", "writes"),
    [
        ([(8, LOAD_X, STORE_Y)], "x", "y"),
        ([(8, LOAD_X, STORE_Y), (8, LOAD_Y, STORE_Z)], "x", "yz"),
        ([(8, LOAD_Y, STORE_Z), (8, LOAD_X, STORE_Y)], "xy", "yz"),
        ([(7, LOAD_X, STORE_Y), (8, LOAD_Y, STORE_Z)], "xy", "yz"),
        ([(4, LOAD_X, STORE_Y), (4, LOAD_X, "loops.store %v, %y[i + 4]"), (8, LOAD_Y, STORE_Z)], "x", "yz"),
        ([(4, LOAD_X, STORE_Y), (4, LOAD_X, "loops.store %v, %y[i + 3]"), (8, LOAD_Y, STORE_Z)], "xy", "yz"),
        ([(5, LOAD_X, STORE_Y), (4, LOAD_X, "loops.store %v, %y[i + 4]"), (8, LOAD_Y, STORE_Z)], "x", "yz"),
        ([(4, LOAD_X, STORE_Y), (4, LOAD_Y, STORE_Z)], "x", "yz"),
        ([(4, LOAD_X, STORE_Y), (4, "%v = loops.load %y[i + 1]", STORE_Z)], "xy", "yz"),
        ([(8, LOAD_Y, STORE_Y)], "y", "y"),
        ([(8, LOAD_X, "loops.store %v, %t[i]"), (8, "%v = loops.load %t[i]", STORE_Y)], "x", "y"),
    ],
    ids=[
        "one nest",
        "what is written is not needed",
        "read before it is written",
        "not all of it is written",
        "written in parts",
        "parts that overlap and leave a cell",
        "parts that overlap",
        "the part that is written is read",
        "a cell beside it is read, too",
        "read by the nest that writes it",
        "local nodes are nobody else's",
    ],
)
def test_reads_and_writes(nests: list[tuple[int, str, str]], reads: str, writes: str):
    found = facts(*nests)
    assert (found.reads, found.writes) == (set(reads), set(writes))


@pytest.mark.parametrize(
    ("size", "indices", "limits"),
    [
        (1, ["i"], {}),
        (1, ["s"], {"s": (0, 7)}),
        (4, ["i + s"], {"s": (0, 4)}),
        (4, ["-i + s"], {"s": (3, 7)}),
        (1, ["3*s"], {"s": (0, 2)}),
        (1, ["3*s + 2"], {"s": (0, 1)}),
        (1, ["-s + 5"], {"s": (-2, 5)}),
        (1, ["s", "s + 2"], {"s": (0, 5)}),
        (1, ["s - 2", "s"], {"s": (2, 7)}),
        (1, ["s", "n + 1"], {"s": (0, 7), "n": (-1, 6)}),
        (1, ["s + 2*n"], {"n + s": (0, 7)}),
        (0, ["s"], {}),
    ],
)
def test_limits(size: int, indices: list[str], limits: dict[str, tuple[int, int]]):
    """The values of a static index for which all accesses stay inside an axis of 8."""
    found = facts(*((size, f"%v = loops.load %x[{index}]", "loops.store %v, %y[0]") for index in indices))
    assert {" + ".join(n for n, _ in one.terms): (one.least, one.greatest) for one in found.limits} == limits


REPEATED = """
loops.func @body indices (t = 4, n) {{
  %x = assign.node "x" on_device : memref<8x8xf32>
  %h = assign.node "h" on_device : memref<8xf32>
  %ys = assign.node "ys" on_device : memref<4x8xf32>
  %first = assign.node "first" on_device : memref<8xf32>
  loops.nest "h" (i = 8) {{
    %0 = loops.load %x[2*t + n, i]
    loops.store %0, %h[i]
  }}
  loops.nest "ys" (i = 8) {{
    %0 = loops.load %h[i]
    %1 = loops.load %first[i]
    %2 = arith.addf %0, %1 : f32
    loops.store %2, %ys[{row}, i]
  }}
}}
loops.func @main indices (n) {{
  %x = assign.node "xs" on_device : memref<8x8xf32>
  %h = assign.node "state" on_device : memref<8xf32>
  %ys = assign.node "ys" on_device : memref<4x8xf32>
  %first = assign.node "start" on_device : memref<8xf32>
  %going = assign.node "going" on_device : memref<1xi1>
  {before}
  loops.repeat @body t = 4 {flag}("x" = %x, "h" = %h, "ys" = %ys, "first" = %first)
  loops.nest "h" (b = 4, i = 8) {{
    %0 = loops.load %ys[b, i]
    loops.store %0, %x[b, i]
  }}
}}"""
SET_START = """loops.nest "start" (i = 8) {
    %0 = arith.constant 1.0 : f32
    loops.store %0, %first[i]
  }"""


@pytest.mark.parametrize(
    ("row", "flag", "before", "reads", "parts"),
    [
        ("t", "", "", {"xs", "start"}, {"xs"}),
        ("-t + 3", "", SET_START, {"xs"}, {"xs"}),
        ("0", "", SET_START, {"xs", "ys"}, {"xs", "ys"}),
        ("t", "while %going ", SET_START, {"xs", "ys", "going"}, {"xs", "ys", "state"}),
    ],
    ids=["all rows are written", "in reverse", "only one row", "perhaps no row"],
)
def test_facts_of_a_loop_are_those_of_its_body(
    row: str, flag: str, before: str, reads: set[str], parts: set[str]
):
    module = parse_module(REPEATED.format(row=row, flag=flag, before=before))
    found = routine_facts(the_func(module))
    assert found.reads == reads
    assert found.writes == {"xs", "state", "ys"} | ({"start"} if before else set())
    assert found.parts == parts
    (limit,) = found.limits
    assert (limit.terms, limit.least, limit.greatest) == ((("n", 1),), 0, 1)


@pytest.mark.parametrize(("step", "reads"), [(6, "x"), (5, "xy")], ids=["both borders", "a cell is missing"])
def test_borders_that_one_nest_writes(step: int, reads: str):
    """A padded value that is computed and read in one routine was said to be unset, where borders of one size
    are one nest, as on a GPU.
    """
    borders = f"loops.store %v, %y[i + {step}*side]"
    inner = (4, LOAD_X, "loops.store %v, %y[i + 2]")
    found = facts((2, LOAD_X, borders), inner, (8, LOAD_Y, STORE_Z), side=2)
    assert (found.reads, found.writes) == (set(reads), set("yz"))


def test_cells_that_are_written_twice_count_once():
    """Borders that a later nest writes again left a node unset."""
    borders = (2, LOAD_X, "loops.store %v, %y[i + 6*side]")
    first, last = (5, LOAD_X, STORE_Y), (3, LOAD_X, "loops.store %v, %y[i + 5]")
    read = (8, LOAD_Y, STORE_Z)
    assert facts(borders, first, last, read, side=2).reads == {"x"}
    assert facts(borders, first, read, side=2).reads == {"x", "y"}
    overlapping = (5, LOAD_X, "loops.store %v, %y[i + 3*side]")
    assert facts(overlapping, read, side=2).reads == {"x"}
