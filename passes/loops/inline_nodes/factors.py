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
    """The nodes that a sum of products reads, if both factors are widened from one type of `least` bits or
    more, unless that is 0.
    """
    found = find_contraction(nest) if least else None
    if found is None or not is_sum_of_products(found):
        return set()
    nodes = [load.node for load in (found.left, found.right)]
    types = {stored_type(node, definitions.get(node)) for node in nodes}
    format = small_format(next(iter(types)))
    return set(nodes) if len(types) == 1 and format is not None and format.bits >= least else set()


def stored_type(node: SSAValue, definition: Producer | None) -> Attribute:
    """The type of a node's numbers, before they are widened if that is all that its producer does."""
    match definition:
        case Producer(ops=[LoadOp() as load, arith.ExtFOp()]):
            return element_type(load.node)
        case _:
            return element_type(node)
