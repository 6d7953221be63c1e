"""The kernels in JAX."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from kernels import Kernel, data_of
from peers import Missing
from steps_jax import convolution, norm


def rms_norm(x, gain):
    return gain * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def cross_entropy(x, ids):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), ids[:, None], 1).mean()


def product(spec, x, other, *_):
    return jnp.einsum(spec, x, other)


# Of x, other, ids, gain and offset.
BLOCKS: dict[str, Callable[..., Any]] = {
    "add": lambda x, other, *_: x + other,
    "gelu": lambda x, *_: jax.nn.gelu(x, approximate=False),
    "tanh": lambda x, *_: jnp.tanh(x),
    "softmax": lambda x, *_: jax.nn.softmax(x),
    "log_softmax": lambda x, *_: jax.nn.log_softmax(x),
    "layer_norm": lambda x, other, ids, gain, offset: norm(x, gain, offset),
    "rms_norm": lambda x, other, ids, gain, offset: rms_norm(x, gain),
    "batch_norm": lambda x, other, ids, gain, offset: norm(x, gain, offset, 0),
    "cross_entropy": lambda x, other, ids, *_: cross_entropy(x, ids),
    "transpose": lambda x, *_: x.T,
    "remainder": lambda x, other, *_: x % other,
    "cumsum": lambda x, *_: x.cumsum(-1),
    "tril": lambda x, *_: jnp.tril(x),
    "convolution": lambda x, other, *_: convolution(other, x),
}


class Runs:
    def __init__(self, kernel: Kernel):
        if kernel.precision != "f32":
            raise Missing
        data = data_of(kernel)
        block = partial(product, kernel.product) if kernel.product else BLOCKS[kernel.block]
        width = kernel.x[-1]
        x, other, ids, gradient = map(jnp.asarray, (data.x, data.other, data.ids, data.gradient))
        operands = x, other, ids, jnp.ones(width), jnp.zeros(width)

        def both(gradient, x, other, ids, gain, offset):
            """Values, and gradients of all floats that PyTorch and OCANNL give them to."""
            y, pullback = jax.vjp(lambda x, g, o: block(x, other, ids, g, o), x, gain, offset)
            return y, *pullback(gradient.reshape(y.shape))

        self.names = ("y", "x.grad") if kernel.backward else ("y",)
        self.operands = (gradient, *operands) if kernel.backward else operands
        self.compiled = jax.jit(both if kernel.backward else lambda *operands: (block(*operands),))

    def first(self) -> None:
        self.call(1)

    def call(self, count: int) -> None:
        for _ in range(count):
            self.found = jax.block_until_ready(self.compiled(*self.operands))

    def values(self) -> dict[str, Any]:
        return {name: np.asarray(array) for name, array in zip(self.names, self.found, strict=False)}
