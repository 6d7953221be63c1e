"""Softmax and its logarithm, over any axes."""

from __future__ import annotations

import re

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.nn.options import check_outputs, check_positive
from ocannl.program.tensor_functions.remembered import remembered
from ocannl.program.types.casts import floats

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
    _check_axes(x, over, "softmax")
    scaled = x / temperature
    exps = oc.exp(scaled - oc.stop_gradient(oc.einmax(over, scaled)))
    return (exps / oc.einsum(over, exps)).named(label)


@oc.configurable
def log_softmax(*, spec: str = LAST_OUTPUT_AXIS, label: str = "log_softmax") -> Layer:
    """The logarithm of `softmax(spec=spec)`, finite also where softmax underflows; shapes are kept."""
    over = _reduction(spec)

    return lambda x: _log_softmax(x, over, label)


@remembered
def _log_softmax(x: oc.Tensor, over: str, label: str) -> oc.Tensor:
    _check_axes(x, over, "log_softmax")
    x = floats(x)
    shifted = x - oc.stop_gradient(oc.einmax(over, x))
    return (shifted - oc.log(oc.einsum(over, oc.exp(shifted)))).named(label)


def _check_axes(x: oc.Tensor, over: str, of: str) -> None:
    # What is computed from `x` would get the axis of the spec by being used with it.
    if over == _reduction(LAST_OUTPUT_AXIS):
        check_outputs(x, of)


def _reduction(spec: str) -> str:
    """`spec` to the same with axis 0 of size 1 in place of each named axis, and without named rows."""
    axis = r"[^\W\d_]\w*" if "," in spec else r"[^\W\d_]"
    pattern = rf"(?P<kept>\.\.\.)|(?P<row>\.\.\w+\.\.,?)|{axis}"
    result = re.sub(pattern, lambda m: m["kept"] or ("" if m["row"] else "0"), spec)
    return f"{spec} => {result}"
