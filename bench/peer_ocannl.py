"""The steps in OCANNL."""

from importlib import metadata

from problems import MLP_LEARNING_RATE, MOONS_STEPS, Problem

import ocannl as oc
from ocannl import train


def cross_entropy(logits: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """For each element of the batch; the target is a distribution over the output axis."""
    largest = oc.einmax("...|...d => ...|...0", logits)
    shifted = logits - oc.stop_gradient(largest)
    log_total = oc.log(oc.exp(shifted).einsum("...|...d => ...|...0"))
    return log_total - (target * shifted).einsum("...|...d => ...|...0")


def network(problem: Problem, x: oc.Tensor) -> oc.Tensor:
    last = len(problem.weights) - 1
    for layer, (weight, bias) in enumerate(zip(problem.weights, problem.biases, strict=True)):
        outer, *inner = weight.shape
        w = oc.param(f"w{layer}", weight, input=inner, output=[outer])
        x = convolution(w, x) if len(inner) > 1 else w @ flat(problem, layer, x)
        if bias is not None:
            x = x + oc.param(f"b{layer}", bias, output=[outer])
        x = x if layer == last else oc.relu(x)
        x = pool(x) if len(inner) > 1 else x
    return x


def convolution(w: oc.Tensor, x: oc.Tensor) -> oc.Tensor:
    return oc.einsum("..., h + i, w + j | c; i, j, c -> o => ..., h, w | o", x, w, use_padding=True)


def flat(problem: Problem, layer: int, x: oc.Tensor) -> oc.Tensor:
    """The image as features, where a linear layer follows a convolution."""
    is_first = layer > 0 and problem.weights[layer - 1].ndim > 2
    return oc.einsum("..., h, w | c => ... | h&w&c", x) if is_first else x


def pool(x: oc.Tensor) -> oc.Tensor:
    return oc.einmax("..., 2*h + i, 2*w + j | c => ..., h, w | c", x, i=2, j=2)


class Steps:
    def __init__(self, problem: Problem):
        self.problem = problem
        self.batch_n, self.step_n = oc.index("batch_n", problem.batches), oc.index("step_n")
        x = oc.data(problem.inputs, label="inputs")[self.batch_n]
        target = oc.data(problem.targets, label="targets")[self.batch_n]
        output = network(problem, x)
        is_moons = problem.name == "moons"
        losses = oc.relu(1 - target * output) if is_moons else cross_entropy(output, target)
        self.loss = losses.einsum("...|... => 0") / problem.batch_size
        rate = 0.1 * (2 * MOONS_STEPS - self.step_n) / MOONS_STEPS if is_moons else MLP_LEARNING_RATE
        update = train.sgd_update(self.loss, learning_rate=rate, weight_decay=problem.weight_decay)
        self.code = train.grad_update(self.loss) + update

    def first(self) -> float:
        self.context = oc.Context.cpu()
        self.routine = self.context.compile(self.code, name=f"{self.problem.name}_step")
        self.context.init_params(self.loss, seed=1)
        return self.step(0)

    def step(self, step_n: int) -> float:
        self.set_counter(step_n)
        self.routine[self.batch_n] = step_n % self.problem.batches
        self.routine()
        return float(self.context[self.loss])

    def set_counter(self, step_n: int) -> None:
        if self.problem.name == "moons":
            self.routine[self.step_n] = step_n

    def losses(self, steps: int) -> list[float]:
        self.context.init_params(self.loss, seed=1, reinit=True)
        return [self.step(step_n) for step_n in range(steps)]

    def call(self, steps: int) -> None:
        routine, step_n = self.routine, self.step_n
        self.set_counter(0)
        for _ in range(steps // self.problem.batches):
            if self.problem.name == "moons":
                for _ in routine.loop():
                    routine[step_n] += 1
            else:
                for _ in routine.loop():
                    pass

    def loop(self, steps: int) -> None:
        self.set_counter(0)
        advance = [self.step_n] if self.problem.name == "moons" else []
        self.routine.run_loop(epochs=steps // self.problem.batches, advance=advance)


def version() -> str:
    return metadata.version("ocannl")
