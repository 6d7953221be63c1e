"""Looks for texts that the spec parser does not handle.

Atheris (the extra `fuzz`) chooses the texts by the code that they reach; its options are libFuzzer's, as in
`python tests/support/fuzz_spec_parser.py -runs=100000`.
"""

import importlib
import sys
from typing import Any

atheris: Any = importlib.import_module("atheris")  # it has no types
with atheris.instrument_imports():
    from ocannl.dialects.shapes.spec_parser import SpecSyntaxError, parse_spec

# One byte a character: those of the notation, and some that mean nothing in it.
CHARACTERS = "abio019_.,;|->=+<*^& %é\n"


def check(data: bytes) -> None:
    """A text is a spec that prints and parses to itself, or has an error at a place in it."""
    text = "".join(CHARACTERS[byte % len(CHARACTERS)] for byte in data)
    try:
        spec = parse_spec(text)
    except SpecSyntaxError as error:
        offset = error.offset
    else:
        offset = 0
        assert parse_spec(str(spec)) == spec
    assert 0 <= offset <= len(text)


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
