"""Shapes that clash, and hidden dimensions that nothing determines: the message has the line and sizes."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.messages import data, message_of, names_line

import ocannl as oc
from ocannl import nn, train

HERE = Path(__file__).name


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

    def test_images_of_pytorch(self):
        """The hint for channels that stand first is what makes the block run."""
        images = data(2, 1, 28, 20, axes="bbbo", label="images")
        conv = nn.conv2d(out_channels=4, kernel_size=5, use_padding=False)
        hint = 'oc.einsum("..., c, h | w => ..., h, w | c", images)'
        message_of(oc.ShapeError, lambda: conv(images), f"unlike in PyTorch: {hint}")
        turned = oc.einsum("..., c, h | w => ..., h, w | c", images)
        oc.infer(conv(turned))
        assert turned.numpy().shape == (2, 28, 20, 1)
        small = data(2, 4, 4, 3, axes="bbbo")
        assert "channels" not in message_of(oc.ShapeError, lambda: conv(small))

    def test_both_sizes_are_told_with_their_tensors(self):
        """An axis of a spec is marked in each operand; what is unknown is left out."""
        images, kernel = data(2, 8, 3, axes="bbo", label="images"), oc.param("kernel", input=[3, 1], output=4)
        spec = "b, w + j | c; j, c -> o => b, w | o"
        message = message_of(oc.ShapeError, lambda: oc.einsum(spec, images, kernel))
        first, *lines = message.splitlines()
        assert first.endswith(", images, kernel)`: axis `c` is 3 in `images`, 1 in `kernel`")
        assert lines[:4] == [
            "  images: 2,8|3    (its output axes)",
            "              ^",
            "  kernel: 3,1->4    (its input axes)",
            "            ^",
        ]
        message = message_of(
            oc.ShapeError, lambda: oc.param("w") @ data(10, 3) + data(4, label="b") + data(5)
        )
        first, *lines = message.splitlines()
        assert first.endswith("`: size 4 in `(... + b)`, 5 in `x`")
        assert lines == [
            "  (... + b): 10|4    (its output axes)",
            "                ^",
            "  x: 5    (its output axes)",
            "     ^",
            "  hint: point by point, sizes are equal, or one of them is 1",
        ]

    def test_what_layers_are_made_of_is_not_shown(self):
        """The user's call in its place, and the tensors that were given to it."""
        conv, scores = nn.conv2d(out_channels=4, kernel_size=3), data(5, 10, label="scores")
        conv(data(2, 8, 8, 3, label="rgb", axes="bbbo"))
        grey = data(2, 8, 8, 1, label="grey", axes="bbbo")
        message = message_of(oc.ShapeError, lambda: conv(grey), "with `conv.w`")
        assert "`conv(grey)`: size 1 in `grey`, 3 in `conv.w`\n" in message
        ids = oc.data(np.zeros(6, np.int32), axes="b", label="ids")
        message = message_of(oc.ShapeError, lambda: nn.cross_entropy(scores, ids))
        first, *_ = message.splitlines()
        assert first.endswith("`nn.cross_entropy(scores, ids)`: size 5 in `scores`, 6 in `ids`")
        x, mask = data(2, 5, 32), data(3, 5, 5, label="mask", axes="bbi")
        message = message_of(
            oc.ShapeError, lambda: nn.multi_head_attention(num_heads=4, d_k=8, d_v=8)(x, mask=mask)
        )
        call = "nn.multi_head_attention(num_heads=4, d_k=8, d_v=8)(x, mask=mask)"
        assert f"`{call}`: size 3 in `mask`, 2 in a value computed from `x`" in message
        assert "hint" not in message

    @pytest.mark.parametrize(
        ("has_source", "shown"), [(True, "nn.cross_entropy( scores, ids, )"), (False, "gather(")]
    )
    def test_a_call_on_several_lines(self, has_source: bool, shown: str, monkeypatch: pytest.MonkeyPatch):
        text = "nn.cross_entropy(\n    scores,\n    ids,\n)\n"
        if has_source:
            lines = text.splitlines(keepends=True)
            monkeypatch.setitem(linecache.cache, "lines", (len(text), None, lines, "lines"))
        ids = oc.data(np.zeros(6, np.int32), axes="b", label="ids")
        names = {"nn": nn, "scores": data(5, 10), "ids": ids}
        with pytest.raises(oc.ShapeError) as caught:
            eval(compile(text, "lines", "eval"), names)
        assert f"do not fit in `{shown}" in str(caught.value)

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
