"""Convolutions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.nn.check import Case, arrays_of, check_all
from support.nn.conv import CASES

import ocannl as oc
from ocannl import nn

# PyTorch says that it copies.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")


@pytest.mark.sampled(5)
@check_all(CASES)
def test_against_numpy(case: Case):
    case.check_numpy()


@check_all(CASES)
def test_against_torch(case: Case):
    case.check_torch()


def images(*shape: int) -> oc.Tensor:
    return oc.data(np.zeros(shape, np.float32), label="images")


def inferred(result: oc.Tensor) -> dict[str, str]:
    oc.infer(result)
    return {name: str(p.shape) for name, p in oc.params(result).items()}


def test_everything_but_one_number_is_inferred():
    result = nn.conv2d(out_channels=6, kernel_size=5)(images(10, 28, 28, 1))
    assert inferred(result) == {"conv.w": "5,5,1->6", "conv.b": "6"}
    assert str(result.shape) == "10,28,28|6"


def test_images_take_their_shape_from_the_layers_around_them():
    """Spatial sizes are solved backwards too."""
    hidden = oc.param("hidden", 0.0, batch=[oc.Dim("n"), oc.Dim("h"), oc.Dim("w")], input=[])
    result = nn.conv2d(stride=2, out_channels=4)(hidden) + images(2, 3, 5, 4)
    valid = nn.conv2d(kernel_size=(3, 4), use_padding=False, out_channels=7)(hidden + images(2, 1, 1, 7))
    oc.infer(oc.forward(result) + oc.forward(valid))
    assert inferred(result)["conv.w"] == "3,3,7->4"
    assert str(hidden.shape) == "2,6,10|7"
    assert str(valid.shape) == "2,4,7|7"


def test_channels_of_several_axes():
    layer = nn.conv2d(out_channels=[2, 4])
    result = layer(oc.data(np.zeros((5, 6, 3, 2)), axes="bboo"))
    assert inferred(result) == {"conv.w": "3,3,3,2->2,4", "conv.b": "2,4"}


def test_a_transposed_convolution_is_the_adjoint():
    """<conv(x), y> = <x, conv_transpose(y)> where both have the same window."""
    (x, y, w) = arrays_of((6, 8, 3), (3, 4, 5), (5, 3, 3, 3))
    settings: dict[str, Any] = {"kernel_size": 3, "stride": 2, "bias": False}
    down, up = (
        nn.conv2d(**settings, out_channels=5),
        nn.conv_transpose2d(**settings, out_channels=3, label="up"),
    )
    lowered, raised = down(oc.data(x)), up(oc.data(y))
    oc.infer(lowered + 0 * oc.data(y))
    oc.infer(raised + 0 * oc.data(x))
    ctx = oc.Context.cpu()
    ctx[oc.params(lowered)["conv.w"]] = w
    ctx[oc.params(raised)["up.w"]] = np.moveaxis(w, 0, -1).transpose(2, 0, 1, 3)
    assert np.sum(ctx[lowered] * y) == pytest.approx(np.sum(ctx[raised] * x))


class TestErrors:
    def test_a_size_that_is_not_known_where_it_is_applied_and_does_not_divide(self):
        hidden = oc.param("hidden", 0.0, batch=[oc.Dim("n"), oc.Dim("h"), oc.Dim("w")], input=[])
        result = nn.conv2d(stride=2, out_channels=4)(hidden)
        with pytest.raises(oc.ShapeError, match=r"size 7 has 7, which does not divide by 2"):
            oc.infer(oc.forward(result) + oc.forward(hidden + images(2, 7, 8, 3)))
        mirrored = nn.conv2d(padding=1, padding_mode="reflect")
        with pytest.raises(oc.ShapeError, match="not known yet"):
            mirrored(oc.param("open", batch=[oc.Dim("h"), oc.Dim("w")]))

    def test_a_window_beyond_the_image(self):
        plain = nn.conv2d(kernel_size=5, use_padding=False, out_channels=4)
        spread = nn.conv2d(kernel_size=5, padding=1, dilation=2, out_channels=4)
        for conv, words in (
            (plain, r"window of size 5 does not fit in axis 1 .* size 4, with no padding\n .* padding=1$"),
            (spread, r"size 5, spread over 9, .* padding of \(1, 1\)\n .* padding=3$"),
        ):
            with pytest.raises(oc.ShapeError, match=rf"(?s)^{re.escape(__file__)}:\d+: .*{words}"):
                conv(images(2, 4, 9, 3))
        with pytest.raises(oc.ShapeError, match=r"so size 3, .*\n  hint: channels stand last here"):
            nn.max_pool2d(window_size=4)(images(2, 3, 9, 9))

    def test_a_window_beyond_an_image_whose_size_comes_later(self):
        hidden = oc.param("hidden", 0.0, batch=[oc.Dim("n"), oc.Dim("h"), oc.Dim("w")], input=[])
        pooled = nn.max_pool2d(window_size=5)(hidden)
        with pytest.raises(oc.ShapeError, match=r"window of size 5 does not fit in an axis of size 4: `"):
            oc.infer(oc.forward(pooled) + oc.forward(hidden + images(2, 4, 9, 3)))

    def test_groups_that_do_not_divide(self):
        with pytest.raises(oc.ShapeError, match=r"the size 3 of `g&ic` is not divisible by 2"):
            oc.infer(nn.conv2d(groups=2, out_channels=4)(images(2, 4, 4, 3)))

    def test_nothing_says_how_many_channels(self):
        with pytest.raises(oc.ShapeError, match=r"hidden dimension of `conv.w`"):
            oc.infer(nn.conv2d()(images(2, 4, 4, 3)))

    @pytest.mark.parametrize(
        ("settings", "error", "message"),
        [
            ({"kernel_size": 0}, ValueError, "kernel_size is at least 1, found 0"),
            ({"kernel_size": (3, 3, 3)}, ValueError, "kernel_size is a number, or one for each of 2 axes"),
            ({"stride": 1.5}, TypeError, "stride is an integer, found 1.5"),
            ({"dilation": (1, -2)}, ValueError, "dilation is at least 1, found -2"),
            ({"groups": 0}, ValueError, "groups is at least 1, found 0"),
            ({"padding": -1}, ValueError, "padding is at least 0, found -1"),
            ({"padding": (1, 2, 3)}, ValueError, "padding is a number, or one or a pair for each of 2 axes"),
            ({"padding_mode": "mirror"}, ValueError, "padding is by zeros, reflect, replicate, circular"),
        ],
    )
    def test_no_size(self, settings: dict[str, Any], error: type[Exception], message: str):
        with pytest.raises(error, match=message):
            nn.conv2d(**settings)

    def test_output_padding_without_padding(self):
        with pytest.raises(oc.ArgumentError, match="output_padding is added to what `padding` leaves"):
            nn.conv_transpose2d(stride=2, output_padding=1)
