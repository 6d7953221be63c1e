"""Counts of the work of nests."""

from __future__ import annotations

import pytest
from support.dot_products import product
from support.nests import parse_module, the_func

from ocannl.passes.analysis.costs.work import flops
from ocannl.passes.analysis.nests import steps


@pytest.mark.parametrize("types", [("bf16", "bf16"), ("i8", "ui8")])
def test_widening_is_no_arithmetic(types: tuple[str, str]):
    module = parse_module(product({"b": 3, "o": 5, "k": 7}, types=types))
    (nest,) = steps(the_func(module))
    assert flops(nest) == 3 * 5 * (2 * 7 + 1)
