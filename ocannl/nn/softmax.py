"""Softmax and its logarithm, over any axes."""

from __future__ import annotations

import re

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.nn.options import check_positive
from ocannl.program.tensor_functions.remembered import remembered

LAST_OUTPUT_AXIS = "... | ... -> ... d"


@oc.configurable
def softmax(*, spec: str = LAST_OUTPUT_AXIS, temperature: float = 1.0, label: str = "softmax") -> Layer:
    """`exp(x / temperature)`, scaled to sum to 1 over the axes and rows that `spec` names (not those of its
    `...`); shapes are kept.
    """
    over = _reduction(spec)
    check_positive(temperature, "a temperature")

    return lambda x: _softmax(x, over, temperature, label)


@remembered
def _softmax(x: oc.Tensor, over: str, temperature: float, label: str) -> oc.Tensor:
    # Of `x` itself, which has to have the axes of the spec; an expression may get them from it.
    exps = oc.exp((x - oc.stop_gradient(oc.einmax(over, x))) / temperature)
    return (exps / oc.einsum(over, exps)).named(label)


@oc.configurable
def log_softmax(*, spec: str = LAST_OUTPUT_AXIS, label: str = "log_softmax") -> Layer:
    """The logarithm of `softmax(spec=spec)`, finite also where softmax underflows; shapes are kept."""
    over = _reduction(spec)

    return lambda x: _log_softmax(x, over, label)


@remembered
def _log_softmax(x: oc.Tensor, over: str, label: str) -> oc.Tensor:
    shifted = x - oc.stop_gradient(oc.einmax(over, x))
    return (shifted - oc.log(oc.einsum(over, oc.exp(shifted)))).named(label)


def _reduction(spec: str) -> str:
    """`spec` to the same with axis 0 of size 1 in place of each named axis, and without named rows."""
    axis = r"[^\W\d_]\w*" if "," in spec else r"[^\W\d_]"
    pattern = rf"(?P<kept>\.\.\.)|(?P<row>\.\.\w+\.\.,?)|{axis}"
    result = re.sub(pattern, lambda m: m["kept"] or ("" if m["row"] else "0"), spec)
    return f"{spec} => {result}"
