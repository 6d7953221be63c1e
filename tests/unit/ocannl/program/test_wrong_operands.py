"""Operands, indices and arguments that make no sense: the message is about what the user wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.messages import PLAIN, data, message_of

import ocannl as oc
from ocannl import train

ARRAY: Any = np.ones(3)
NAMES = {"data": data, "np": np, "oc": oc, "train": train}
"""Those of programs that are text."""


def untyped(tensor: oc.Tensor) -> Any:
    return tensor


class TestMisuse:
    """Plain misuse: whatever the class, the message is about what the user wrote."""

    @pytest.mark.parametrize(
        "program",
        [
            lambda x: x + np.ones(3),
            lambda x: np.ones(3) + x,
            lambda x: np.ones((3, 3)) @ x,
            lambda x: oc.maximum(x, ARRAY),
            lambda x: oc.einsum("b | o; o => b", x, ARRAY),
        ],
    )
    def test_an_array_in_an_expression(self, program: Callable[[Any], object]):
        message_of(TypeError, lambda: program(data(4, 3)), "oc.data")

    @pytest.mark.parametrize(
        "program",
        [
            lambda x: bool(x),
            lambda x: 1 if x < 1 else 2,
            lambda x: x < 1 and x < 2,
            lambda x: 0 < x < 1,
            lambda x: not x,
            lambda x: max(x, x + 1),
        ],
    )
    def test_a_truth_value(self, program: Callable[[oc.Tensor], object]):
        message_of(TypeError, lambda: program(data(4, 3)), "truth value", "oc.where")

    def test_an_iteration(self):
        message_of(TypeError, lambda: list(untyped(data(4, 3))), "iterate")

    @pytest.mark.parametrize("other", [None, "a", [1, 2], {}, object()])
    def test_another_operand(self, other: Any):
        x = data(4, 3)
        message_of(TypeError, lambda: x + other)
        message_of(TypeError, lambda: other * x)
        message_of(TypeError, lambda: x @ other)
        message_of(TypeError, lambda: oc.relu(other))

    @pytest.mark.parametrize("index", ["a", 1.5, slice(0.5, 2), (0, True), slice(0, 2, 0)])
    def test_another_index(self, index: Any):
        message_of(TypeError, lambda: data(4, 3)[index])

    @pytest.mark.parametrize("index", [4, -5, (0, 3), (0, 0, 0), (..., -4), [0, 4], [[-5]]])
    def test_a_position_that_there_is_not(self, index: Any):
        message_of((IndexError, oc.OcannlError), lambda: data(4, 3)[index], "x")

    def test_an_axis_of_an_open_row(self):
        w = oc.param("w", output=3)
        message_of(oc.ShapeError, lambda: w[..., 0], "the axes of `w` are not known yet", "->3")
        message_of(IndexError, lambda: w[0][1], "has no axes, so there is no axis 0")

    @pytest.mark.parametrize(
        "program",
        [
            lambda: oc.relu(),
            lambda: oc.relu(data(3), data(3)),
            lambda: oc.where(data(3), data(3)),
            lambda: oc.maximum(data(3)),
        ],
    )
    def test_number_of_operands(self, program: Callable[[], object]):
        message_of(TypeError, program)

    @pytest.mark.parametrize(
        "program",
        [
            "oc.data([[1, 2], [3]])",
            'oc.data(["a"])',
            "oc.data(None)",
            "oc.data(np.ones(3, complex))",
            'oc.data(np.ones((2, 3)), axes="ob")',
            'oc.data(np.ones((2, 3)), axes="bx")',
            'oc.data(np.ones((2, 3)), axes="bbb")',
            "oc.data(np.ones((2, 3)), axes=5)",
            "oc.param(3)",
            'oc.param("p", output=-3)',
            'oc.param("p", output=2.5)',
            'oc.param("p", output="16")',
            'oc.param("p", "zeros")',
            'oc.param("")',
            'oc.index("a", 0)',
            'oc.index("a", -2)',
            'oc.index("a b")',
            'oc.index("a", 2.5)',
            'oc.index("a", "3")',
            "oc.index(3)",
            "oc.range(-1)",
            'oc.range("3")',
            "oc.einsum(3, data(3))",
            'oc.einsum(data(3), "i => i")',
            'oc.accumulate(oc.node("n", output=3), "maxx", data(3))',
            'oc.accumulate(data(3) + 1, "max", data(3))',
            'oc.accumulate(oc.node("n", output=3), "add", data(3), logic="@")',
            "oc.set(data(3) + 1, 3)",
            "oc.set(3, 3)",
            'oc.forward("x")',
            "data(3).forward + 3",
            "data(3).__setitem__(..., 3)",
            "oc.run(oc.forward(data(3)))",
            "oc.Context.cpu(threads=0)",
            'oc.Context.cpu(threads="two")',
            'oc.Context("gpu")',
            'oc.Context.cpu().compile("x")',
            "oc.Context.cpu().compile(None)",
            'oc.Context.cpu()["x"]',
            "oc.Context.cpu()[np.ones(3)]",
            'oc.Context.cpu().init_params("x")',
            'oc.params("x")',
            "oc.Context.cpu().compile(data(3) + 1)(1)",
            "oc.Context.cpu().compile(data(3) + 1).run_loop(epochs=-1)",
            "oc.Context.cpu().compile(data(3) + 1).run_loop(epochs=1.5)",
            'oc.Context.cpu().compile(data(3) + 1).run_loop(record=["x"])',
            'oc.Context.cpu().compile(data(3) + oc.index("s")).run_loop(advance=["s"])',
            'oc.Context.cpu().compile(data(3) + oc.index("s"))(s=1.5)',
            'oc.Context.cpu().compile(data(3) + oc.index("s"))(s="a")',
            'oc.Context.cpu().compile(data(3) + oc.index("s"))["s"]',
            'int(oc.Dim("d"))',
            "train.sgd_update(3, learning_rate=1)",
        ],
    )
    def test_wrong_arguments(self, program: str):
        message = message_of(PLAIN, lambda: eval(program, NAMES))
        for internal in (
            "object has no attribute",
            "is not iterable",
            "not supported between",
            "sequence item",
        ):
            assert internal not in message, message

    @pytest.mark.parametrize("stage", ["lops", "", 3, "infer_shapes", None])
    def test_an_unknown_stage(self, stage: str):
        y = data(3) + 1
        message_of(oc.OcannlError, lambda: y.ir(stage), "stage", "infer-shapes", "loops")
        routine = oc.Context.cpu().compile(y)
        message_of(oc.OcannlError, lambda: routine.ir(stage), "stage", "infer-shapes", "loops")

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("no_such_operator", ""),
            ("blok", "; did you mean 'block'?"),
            ("realu", "; did you mean 'relu'?"),
            ("cat", "; in its place: oc.concat"),
        ],
    )
    def test_names_that_are_not_there(self, name: str, hint: str):
        with pytest.raises(AttributeError) as caught:
            getattr(oc, name)
        assert str(caught.value).endswith(f": module 'ocannl' has no attribute '{name}'{hint}")
        assert not hasattr(oc, name)


def test_an_index_with_a_range_is_not_advanced():
    i = oc.index("i", 4)
    routine = oc.Context.cpu().compile(oc.forward(oc.data(np.ones((4, 3)))[i]))
    with pytest.raises(oc.OcannlError, match="index i has a range"):
        routine.run_loop(advance=[i])
