"""Names by a table: `rename` of `ctx.load` and `map` of `from_torch` are one idea."""

from __future__ import annotations

import pytest

import ocannl as oc
from ocannl.program.arguments.renaming import Renaming

TABLE = {"body": "layers", "body.0.gain": "scale", "*.weight": "*.w", "gone": "", "old*": "new*"}


@pytest.mark.parametrize(
    ("name", "new"),
    {
        "body": "layers",
        "body.1.bias": "layers.1.bias",
        "body.0.gain": "scale",
        "body.0.gain.mean": "scale.mean",
        "embody.bias": "embody.bias",
        "head.weight": "head.w",
        "gone.x.y": "x.y",
        "older": "newer",
        "weight": "weight",
    }.items(),
)
def test_names(name: str, new: str):
    assert Renaming(TABLE)(name) == new


def test_the_longest_that_fits_decides_in_any_order():
    for table in (TABLE, dict(reversed(TABLE.items()))):
        assert Renaming(table)("body.weight") == "body.w"


def test_what_fits_nothing_is_told():
    assert Renaming(TABLE).unused(["body.x", "gone"]) == ["body.0.gain", "*.weight", "old*"]
    for table in ({"a*": "b"}, {"a": "b*"}, {"*a*": "*b*"}):
        with pytest.raises(oc.ArgumentError, match=r"by one `\*` in each, found"):
            Renaming(table)
