"""The models in JAX. Running statistics of batch norms are not kept: no loss depends on them."""

from functools import partial

import jax
import jax.numpy as jnp
import steps_jax
from models import GATES, Model
from peers import Missing
from steps_jax import convolution, linear, norm, of_ids, parts, pool, transformer

tanh_gelu = partial(jax.nn.gelu, approximate=True)


def gpt2(problem, parameters, ids):
    x = parameters["embed.w"][ids] + parameters["place.w"]
    return transformer(parameters, "decoder", x, tanh_gelu) @ parameters["embed.w"].T


def vit(problem, parameters, images):
    w, b = parts(parameters, "patches", "w", "b")
    patch, channels = w.shape[1], images.shape[-1]
    batch, size = len(images), images.shape[1] // patch
    cells = images.reshape(batch, size, patch, size, patch, channels)
    x = jnp.einsum("bhiwjc,oijc->bhwo", cells, w).reshape(batch, size * size, -1) + b
    x = transformer(parameters, "encoder", x + parameters["place.w"], tanh_gelu, False)
    return linear(parameters, "head", x.mean(1))


def resnet(problem, parameters, images):
    def normed(window, name, x, stride=1):
        gain, offset = parts(parameters, f"{name}.batch_norm", "gain", "offset")
        return norm(convolution(parameters[f"{window}.w"], x, stride), gain, offset, (0, 1, 2))

    x = jax.nn.relu(normed("stem.conv", "stem", images))
    stages = sum(name.endswith("block0.second.w") for name in parameters)
    for name in (f"stage{k}.block{block}" for k in range(stages) for block in range(problem.layers)):
        has_shortcut = f"{name}.shortcut.conv.w" in parameters
        inner = jax.nn.relu(normed(f"{name}.first.conv", f"{name}.first", x, 1 + has_shortcut))
        inner = normed(f"{name}.second", name, inner)
        x = normed(f"{name}.shortcut.conv", f"{name}.shortcut", x, 2) if has_shortcut else x
        x = jax.nn.relu(inner + x)
    return linear(parameters, "head", x.mean((1, 2)))


def unet(problem, parameters, images):
    def pair(label, x):
        for name in (f"{label}.first", f"{label}.second"):
            x = jax.nn.relu(convolution(parameters[f"{name}.w"], x) + parameters[f"{name}.b"])
        return x

    x, before = images, []
    for level in range(problem.layers):
        x = pair(f"down{level}", pool(x) if level else x)
        before.append(x)
    for level in reversed(range(problem.layers - 1)):
        w, b = parts(parameters, f"up{level}.grow", "w", "b")
        batch, height, width, _ = x.shape
        grown = jnp.einsum("bhwc,oijc->bhiwjo", x, w).reshape(batch, 2 * height, 2 * width, -1) + b
        x = pair(f"up{level}", jnp.concatenate([before[level], grown], -1))
    return linear(parameters, "head", x)


def recurrent(problem, parameters, x):
    into, back, bias = parts(parameters, problem.kind, "w_x", "w_h", "b")
    form = "kgi" if back.ndim == 3 else "gi"
    zeros = jnp.zeros((len(x), back.shape[-1]))

    def lstm(state, sums):
        h, c = state
        take_in, keep, new, give_out = jnp.moveaxis(sums + jnp.einsum("bi,kgi->bkg", h, back), 1, 0)
        c = jax.nn.sigmoid(keep) * c + jax.nn.sigmoid(take_in) * jnp.tanh(new)
        h = jax.nn.sigmoid(give_out) * jnp.tanh(c)
        return (h, c), h

    def gru(h, sums):
        own = jnp.einsum("bi,kgi->kbg", h, back)
        reset, update = jax.nn.sigmoid(sums[:, 0] + own[0]), jax.nn.sigmoid(sums[:, 1] + own[1])
        new = jnp.tanh(sums[:, 2] + reset * (own[2] + parameters["gru.b_h"]))
        h = new + update * (h - new)
        return h, h

    def rnn(h, sums):
        h = jnp.tanh(sums + h @ back.T)
        return h, h

    cell, begin = {"lstm": (lstm, (zeros, zeros)), "gru": (gru, zeros), "rnn": (rnn, zeros)}[problem.kind]
    _, hidden = jax.lax.scan(cell, begin, jnp.einsum(f"bti,{form}->tb{form[:-1]}", x, into) + bias)
    return linear(parameters, "head", hidden.swapaxes(0, 1))


NETWORKS = {"gpt2": gpt2, "vit": vit, "resnet": resnet, "unet": unet} | dict.fromkeys(GATES, recurrent)


class Runs(steps_jax.Runs):
    problem: Model

    def __init__(self, problem: Model):
        if problem.precision != "f32":
            raise Missing
        super().__init__(problem)

    def loss_of(self):
        network = partial(NETWORKS[self.problem.kind], self.problem)
        return lambda parameters, x, target: of_ids(network(parameters, x), target)

    def moments(self, parameters):
        count = 2 if self.problem.optimizer == "adamw" else 1
        return tuple(jax.tree.map(jnp.zeros_like, parameters) for _ in range(count))

    def updated(self, parameters, gradients, moments, step_n):
        update = adamw if self.problem.optimizer == "adamw" else momentum
        return update(parameters, gradients, moments, step_n, **self.problem.settings)


def adamw(parameters, gradients, moments, step_n, lr, weight_decay):
    """Loshchilov and Hutter, 2019."""
    means, squares = moments
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, gradients)
    count = (step_n + 1).astype(jnp.float32)
    one, other = 1 - 0.9**count, 1 - 0.999**count

    def moved(p, m, v):
        return p * (1 - lr * weight_decay) - lr * (m / one) / (jnp.sqrt(v / other) + 1e-8)

    return jax.tree.map(moved, parameters, means, squares), (means, squares)


def momentum(parameters, gradients, moments, step_n, lr, momentum, weight_decay):
    (velocity,) = moments
    velocity = jax.tree.map(
        lambda m, g, p: momentum * m + g + weight_decay * p, velocity, gradients, parameters
    )
    return jax.tree.map(lambda p, m: p - lr * m, parameters, velocity), (velocity,)
