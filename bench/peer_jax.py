"""The steps in JAX: one `jit` for a step, and a `fori_loop` over it for the loop."""

import jax
import jax.numpy as jnp
from problems import MLP_LEARNING_RATE, MOONS_STEPS, WEIGHT_DECAY, Problem


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


def moons_update(parameter, gradient, step_n):
    rate = 0.1 * (2 * MOONS_STEPS - step_n.astype(jnp.float32)) / MOONS_STEPS
    return parameter - rate * (gradient + WEIGHT_DECAY * parameter)


def mlp_update(parameter, gradient, step_n):
    return parameter - MLP_LEARNING_RATE * gradient


def lenet_update(parameter, gradient, step_n):
    return parameter - MLP_LEARNING_RATE * (gradient + WEIGHT_DECAY * parameter)


STEPS = {
    "moons": (hinge, moons_update),
    "mlp": (cross_entropy, mlp_update),
    "lenet": (cross_entropy, lenet_update),
}


class Steps:
    def __init__(self, problem: Problem):
        self.problem = problem
        self.data = jnp.asarray(problem.inputs), jnp.asarray(problem.targets)
        loss, update = STEPS[problem.name]

        def step(state, inputs, targets):
            parameters, step_n, _ = state
            batch = step_n % problem.batches
            value, gradients = jax.value_and_grad(loss)(parameters, inputs[batch], targets[batch])
            parameters = jax.tree.map(lambda p, g: update(p, g, step_n), parameters, gradients)
            return parameters, step_n + 1, value

        def loop(state, inputs, targets, steps):
            return jax.lax.fori_loop(0, steps, lambda _, state: step(state, inputs, targets), state)

        # The counter is part of the state, so that a call converts no Python number.
        self.step = jax.jit(step, donate_argnums=0)
        self.steps = jax.jit(loop, donate_argnums=0, static_argnums=3)
        self.reset()

    def reset(self) -> None:
        layers = zip(self.problem.weights, self.problem.biases, strict=True)
        parameters = [(jnp.array(w), None if b is None else jnp.array(b)) for w, b in layers]
        self.state = jax.block_until_ready((parameters, jnp.int32(0), jnp.float32(0)))

    def rewind(self) -> None:
        """Counts from 0 again."""
        parameters, _, loss = self.state
        self.state = parameters, jnp.int32(0), loss

    def first(self) -> float:
        self.state = self.step(self.state, *self.data)
        return float(self.state[2])

    def losses(self, steps: int) -> list[float]:
        self.reset()
        return [self.first() for _ in range(steps)]

    def call(self, steps: int) -> None:
        self.rewind()
        state, step, data = self.state, self.step, self.data
        for _ in range(steps):
            state = step(state, *data)
        self.state = jax.block_until_ready(state)

    def loop(self, steps: int) -> None:
        self.rewind()
        self.state = jax.block_until_ready(self.steps(self.state, *self.data, steps))


def version() -> str:
    return jax.__version__
