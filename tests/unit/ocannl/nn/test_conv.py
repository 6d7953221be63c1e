"""Convolutions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.nn.check import Array, Case, arrays_of, check_all

import ocannl as oc
from ocannl import nn

# PyTorch says that it copies.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")

# References. Images are batch, spatial axes, channels; kernels are output channels, window, input channels.


def margins(window: int, dilation: int) -> tuple[int, int]:
    """The padding before and after an axis: an even window has one more after it."""
    span = (window - 1) * dilation
    return span // 2, span - span // 2


def conv(
    x: Array,
    w: Array,
    *,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    padded: bool,
    groups: int = 1,
) -> Array:
    """A sum over the positions of the window, of slices of the image."""
    rank = len(stride)
    window = w.shape[1 : 1 + rank]
    lead = x.ndim - rank - 1
    if padded:
        around = [margins(k, d) for k, d in zip(window, dilation, strict=True)]
        x = np.pad(x, [(0, 0)] * lead + around + [(0, 0)])
    sizes = x.shape[lead:-1]
    spans = [1 + (k - 1) * d for k, d in zip(window, dilation, strict=True)]
    out = [(size - span) // s + 1 for size, span, s in zip(sizes, spans, stride, strict=True)]
    x = x.reshape(*x.shape[:-1], groups, -1)
    w = w.reshape(groups, -1, *w.shape[1:])
    result: Any = 0.0
    for at in itertools.product(*map(range, window)):
        cut = tuple(
            slice(k * d, k * d + s * (o - 1) + 1, s)
            for k, d, s, o in zip(at, dilation, stride, out, strict=True)
        )
        seen = x[(..., *cut, slice(None), slice(None))]
        result = result + np.einsum("...gi,goi->...go", seen, w[(slice(None), slice(None), *at)])
    return np.asarray(result).reshape(*result.shape[:-2], -1)


def conv_transpose(x: Array, w: Array, *, stride: int, dilation: int, padded: bool) -> Array:
    """Every cell adds its window to the image."""
    window, sizes = w.shape[1:3], x.shape[-3:-1]
    reach = [stride * o + (k - 1) * dilation for k, o in zip(window, sizes, strict=True)]
    result = np.zeros((*x.shape[:-3], *reach, w.shape[0]))
    for at in itertools.product(*map(range, window)):
        rows, columns = (
            slice(k * dilation, k * dilation + stride * o, stride) for k, o in zip(at, sizes, strict=True)
        )
        result[..., rows, columns, :] += x @ w[:, *at, :].T
    if not padded:
        return result[..., : reach[0] - stride + 1, : reach[1] - stride + 1, :]
    rows, columns = (
        slice(before, before + stride * o)
        for (before, _), o in zip((margins(k, dilation) for k in window), sizes, strict=True)
    )
    return result[..., rows, columns, :]


def channels_first(x: Any, rank: int) -> Any:
    """PyTorch's axes, with one batch axis."""
    x = x.movedim(-1, -1 - rank)
    return x.reshape(-1, *x.shape[-1 - rank :])


def channels_last(y: Any, rank: int, batch: Any) -> Any:
    y = y.movedim(1, -1)
    return y.reshape(*batch, *y.shape[1:])


def torch_conv(
    x: Any,
    w: Any,
    b: Any,
    *,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    padded: bool,
    groups: int = 1,
) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    rank = len(stride)
    image = channels_first(x, rank)
    if padded:
        around = [margins(k, d) for k, d in zip(w.shape[1 : 1 + rank], dilation, strict=True)]
        image = functional.pad(image, [size for pair in reversed(around) for size in pair])
    function = getattr(functional, f"conv{rank}d")
    result = function(image, w.movedim(-1, 1), b, stride=stride, dilation=dilation, groups=groups)
    return channels_last(result, rank, x.shape[: x.dim() - rank - 1])


