"""Factors of products of matrices that are widened numbers: tensor cores multiply what is stored."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue

from ocannl.dialects.index.memref import element_type
from ocannl.dialects.loops import LoadOp, NestOp
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.passes.analysis.patterns.contractions import find_contraction, is_sum_of_products
from ocannl.passes.loops.inline_nodes.worth import Producer


def widened_factors(nest: NestOp, definitions: Mapping[SSAValue, Producer], least: int) -> set[SSAValue]:
    """The nodes that a sum of products reads and that are only widened, if both factors have numbers of one
    type of `least` bits or more, unless that is 0.
    """
    found = find_contraction(nest) if least else None
    if found is None or not is_sum_of_products(found):
        return set()
    nodes = [load.node for load in (found.left, found.right)]
    narrow = {node: type for node in nodes if (type := narrow_type(definitions.get(node))) is not None}
    types = {narrow.get(node, element_type(node)) for node in nodes}
    format = small_format(next(iter(types)))
    return set(narrow) if len(types) == 1 and format is not None and format.bits >= least else set()


def narrow_type(definition: Producer | None) -> Attribute | None:
    """The type of the numbers that a producer only widens; None for any other one."""
    match definition:
        case Producer(ops=[LoadOp() as load, arith.ExtFOp()]):
            return element_type(load.node)
        case _:
            return None
