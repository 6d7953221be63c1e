"""The steps in OCANNL."""

from typing import Any

from steps import LEARNING_RATE, WEIGHT_DECAY, CharacterModel, Layers, Problem, moons_learning_rate

import ocannl as oc
from ocannl import nn, train


def cross_entropy(logits: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """For each element of the batch; the target is a distribution over the output axis."""
    largest = oc.einmax("...|...d => ...|...0", logits)
    shifted = logits - oc.stop_gradient(largest)
    log_total = oc.log(oc.exp(shifted).einsum("...|...d => ...|...0"))
    return log_total - (target * shifted).einsum("...|...d => ...|...0")


def layers_loss(problem: Layers, x: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    output = network(problem, x)
    losses = oc.relu(1 - target * output) if problem.name == "moons" else cross_entropy(output, target)
    return losses.einsum("...|... => 0") / problem.batch_size


def character_loss(problem: CharacterModel, ids: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    vocabulary, width = problem.parameters["embedding.w"].shape
    hidden, _ = problem.parameters["decoder.layer1.feed_forward.into.w"].shape
    each = width // problem.heads
    decoder = nn.decoder_only(problem.layers, problem.heads, d_k=each, d_v=each, d_ff=hidden)
    x = decoder(nn.embedding(num=vocabulary, dim=width)(ids))
    return nn.cross_entropy(nn.linear(out_dim=vocabulary)(x), target)


def network(problem: Layers, x: oc.Tensor) -> oc.Tensor:
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


def flat(problem: Layers, layer: int, x: oc.Tensor) -> oc.Tensor:
    """The image as features, where a linear layer follows a convolution."""
    is_first = layer > 0 and problem.weights[layer - 1].ndim > 2
    return oc.einsum("..., h, w | c => ... | h&w&c", x) if is_first else x


def pool(x: oc.Tensor) -> oc.Tensor:
    return oc.einmax("..., 2*h + i, 2*w + j | c => ..., h, w | c", x, i=2, j=2)


class Runs:
    def __init__(self, problem: Problem, device: str = "cpu"):
        self.problem, self.device = problem, device
        self.batch_n, self.step_n = oc.index("batch_n", problem.batches), oc.index("step_n")
        axes = "b" * problem.inputs.ndim if isinstance(problem, CharacterModel) else None
        inputs, targets = problem.inputs, problem.targets
        x = oc.data(inputs, label="inputs", axes=axes)[self.batch_n]
        target = oc.data(targets, label="targets", axes=axes)[self.batch_n]
        if isinstance(problem, CharacterModel):
            self.loss = character_loss(problem, x, target)
        else:
            assert isinstance(problem, Layers)
            self.loss = layers_loss(problem, x, target)
        is_moons = problem.name == "moons"
        rate = moons_learning_rate(self.step_n) if is_moons else LEARNING_RATE
        update = train.sgd_update(self.loss, learning_rate=rate, weight_decay=WEIGHT_DECAY)
        self.code = train.grad_update(self.loss) + update

    def first(self) -> float:
        self.context = oc.Context(
            self.device, tf32=self.device == "cuda" and self.problem.precision == "tf32"
        )
        self.routine = self.context.compile(self.code, name=f"{self.problem.name}_step")
        self.reset()
        return self.step(0)

    def reset(self) -> None:
        self.context.init_params(self.loss, seed=1, reinit=True)
        if isinstance(self.problem, CharacterModel):
            for name, param in oc.params(self.loss).items():
                self.context[param] = self.problem.parameters[name]

    def step(self, step_n: int) -> float:
        self.set_counter(step_n)
        self.routine[self.batch_n] = step_n % self.problem.batches
        self.routine()
        return float(self.context[self.loss])

    def set_counter(self, step_n: int) -> None:
        if self.problem.name == "moons":
            self.routine[self.step_n] = step_n

    def values(self) -> dict[str, Any]:
        self.reset()
        return {"losses": [self.step(step_n) for step_n in range(self.problem.verified_steps)]}

    def call(self, count: int) -> None:
        routine, step_n, is_moons = self.routine, self.step_n, self.problem.name == "moons"
        self.set_counter(0)
        for _ in range(count // self.problem.batches):
            for _ in routine.loop():
                if is_moons:
                    routine[step_n] += 1
        self.context.synchronize()

    def loop(self, count: int) -> None:
        self.set_counter(0)
        advance = [self.step_n] if self.problem.name == "moons" else []
        self.routine.run_loop(epochs=count // self.problem.batches, advance=advance)
