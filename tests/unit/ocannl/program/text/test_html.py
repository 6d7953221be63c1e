"""Notebooks show values and programs, which computes and decides nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

import ocannl as oc
from ocannl import nn


def shown(value: Any) -> str:
    return value._repr_html_()


def test_of_blocks_and_summaries():
    block, x = nn.linear(out_dim=2, label="<head>"), oc.data(np.ones((3, 4)))
    assert shown(block).startswith("<pre>linear(out_dim=2, label=&#x27;&lt;head&gt;&#x27;)\n  w: ")
    table = shown(block.summary(x))
    assert table.startswith("<table><tr><th>part</th><th>block</th>")
    assert "<td>3|2</td><td>10</td><td>24</td><td>" in table


def test_of_tensors_computes_nothing():
    w = oc.param("w", output=3)
    assert shown(w) == f"<pre>{repr(w).replace('<', '&lt;').replace('>', '&gt;')}</pre>"
    assert w.shape.output == (3,)


def test_of_routines_and_contexts():
    x = oc.data(np.ones((3, 4)), label="x")
    ctx = oc.Context.cpu(threads=1)
    before = shown(ctx)
    routine = ctx.compile(oc.forward(oc.exp(x)), name="exp")
    assert shown(routine).startswith("<pre>&lt;routine &#x27;exp&#x27;")
    assert "kernel" in shown(routine)
    assert before.count("<tr>") == 1
    assert "<tr><td>x</td><td>3|4</td><td>float64</td><td>96</td><td>yes</td></tr>" in shown(ctx)
