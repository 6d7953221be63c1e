"""The steps in JAX: one `jit` for a step, and a `fori_loop` over it for the loop."""

from typing import Any

import jax
import jax.numpy as jnp
from steps import LEARNING_RATE, WEIGHT_DECAY, CharacterModel, Layers, Problem, moons_learning_rate


def network(parameters, x):
    *hidden, (last_weight, last_bias) = parameters
    for weight, bias in hidden:
        if weight.ndim > 2:
            x = pool(jax.nn.relu(convolution(weight, x) + bias))
        else:
            x = jax.nn.relu(x.reshape(len(x), -1) @ weight.T + bias)
    return x @ last_weight.T if last_bias is None else x @ last_weight.T + last_bias


def convolution(weight, x):
    return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "OHWI", "NHWC"))


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def hinge(parameters, x, target):
    return jax.nn.relu(1 - target * network(parameters, x)).sum() / len(x)


def cross_entropy(parameters, x, target):
    return -(jax.nn.log_softmax(network(parameters, x)) * target).sum() / len(x)


def norm(x, gain, offset, axis=-1):
    centered = x - x.mean(axis, keepdims=True)
    return gain * centered * jax.lax.rsqrt((centered * centered).mean(axis, keepdims=True) + 1e-5) + offset


def attention(x, w_q, w_k, w_v, w_o):
    queries, keys, values = (jnp.einsum("bsi,hdi->bhsd", x, w) for w in (w_q, w_k, w_v))
    scores = jnp.einsum("bhsd,bhtd->bhst", queries, keys) / queries.shape[-1] ** 0.5
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), -1)
    return jnp.einsum("bhst,bhtd,ohd->bso", weights, values, w_o, optimize=[(0, 1), (0, 1)])


def character_loss(parameters, ids, target):
    def of(name, *parts):
        return [parameters[f"{name}.{part}"] for part in parts]

    x = parameters["embedding.w"][ids]
    layers = sum(name.endswith("norm1.gain") for name in parameters)
    for layer in (f"decoder.layer{k}" for k in range(1, layers + 1)):
        weights = of(f"{layer}.attention", "w_q", "w_k", "w_v", "w_o")
        x = x + attention(norm(x, *of(f"{layer}.norm1", "gain", "offset")), *weights)
        (w1, b1), (w2, b2) = (of(f"{layer}.feed_forward.{part}", "w", "b") for part in ("into", "out"))
        hidden = jax.nn.relu(norm(x, *of(f"{layer}.norm2", "gain", "offset")) @ w1.T + b1)
        x = x + hidden @ w2.T + b2
    w, b = of("linear", "w", "b")
    log_probs = jax.nn.log_softmax(norm(x, *of("decoder.norm", "gain", "offset")) @ w.T + b)
    return -jnp.take_along_axis(log_probs, target[..., None], -1).mean()


LOSSES = {"moons": hinge, "mlp": cross_entropy, "lenet": cross_entropy, "charlm": character_loss}


def initial(problem: Problem):
    if isinstance(problem, CharacterModel):
        return problem.parameters
    assert isinstance(problem, Layers)
    return list(zip(problem.weights, problem.biases, strict=True))


class Runs:
    def __init__(self, problem: Problem):
        self.problem = problem
        self.data = jnp.asarray(problem.inputs), jnp.asarray(problem.targets)
        loss, is_moons = LOSSES[problem.name], problem.name == "moons"

        def step(state, inputs, targets):
            parameters, step_n, _ = state
            batch = step_n % problem.batches
            value, gradients = jax.value_and_grad(loss)(parameters, inputs[batch], targets[batch])
            rate = moons_learning_rate(step_n.astype(jnp.float32)) if is_moons else LEARNING_RATE
            parameters = jax.tree.map(lambda p, g: p - rate * (g + WEIGHT_DECAY * p), parameters, gradients)
            return parameters, step_n + 1, value

        def loop(state, inputs, targets, count):
            return jax.lax.fori_loop(0, count, lambda _, state: step(state, inputs, targets), state)

        # The counter is part of the state, so that a call converts no Python number.
        self.step = jax.jit(step, donate_argnums=0)
        self.steps = jax.jit(loop, donate_argnums=0, static_argnums=3)
        self.reset()

    def reset(self) -> None:
        parameters = jax.tree.map(jnp.array, initial(self.problem))
        self.state = jax.block_until_ready((parameters, jnp.int32(0), jnp.float32(0)))

    def rewind(self) -> None:
        """Counts from 0 again."""
        parameters, _, loss = self.state
        self.state = parameters, jnp.int32(0), loss

    def first(self) -> float:
        self.state = self.step(self.state, *self.data)
        return float(self.state[2])

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