def torch_same(x: Any, w: Any, b: Any) -> Any:
    """PyTorch's own padding."""
    functional = pytest.importorskip("torch").nn.functional
    result = functional.conv2d(channels_first(x, 2), w.movedim(-1, 1), b, padding="same")
    return channels_last(result, 2, x.shape[:-3])


def torch_conv_transpose(x: Any, w: Any, b: Any, *, stride: int, dilation: int, padded: bool) -> Any:
    functional = pytest.importorskip("torch").nn.functional
    window = w.shape[1:3]
    odd = [(k - 1) * dilation % 2 for k in window]
    result = functional.conv_transpose2d(
        channels_first(x, 2),
        w.permute(3, 0, 1, 2),
        b,
        stride=stride,
        dilation=dilation,
        padding=[(k - 1) * dilation // 2 if padded else 0 for k in window],
        output_padding=[stride - 1 - o if padded else 0 for o in odd],
    )
    return channels_last(result, 2, x.shape[:-3])


def case(
    rank: int,
    shape: tuple[int, ...],
    *,
    kernel: int | tuple[int, ...] = 3,
    stride: int | tuple[int, ...] = 1,
    dilation: int | tuple[int, ...] = 1,
    padded: bool = True,
    groups: int = 1,
    bias: bool = True,
) -> Case:
    """A convolution to four channels."""

    def each(sizes: int | tuple[int, ...]) -> tuple[int, ...]:
        return (sizes,) * rank if isinstance(sizes, int) else sizes

    block = (nn.conv1d, nn.conv2d, nn.conv3d)[rank - 1](
        kernel_size=kernel,
        stride=stride,
        use_padding=padded,
        dilation=dilation,
        groups=groups,
        out_channels=4,
        bias=bias,
    )
    how: dict[str, Any] = {
        "stride": each(stride),
        "dilation": each(dilation),
        "padded": padded,
        "groups": groups,
    }
    return Case(
        block,
        arrays_of(shape),
        lambda p, x: conv(x, p["conv.w"], **how) + p.get("conv.b", 0.0),
        lambda p, x: torch_conv(x, p["conv.w"], p.get("conv.b"), **how),
    )


def transposed(
    shape: tuple[int, ...], *, kernel: int = 3, stride: int = 1, dilation: int = 1, padded: bool = True
) -> Case:
    how: dict[str, Any] = {"stride": stride, "dilation": dilation, "padded": padded}
    block = nn.conv_transpose2d(
        kernel_size=kernel, stride=stride, dilation=dilation, use_padding=padded, out_channels=4
    )
    return Case(
        block,
        arrays_of(shape),
        lambda p, x: conv_transpose(x, p["conv.w"], **how) + p["conv.b"],
        lambda p, x: torch_conv_transpose(x, p["conv.w"], p["conv.b"], **how),
    )


def separable(shape: tuple[int, ...], *, stride: int = 1, bias: bool = True) -> Case:
    how: dict[str, Any] = {
        "stride": (stride, stride),
        "dilation": (1, 1),
        "padded": True,
        "groups": shape[-1],
    }

    def reference(p: Any, function: Any) -> Any:
        y = function(p["conv.depthwise.w"][..., None])
        y = y @ p["conv.pointwise.w"].T
        return y + p["conv.pointwise.b"] if bias else y

    return Case(
        nn.depthwise_separable_conv2d(stride=stride, out_channels=5, bias=bias),
        arrays_of(shape),
        lambda p, x: reference(p, lambda w: conv(x, w, **how)),
        lambda p, x: reference(p, lambda w: torch_conv(x, w, None, **how)),
    )


IMAGES = (2, 6, 8, 3)

CASES = {
    "padded": case(2, IMAGES),
    "valid": case(2, IMAGES, padded=False),
    "no bias": case(2, IMAGES, bias=False),
    "one image": case(2, IMAGES[1:]),
    "two batch axes": case(2, (2, 3, 4, 5, 2)),
    "one cell": case(2, IMAGES, kernel=1, stride=2),
    "stride": case(2, IMAGES, stride=2),
    "stride, valid": case(2, (2, 7, 9, 3), stride=2, padded=False),
    "stride beyond the window": case(2, (2, 6, 9, 2), stride=3, kernel=2),
    "dilation": case(2, IMAGES, dilation=2),
    "dilation, valid": case(2, IMAGES, dilation=2, padded=False),
    "pairs": case(2, IMAGES, kernel=(3, 2), stride=(1, 2), dilation=(2, 1)),
    "pairs, valid": case(2, (2, 7, 8, 3), kernel=(3, 2), stride=(1, 2), dilation=(2, 1), padded=False),
    "window greater than the image": case(2, (2, 4, 3, 2), kernel=7),
    "groups": case(2, (2, 4, 6, 6), groups=2),
    "groups, stride, valid": case(2, (2, 5, 7, 8), groups=4, stride=2, padded=False),
    "one axis": case(1, (2, 9, 3), kernel=5),
    "one axis, dilated, grouped": case(1, (2, 9, 4), kernel=3, dilation=3, padded=False, groups=2),
    "three axes": case(3, (2, 4, 3, 5, 2), stride=(2, 1, 1), kernel=(3, 2, 1)),
    "transposed": transposed((2, 4, 5, 3)),
    "transposed, valid": transposed((2, 4, 5, 3), padded=False),
    "transposed, stride": transposed((2, 3, 4, 3), stride=2),
    "transposed, stride, even": transposed((2, 3, 4, 3), stride=2, kernel=2),
    "transposed, stride, dilation, valid": transposed((3, 4, 3), stride=3, dilation=2, padded=False),
    "separable": separable(IMAGES),
    "separable, stride": separable(IMAGES, stride=2, bias=False),
    "even window": Case(
        nn.conv2d(kernel_size=4, out_channels=2),
        arrays_of(IMAGES),
        lambda p, x: conv(x, p["conv.w"], stride=(1, 1), dilation=(1, 1), padded=True) + p["conv.b"],
        lambda p, x: torch_same(x, p["conv.w"], p["conv.b"]),
    ),
    "inferred channels": Case(
        lambda x, y: nn.conv2d(label="conv")(x) + y,
        arrays_of(IMAGES, (2, 6, 8, 5)),
        lambda p, x, y: conv(x, p["conv.w"], stride=(1, 1), dilation=(1, 1), padded=True) + p["conv.b"] + y,
        lambda p, x, y: torch_same(x, p["conv.w"], p["conv.b"]) + y,
        ["bbbo", "bbbo"],
    ),
}


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
    def test_a_stride_that_does_not_divide(self):
        with pytest.raises(oc.ShapeError, match=r"size 7 has 7, which does not divide by 2"):
            oc.infer(nn.conv2d(stride=2, out_channels=4)(images(2, 7, 8, 3)))

    def test_a_stride_that_does_not_divide_what_the_window_leaves(self):
        with pytest.raises(oc.ShapeError, match=r"size 8 leaves 5, which does not divide by 2"):
            oc.infer(nn.conv2d(stride=2, use_padding=False, out_channels=4)(images(2, 8, 9, 3)))

    def test_a_window_beyond_the_image(self):
        with pytest.raises(oc.ShapeError, match=r"size 4 is too short for `oh \+ kh`"):
            oc.infer(nn.conv2d(kernel_size=5, use_padding=False, out_channels=4)(images(2, 4, 9, 3)))

    def test_groups_that_do_not_divide(self):
        with pytest.raises(oc.ShapeError, match=r"`g&ic` a size of 3 does not divide by 2"):
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
        ],
    )
    def test_no_size(self, settings: dict[str, Any], error: type[Exception], message: str):
        with pytest.raises(error, match=message):
            nn.conv2d(**settings)
