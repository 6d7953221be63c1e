"""The differences between nests that are not of names."""

from itertools import combinations

from ocannl.lowering.pipelines import parse_text
from ocannl.passes.analysis.equality.structural_equality import StructuralNumbering
from ocannl.passes.analysis.nests import functions, nests

PROGRAM = """
loops.func @f {
  %x = assign.node "x" constant because "data" : memref<16xf32>
  %y = assign.node "y" on_device because "node" : memref<16xf32>
  %z = assign.node "z" on_device because "node" : memref<16xf32>
  %w = assign.node "w" on_device because "node" : memref<17xf32>
  loops.nest "y" (i = 16) {
    %0 = loops.load %x[i]
    %1 = loops.load %z[i]
    %2 = arith.subf %0, %1 : f32
    loops.store %2, %y[i]
  }
  loops.nest "z" (i = 16) {
    %a = loops.load %y[i]
    %b = loops.load %x[i]
    %c = arith.subf %a, %b : f32
    loops.store %c, %z[i]
  }
OTHERS
}
"""
OTHERS = {
    "a node that is used twice": ("%x[i]", "%x[i]", "%a, %b", "%z[i]", ""),
    "operands the other way round": ("%y[i]", "%x[i]", "%b, %a", "%z[i]", ""),
    "another element": ("%y[-i + 15]", "%x[i]", "%a, %b", "%z[i]", ""),
    "a larger node": ("%w[i]", "%x[i]", "%a, %b", "%z[i]", ""),
    "a schedule": ("%y[i]", "%x[i]", "%a, %b", "%z[i]", "schedule <lanes = i : 8> "),
}


def nest(first: str, second: str, operands: str, stored: str, schedule: str) -> str:
    return f"""
  loops.nest "other" (i = 16) {schedule}{{
    %a = loops.load {first}
    %b = loops.load {second}
    %c = arith.subf {operands} : f32
    loops.store %c, {stored}
  }}"""


def test_names_do_not_matter_and_everything_else_does():
    text = PROGRAM.replace("OTHERS", "".join(nest(*parts) for parts in OTHERS.values()))
    (func,) = functions(parse_text(text))
    first, renamed, *rest = map(StructuralNumbering().number, nests(func))
    assert first == renamed
    for one, other in combinations([first, *rest], 2):
        assert one != other


def test_the_place_in_a_group_matters():
    groups = "".join(
        f"""
  loops.group "{size}" (b = {size}) {{
    loops.nest "y" (i = 2) {{
      %0 = loops.load %x[i]
      loops.store %0, %y[{size}*i + b]
    }}
  }}"""
        for size in (2, 3)
    )
    (func,) = functions(
        parse_text(
            f"""
loops.func @f {{
  %x = assign.node "x" constant because "data" : memref<2xf32>
  %y = assign.node "y" on_device because "node" : memref<6xf32>
  {groups.replace("3*i + b", "2*i + b")}
}}"""
        )
    )
    in_two, in_three = map(StructuralNumbering().number, nests(func))
    assert in_two != in_three
