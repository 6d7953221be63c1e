"""The steps in JAX: one `jit` for a step, and a `fori_loop` over it for the loop."""

from typing import Any

import jax
import jax.numpy as jnp
from models import Model
from steps import LEARNING_RATE, WEIGHT_DECAY, CharacterModel, Layers, Problem, moons_learning_rate


def network(parameters, x):
    *hidden, (last_weight, last_bias) = parameters
    for weight, bias in hidden:
        if weight.ndim > 2:
            x = pool(jax.nn.relu(convolution(weight, x) + bias))
        else:
            x = jax.nn.relu(x.reshape(len(x), -1) @ weight.T + bias)
    return x @ last_weight.T if last_bias is None else x @ last_weight.T + last_bias


def convolution(weight, x, stride=1):
    """Windows as PyTorch places them: with as many zeros before as behind the image."""
    pads = [(size // 2, size // 2) for size in weight.shape[1:3]]
    layouts = ("NHWC", "OHWI", "NHWC")
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), pads, dimension_numbers=layouts)


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def hinge(parameters, x, target):
    return jax.nn.relu(1 - target * network(parameters, x)).sum() / len(x)


def cross_entropy(parameters, x, target):
    return -(jax.nn.log_softmax(network(parameters, x)) * target).sum() / len(x)


def norm(x, gain, offset, axis: int | tuple[int, ...] = -1):
    centered = x - x.mean(axis, keepdims=True)
    return gain * centered * jax.lax.rsqrt((centered * centered).mean(axis, keepdims=True) + 1e-5) + offset


def attention(x, w_q, w_k, w_v, w_o, is_causal=True):
    queries, keys, values = (jnp.einsum("bsi,hdi->bhsd", x, w) for w in (w_q, w_k, w_v))
    scores = jnp.einsum("bhsd,bhtd->bhst", queries, keys) / queries.shape[-1] ** 0.5
    if is_causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    weights = jax.nn.softmax(scores, -1)
    return jnp.einsum("bhst,bhtd,ohd->bso", weights, values, w_o, optimize=[(0, 1), (0, 1)])


def parts(parameters, name, *kinds):
    return [parameters[f"{name}.{kind}"] for kind in kinds]


def transformer(parameters, label, x, activation=jax.nn.relu, is_causal=True):
    layers = sum(name.endswith("norm1.gain") for name in parameters)
    for layer in (f"{label}.layer{k}" for k in range(1, layers + 1)):
        weights = parts(parameters, f"{layer}.attention", "w_q", "w_k", "w_v", "w_o")
        x = x + attention(normed(parameters, f"{layer}.norm1", x), *weights, is_causal=is_causal)
        hidden = linear(parameters, f"{layer}.feed_forward.into", normed(parameters, f"{layer}.norm2", x))
        x = x + linear(parameters, f"{layer}.feed_forward.out", activation(hidden))
    return normed(parameters, f"{label}.norm", x)


def normed(parameters, name, x):
    return norm(x, *parts(parameters, name, "gain", "offset"))


def linear(parameters, name, x):
    w, b = parts(parameters, name, "w", "b")
    return x @ w.T + b


def of_ids(scores, target):
    """The mean cross-entropy of scores and ids."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), target[..., None], -1).mean()


def character_loss(parameters, ids, target):
    x = transformer(parameters, "decoder", parameters["embedding.w"][ids])
    return of_ids(linear(parameters, "linear", x), target)


LOSSES = {"moons": hinge, "mlp": cross_entropy, "lenet": cross_entropy, "charlm": character_loss}


def initial(problem: Problem):
    if isinstance(problem, CharacterModel | Model):
        return problem.parameters
    assert isinstance(problem, Layers)
    return list(zip(problem.weights, problem.biases, strict=True))


class Runs:
    def __init__(self, problem: Problem):
        self.problem = problem
        self.data = jnp.asarray(problem.inputs), jnp.asarray(problem.targets)

        def step(state, inputs, targets):
            parameters, moments, step_n, _ = state
            batch = step_n % problem.batches
            loss = self.loss_of()
            value, gradients = jax.value_and_grad(loss)(parameters, inputs[batch], targets[batch])
            parameters, moments = self.updated(parameters, gradients, moments, step_n)
            return parameters, moments, step_n + 1, value

        def loop(state, inputs, targets, count):
            return jax.lax.fori_loop(0, count, lambda _, state: step(state, inputs, targets), state)

        # The counter is part of the state, so that a call converts no Python number.
        self.step = jax.jit(step, donate_argnums=0)
        self.steps = jax.jit(loop, donate_argnums=0, static_argnums=3)
        self.reset()

    def loss_of(self):
        return LOSSES[self.problem.name]

    def updated(self, parameters, gradients, moments, step_n):
        is_moons = self.problem.name == "moons"
        rate = moons_learning_rate(step_n.astype(jnp.float32)) if is_moons else LEARNING_RATE
        return jax.tree.map(lambda p, g: p - rate * (g + WEIGHT_DECAY * p), parameters, gradients), moments

    def moments(self, parameters):
        """The state of the optimizer, in the beginning."""
        return ()

    def reset(self) -> None:
        parameters = jax.tree.map(jnp.array, initial(self.problem))
        state = parameters, self.moments(parameters), jnp.int32(0), jnp.float32(0)
        self.state = jax.block_until_ready(state)

    def rewind(self) -> None:
        """Counts from 0 again."""
        parameters, moments, _, loss = self.state
        self.state = parameters, moments, jnp.int32(0), loss

    def first(self) -> float:
        self.state = self.step(self.state, *self.data)
        return float(self.state[-1])

    def values(self) -> dict[str, Any]:
        self.reset()
        return {"losses": [self.first() for _ in range(self.problem.verified_steps)]}

    def call(self, count: int) -> None:
        self.rewind()
        state, step, data = self.state, self.step, self.data
        for _ in range(count):
            state = step(state, *data)
        self.state = jax.block_until_ready(state)

    def loop(self, count: int) -> None:
        self.rewind()
        self.state = jax.block_until_ready(self.steps(self.state, *self.data, count))
