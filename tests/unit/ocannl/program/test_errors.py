"""Messages for users: the class of the error, their line, and the values that clash."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ocannl
import ocannl as oc
from ocannl import dialects, lowering, passes, runtime, train

HERE = Path(__file__).name
MOST_LINES = 25


def message_of(
    error: type[Exception] | tuple[type[Exception], ...], program: Callable[[], object], *parts: str
) -> str:
    """The message of the error that a program raises: short, with these parts, not from inside."""
    with pytest.raises(error) as caught:
        program()
    message = str(caught.value)
    assert len(message.splitlines()) <= MOST_LINES, message
    assert "Traceback" not in message
    assert "assert" not in message.lower()
    for part in parts:
        assert part in message, f"{part!r} is not in:\n{message}"
    return message


def names_line(message: str, program: Callable[..., object], marker: str = "# here"):
    """The message names this file, and the line of the program that is marked."""
    lines, start = inspect.getsourcelines(program)
    wanted = [start + k for k, line in enumerate(lines) if marker in line]
    assert len(wanted) == 1
    assert f"{HERE}:{wanted[0]}" in message, message


def untyped(tensor: oc.Tensor) -> Any:
    return tensor


def data(*shape: int, label: str = "x", axes: str | None = None) -> oc.Tensor:
    return oc.data(np.ones(shape), label=label, axes=axes)


class TestShapeClashes:
    def check(self, program: Callable[[], object], *parts: str):
        message = message_of(oc.ShapeError, program, *parts)
        names_line(message, program)

    def test_pointwise(self):
        def program():
            x, y = data(4, 3), data(4, 5, label="y")
            return x + y  # here

        self.check(program, "x", "y", "4|3", "4|5", "+")

    def test_ternary(self):
        def program():
            x, y = data(4, 3), data(4, 5, label="y")
            return oc.fma(x, x, y)  # here

        self.check(program, "x", "y", "4|3", "4|5", "fma")

    def test_compose(self):
        def program():
            w = oc.param("w", input=7, output=2)
            x = data(4, 3)
            return w @ x  # here

        self.check(program, "w", "x", "7->2", "4|3", "@")

    def test_transpose(self):
        def program():
            w = oc.param("w", input=7, output=2)
            return w.T @ data(4, 3)  # here

        self.check(program, "w.T", "x", "4|3", "@")

    def test_einsum(self):
        def program():
            a, b = data(2, 3, axes="oo", label="a"), data(4, 5, axes="oo", label="b")
            return oc.einsum("i j; j k => i k", a, b)  # here

        self.check(program, "a", "b", "2,3", "4,5", "i j; j k => i k")

    @pytest.mark.parametrize("function", ["einmax", "tropical", "outer_sum"])
    def test_other_accumulations(self, function: str):
        def program():
            a, b = data(2, 3, axes="oo", label="a"), data(4, 5, axes="oo", label="b")
            return getattr(oc, function)("i j; j k => i k", a, b)  # here

        self.check(program, "a", "b", "2,3", "4,5")

    def test_number_of_axes_in_a_spec(self):
        def program():
            x = data(4, 3)
            return x.einsum("b | o p => b")  # here

        self.check(program, "x", "4|3")

    def test_a_row_that_a_spec_lacks(self):
        def program():
            x = data(4, 3)
            return x.einsum("o => o")  # here

        self.check(program, "x", "4|3", "batch")

    def test_a_fixed_size(self):
        def program():
            x = data(4, 3)
            return oc.einsum("b | o => b", x, o=5)  # here

        self.check(program, "x", "4|3", "5")

    def test_a_fixed_position(self):
        def program():
            x = data(4, 3)
            return oc.einsum("b | 3 => b", x)  # here

        self.check(program, "x", "4|3", "3")

    def test_an_index_without_a_batch_axis(self):
        def program():
            x = data(3)
            return x[oc.index("i")]  # here

        self.check(program, "x", "batch")

    def test_the_range_of_an_index(self):
        def program():
            x = data(4, 3)
            return x[oc.index("i", 5)]  # here

        self.check(program, "x", "4|3", "5")

    def test_an_assignment(self):
        def program():
            n = oc.node("n", output=5)
            return oc.set(n, data(3))  # here

        self.check(program, "n", "x", "5", "3")

    def test_an_assignment_in_a_block(self):
        def program():
            n = oc.node("n", output=5)
            with oc.code("assign"):
                n[...] = data(3) * 2  # here

        self.check(program, "n", "5", "3")

    def test_an_update_that_would_have_to_grow(self):
        def program():
            n = oc.node("n", output=3)
            with oc.code("update"):
                n += data(4, 3)  # here

        self.check(program, "n", "n + x")

    def test_what_forced_a_side(self):
        """The message names the earlier line that gave the parameter its size."""

        def program():
            w = oc.param("w", output=2)
            _ = w @ data(4, 3)  # first
            return w @ data(4, 5, label="y")  # here

        message = message_of(oc.ShapeError, program, "w", "y", "3", "5")
        names_line(message, program)
        names_line(message, program, "# first")

    def test_in_a_function_of_the_user(self):
        """The line is the innermost one of the user."""

        def layer(w: oc.Tensor, x: oc.Tensor) -> oc.Tensor:
            return oc.relu(w @ x)  # here

        message = message_of(oc.ShapeError, lambda: layer(oc.param("w", input=7), data(4, 3)), "7")
        names_line(message, layer)

    def test_basis(self):
        def program():
            rgb, hsv = oc.Dim("c", 3, basis="rgb"), oc.Dim("c", 3, basis="hsv")
            a, b = oc.param("a", output=rgb, input=[]), oc.param("b", output=hsv, input=[])
            return a + b  # here

        self.check(program, "rgb", "hsv", "a", "b")

    def test_sizes_of_data(self):
        def program():
            return oc.data(np.ones((4, 3)), axes="b")

        message_of(oc.ShapeError, program, "b", "(4, 3)")


class TestSpecs:
    def check(self, spec: str, at: str | None = None, count: int = 1):
        """`at` has a caret under the offending character."""

        def program():
            return oc.einsum(spec, *[data(4, 3)] * count)  # here

        message = message_of(oc.SpecError, program)
        names_line(message, program)
        assert issubclass(oc.SpecError, ValueError)
        assert spec in message
        if at is not None:
            lines = message.splitlines()
            (number,) = [k for k, line in enumerate(lines) if line.strip() == "^"]
            shown = lines[number - 1]
            assert spec in shown
            assert lines[number].index("^") - shown.index(spec) == at.index("^")

    def test_a_lone_equals_sign(self):
        self.check("b | o = b", at="      ^")

    def test_a_character_that_means_nothing(self):
        self.check("b | o => b % o", at="           ^")

    def test_no_result(self):
        self.check("b | o")

    def test_two_results(self):
        self.check("b | o => b => o")

    def test_an_open_row_variable(self):
        self.check("b | ..r => b")

    def test_two_row_variables_in_a_row(self):
        self.check("..a.. ..b.. | o => o")

    def test_two_bars(self):
        self.check("a | b | o => a")

    def test_two_arrows(self):
        self.check("a -> b -> o => a")

    def test_more_slots_than_operands(self):
        self.check("b | o; b | o => b")

    def test_more_operands_than_slots(self):
        self.check("b | o => b", count=2)

    def test_empty(self):
        self.check("")

    @pytest.mark.parametrize(
        ("spec", "told"),
        [
            ("b | s*o, => b | o,", "the coefficient `s` of `s*o`"),
            ("b | a^c => b | a, c", "no part of the concatenations"),
            ("b | o => ..r..&o", "nowhere a row of its own"),
        ],
    )
    def test_what_a_spec_leaves_unsaid(self, spec: str, told: str):
        def program():
            return oc.einsum(spec, data(4, 3))

        assert told in message_of(oc.SpecError, program)

    @pytest.mark.parametrize(
        ("spec", "told"),
        [
            ("b | 2*o => b | o", "does not divide by 2"),
            ("b | 2*o+k => b | o", "leaves 3, which does not divide by 2"),
            ("b | o+5*k => b | o", "too short"),
            ("b | o&k => b | o,k", "a size of 5 does not divide by 2"),
            ("b | o^7 => b | o", "too short"),
        ],
    )
    def test_sizes_that_do_not_fit(self, spec: str, told: str):
        def program():
            return oc.einsum(spec, data(4, 5), k=2) if "k" in spec else oc.einsum(spec, data(4, 5))

        assert told in message_of(oc.ShapeError, program)

    def test_an_unknown_name_is_fixed(self):
        def program():
            return oc.einsum("b | o => b", data(4, 3), heads=2)  # here

        names_line(message_of(oc.SpecError, program, "heads", "b | o => b"), program)

    @pytest.mark.parametrize("count", [0, 4])
    def test_number_of_operands(self, count: int):
        message_of(oc.SpecError, lambda: oc.einsum("b | o => b", *[data(4, 3)] * count))

    def test_in_an_accumulation(self):
        def program():
            n = oc.node("n", output=1)
            return oc.accumulate(n, "max", data(4, 3), spec="...|... = 0")  # here

        names_line(message_of(oc.SpecError, program, "...|... = 0"), program)


class TestHiddenDimensions:
    @pytest.mark.parametrize("how", ["compile", "infer", "ir", "init_params"])
    def test_a_missing_one(self, how: str):
        def model() -> oc.Tensor:
            w1 = oc.param("w1")  # here
            return oc.param("w2", output=2) @ oc.relu(w1 @ data(4, 3))

        ctx = oc.Context.cpu()
        ask: Callable[[oc.Tensor], object] = {
            "compile": lambda y: ctx.compile(oc.forward(y)),
            "infer": oc.infer,
            "ir": lambda y: y.ir("loops"),
            "init_params": ctx.init_params,
        }[how]
        message = message_of(oc.ShapeError, lambda: ask(model()), "hidden dimension", "w")
        assert "w1" in message or "w2" in message
        if "`w1`" in message:
            names_line(message, model)

    def test_in_a_block(self):
        @oc.block
        def mlp(p: Any, x: Any) -> Any:
            return p.w2 @ oc.relu(p.b1 + p.w1 @ x)

        y = mlp(label="model")(data(4, 3))
        message_of(oc.ShapeError, lambda: oc.infer(y), "hidden dimension", "model.", HERE)

    def test_after_the_error_the_program_can_be_completed(self):
        w1, w2 = oc.param("w1"), oc.param("w2", output=2)
        hidden = oc.relu(w1 @ data(4, 3))
        y = w2 @ hidden
        ctx = oc.Context.cpu()
        message_of(oc.ShapeError, lambda: ctx.compile(oc.forward(y)))
        z = w2 @ (hidden + oc.param("b", 0.0, output=5))
        train.forward_once(ctx, z)
        assert ctx[z].shape == (4, 2)
        assert ctx[w1].shape == (5, 3)


class TestUninitialized:
    def test_a_parameter(self):
        def program():
            w = oc.param("w", output=2)  # here
            routine = oc.Context.cpu().compile(oc.forward(w @ data(4, 3)), name="my_routine")
            routine()

        message = message_of(oc.UninitializedError, program, "w", "my_routine", "init_params")
        names_line(message, program)

    def test_a_node(self):
        def program():
            n = oc.node("scratch", output=2)  # here
            oc.Context.cpu().compile(oc.forward(2 * n), name="my_routine")()

        names_line(message_of(oc.UninitializedError, program, "scratch", "my_routine"), program)

    def test_a_value(self):
        def program():
            y = data(4, 3) * 2  # here
            oc.Context.cpu().compile(oc.forward(y.value + 1), name="my_routine")()

        names_line(message_of(oc.UninitializedError, program, "value", "my_routine"), program)

    def test_a_gradient(self):
        def program():
            w = oc.param("w", 1.0, output=2, input=[])
            loss = w.einsum("... => 0")
            ctx = oc.Context.cpu()
            ctx.init_params(loss)
            ctx.compile(train.sgd_update(loss, learning_rate=0.1), name="my_routine")()

        message_of(oc.UninitializedError, program, "w", "gradient", "my_routine")

    def test_asking_a_context(self):
        w = oc.param("w", output=2, input=3)
        message_of(oc.UninitializedError, lambda: oc.Context.cpu()[w], "w")
        message_of(oc.UninitializedError, lambda: oc.Context.cpu()[w.grad], "w")
        message_of(oc.UninitializedError, lambda: oc.Context.cpu()[w + 1], "w")

    def test_an_expression_of_indices(self):
        y = data(4, 3)[oc.index("i", 4)] * 2
        message_of(oc.UninitializedError, lambda: oc.Context.cpu()[y], "ind")


ARRAY: Any = np.ones(3)
PLAIN = (oc.OcannlError, TypeError, ValueError, IndexError)


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
        message_of(oc.ShapeError, lambda: w[0][1], "of `w[")

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
        message = message_of(PLAIN, lambda: eval(program))
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
        assert str(caught.value) == f"module 'ocannl' has no attribute '{name}'{hint}"
        assert not hasattr(oc, name)


class TestAfterAnError:
    def test_shapes_are_as_before(self):
        w, x = oc.param("w"), data(4, 3)
        hidden = w @ x
        before = str(w.shape), str(hidden.shape)
        for program in (
            lambda: hidden + data(5, 2, label="y"),
            lambda: oc.einsum("b | o p => b", x),
            lambda: oc.einsum("b | o = b", hidden),
            lambda: oc.fma(hidden, data(4, 6), data(4, 7)),
            lambda: x[7],
            lambda: hidden + ARRAY,
        ):
            message_of(PLAIN, program)
        assert (str(w.shape), str(hidden.shape)) == before

    @pytest.mark.parametrize("size", [6, 7])
    def test_the_same_tensors_go_on(self, size: int):
        """A clash between a size and what is half known leaves no trace."""
        w = oc.param("w")
        hidden = w @ data(4, 3)
        message_of(oc.ShapeError, lambda: oc.fma(hidden, data(4, 6), data(4, 7)))
        y = hidden + data(4, size)
        ctx = oc.Context.cpu()
        train.forward_once(ctx, y)
        assert ctx[y].shape == (4, size)
        assert ctx[w].shape == (size, 3)

    def test_text_and_results_are_those_without_the_error(self):
        def result(fail: bool) -> tuple[str, np.ndarray]:
            w = oc.param("w", output=2)
            hidden = oc.tanh(w @ data(4, 3))
            if fail:
                message_of(oc.ShapeError, lambda: hidden + data(4, 5))
                message_of(oc.SpecError, lambda: hidden.einsum("b | o -> b"))
            loss = hidden.einsum("...|... => 0")
            if fail:
                message_of(oc.ShapeError, lambda: loss @ data(4, 5, axes="oi"))
            ctx = oc.Context.cpu()
            routine = ctx.compile(train.grad_update(loss), name="step")
            ctx.init_params(loss)
            routine()
            return routine.ir("texpr"), np.asarray(ctx[w.grad])

        (text, gradient), (other, again) = result(False), result(True)
        assert text == other
        np.testing.assert_array_equal(gradient, again)

    def test_an_error_in_a_code_block_closes_it(self):
        n = oc.node("n", output=3, init=0.0)

        def block():
            with oc.code("failing"):
                n[...] = data(5)

        message_of(oc.ShapeError, block)
        message_of(oc.OcannlError, lambda: n.__setitem__(..., 3))
        ctx = oc.Context.cpu()
        ctx.compile(oc.set(n, 3))()
        np.testing.assert_array_equal(ctx[n], [3, 3, 3])

    def test_an_error_when_compiling_leaves_the_context_usable(self):
        x = data(4, 3)
        ctx = oc.Context.cpu()
        w1, w2 = oc.param("w1"), oc.param("w2")
        message_of(oc.ShapeError, lambda: ctx.compile(oc.forward(w2 @ (w1 @ x))))
        y = x + 1
        ctx.compile(oc.forward(y))()
        np.testing.assert_array_equal(ctx[y], np.full((4, 3), 2.0))

    def test_an_error_of_an_index_leaves_the_routine_usable(self):
        i = oc.index("i", 4)
        x = oc.data(np.arange(4.0).reshape(4, 1))
        y = x[i] * 2
        ctx = oc.Context.cpu()
        routine = ctx.compile(oc.forward(y))
        message_of(oc.OcannlError, lambda: routine(i=9), "i=9", "0..3")
        routine(i=3)
        assert float(ctx[y]) == 6


def clash_in(filename: str) -> Callable[[oc.Tensor, oc.Tensor], oc.Tensor]:
    """A sum in line 2 of a file of this name."""
    names: dict[str, Any] = {}
    exec(compile("def clash(x, y):\n    return x + y\n", filename, "exec"), names)
    return names["clash"]


@pytest.mark.parametrize("package", [ocannl, dialects, lowering, passes, runtime])
class TestTheUsersFrame:
    def test_a_script_beside_a_folder_of_the_package_is_the_users(self, package: ModuleType):
        clash = clash_in(f"{package.__path__[0]}_try.py")
        message_of(oc.ShapeError, lambda: clash(data(3), data(5)), "_try.py:2")

    def test_a_file_in_a_folder_of_the_package_is_not(self, package: ModuleType):
        clash = clash_in(str(Path(package.__path__[0], "part", "module.py")))
        message_of(oc.ShapeError, lambda: clash(data(3), data(5)), "test_errors.py")


def test_an_index_with_a_range_is_not_advanced():
    i = oc.index("i", 4)
    routine = oc.Context.cpu().compile(oc.forward(oc.data(np.ones((4, 3)))[i]))
    with pytest.raises(oc.OcannlError, match="index i has a range"):
        routine.run_loop(advance=[i])
