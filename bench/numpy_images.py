"""Convolutions and pooling of images example, height, width, channel in plain NumPy, with their gradients."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from steps import Floats


def windows(x: Floats, size: int) -> Floats:
    """The window around each pixel, zero beyond the border: example, height, width, channel, window."""
    margin = (size // 2, size // 2)
    return sliding_window_view(np.pad(x, ((0, 0), margin, margin, (0, 0))), (size, size), (1, 2))


def convolution(weight: Floats, x: Floats) -> Floats:
    return np.tensordot(windows(x, weight.shape[1]), weight, ([3, 4, 5], [3, 1, 2]))


def convolution_gradients(weight: Floats, x: Floats, gradient: Floats) -> tuple[Floats, Floats]:
    """With respect to the weight, output, height, width, input, and to the image."""
    size = weight.shape[1]
    weight_gradient = np.tensordot(gradient, windows(x, size), ([0, 1, 2], [0, 1, 2]))
    turned = weight[:, ::-1, ::-1].transpose(3, 1, 2, 0)
    return weight_gradient.transpose(0, 2, 3, 1), convolution(turned, gradient)


def blocks(x: Floats) -> Floats:
    """The image as blocks of 2 x 2: example, height, 2, width, 2, channel."""
    n, height, width, channels = x.shape
    return x.reshape(n, height // 2, 2, width // 2, 2, channels)


def pool(x: Floats) -> Floats:
    """The maximum of each block."""
    return blocks(x).max((2, 4))


def pool_gradient(x: Floats, gradient: Floats) -> Floats:
    """Every pixel that attains the maximum receives the gradient."""
    is_largest = blocks(x) == pool(x)[:, :, None, :, None]
    return (is_largest * gradient[:, :, None, :, None]).reshape(x.shape)
