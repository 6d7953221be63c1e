"""Text that Python cannot read is an error at its place."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.utils.exceptions import ParseError

from ocannl.dialects.ir.locating_parser import LocatingParser


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (f"dense<1> : tensor<{10**30}xi32>", "a number is too large"),
        (f"dense<1> : tensor<{10**15}xi32>", "there is not enough memory"),
        ("9" * 5000, "5000 digits"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read(attribute: str, message: str):
    context = Context()
    context.load_dialect(Builtin)
    text = f"builtin.module attributes {{a = {attribute}}} {{}}"
    with pytest.raises(ParseError, match=message):
        LocatingParser(context, text, "text.mlir").parse_module()
