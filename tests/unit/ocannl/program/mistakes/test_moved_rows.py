"""A warning where `...` is meant to move to another row."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ocannl as oc

WARNED = [
    ("... a | b => b | ... a", "batch", "output"),
    ("... | a -> => ... -> a", "batch", "input"),
    ("... | a; a => ...", "batch", "output"),
]
# The result names the row that moves, lacks it on purpose, or may be broadcast.
QUIET = [
    "..r.. a | b => b | ..r.. a",
    "... | b => b |",
    "... | ... => 0",
    "a | b => a | b ...",
    "... | a => ..batch..&a | 0",
]


@pytest.mark.parametrize(("spec", "reduced", "new"), WARNED)
def test_a_row_that_is_another_one(spec: str, reduced: str, new: str):
    x, w = oc.data(np.ones((2, 3, 4), np.float32), axes="bbo"), oc.data(np.ones(4, np.float32))
    if "->" in spec:
        x = oc.data(np.ones((2, 4), np.float32), axes="bi")
    with pytest.warns(UserWarning, match=rf"reduces the `...` of the {reduced} row; .*of the {new} row"):
        oc.einsum(spec, *[x, w][: spec.count(";") + 1])


@pytest.mark.parametrize("spec", QUIET)
def test_others(spec: str):
    x = oc.data(np.ones((2, 4), np.float32), axes="bo" if "|" in spec.split("=>")[0] else "oo")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oc.einsum(spec, x)
