"""Local training that seldom communicates (DiLoCo: Douillard et al., "DiLoCo: Distributed Low-Communication
Training of Language Models", 2023), on handwritten digits.

Each worker trains parameters of its own by AdamW, on its own part of the data. After many steps, the mean of
what they have moved is the gradient of an outer step: SGD with Nesterov's momentum on the parameters that all
begin the next round with. Workers are a batch axis of parameters and data, which a mesh divides, so the
program has no other trace of them, and gives the same on one device:

    python examples/diloco.py --ranks 4
    mpirun -n 4 python examples/diloco.py --ranks 4 --engine mpi
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from digits import digits
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Array = NDArray[Any]
Engine = Literal["threads", "mpi"]

CLASSES = 10
BATCH_SIZE = 25
HIDDEN = 64


class Layer:
    """Weights and bias of a linear layer: those of each worker, and those that a round begins with."""

    def __init__(self, label: str, workers: int, outputs: int, inputs: int, dtype: Any) -> None:
        with oc.scope(label):
            self.shared = [
                oc.param("w", output=outputs, input=inputs, dtype=dtype),
                oc.param("b", 0.0, output=outputs, input=[], dtype=dtype),
            ]
            sizes = ({"output": outputs, "input": inputs}, {"output": outputs, "input": []})
            self.own = [
                oc.param(
                    f"{name}_of_worker",
                    begin,
                    batch=[workers],
                    dtype=dtype,
                    shard={"batch": "workers"},
                    **size,
                )
                for name, begin, size in zip("wb", self.shared, sizes, strict=True)
            ]

    def __call__(self, x: oc.Tensor) -> oc.Tensor:
        """Each worker's layer, of its own inputs."""
        w, b = self.own
        return w @ x + b

    def agreed(self, x: oc.Tensor) -> oc.Tensor:
        """The layer that all workers agreed on after the last round."""
        w, b = self.shared
        return w @ x + b


def outer_step(layers: list[Layer], learning_rate: float, momentum: float) -> oc.Code:
    """The mean of what workers have moved is the gradient of the shared parameters; then all have those.
    This is all that workers send each other.
    """
    with oc.code("outer step") as step:
        for layer in layers:
            for shared, own in zip(layer.shared, layer.own, strict=True):
                moved = shared - oc.mean(own, axes="batch")
                train.sgd_one(
                    shared, learning_rate=learning_rate, momentum=momentum, nesterov=True, gradient=moved
                )
                own[...] = shared
    return step


@dataclass(frozen=True)
class Trained:
    """Losses of all steps, the parameters, outputs for tests, and the bytes that a rank has sent."""

    losses: Array
    parameters: dict[str, Array]
    logits: Array
    sent: int
    sent_by_data_parallel: int


def divided(array: Array, workers: int) -> Array:
    """Rows as steps, batches and workers; each worker has rows of its own."""
    steps = len(array) // (workers * BATCH_SIZE)
    rows = array[: steps * workers * BATCH_SIZE].reshape(workers, steps, BATCH_SIZE, -1)
    return np.ascontiguousarray(rows.transpose(1, 2, 0, 3))


def diloco(
    mesh: oc.Mesh | None, images: Array, shown: Array, tests: Array, *, workers: int, rounds: int, epochs: int
) -> Trained:
    """Trains workers for some rounds, each of some epochs over its part of the data."""
    ctx = oc.Context.cpu(threads=1) if mesh is None else oc.Context.cpu(mesh=mesh)
    xs, ys = (divided(array, workers) for array in (images, np.eye(CLASSES)[shown].astype(images.dtype)))
    step_n = oc.index("step_n", len(xs))
    x, y = (
        oc.data(array, label=label, shard={("batch", 2): "workers"})
        for array, label in ((xs, "images"), (ys, "digits"))
    )
    layers = [
        Layer("hidden", workers, HIDDEN, images.shape[1], images.dtype),
        Layer("out", workers, CLASSES, HIDDEN, images.dtype),
    ]
    logits = layers[1](oc.relu(layers[0](x[step_n])))
    loss = nn.cross_entropy(logits, y[step_n]).named("loss")
    # The mean is over workers, too; times their number, each one's gradients are those of its own mean.
    inner = train.adamw(lr=3e-3).step(loss * workers)
    outer = outer_step(layers, learning_rate=0.7, momentum=0.9)
    inner_step, outer_routine = ctx.compile(inner, name="inner"), ctx.compile(outer, name="outer")
    ctx.init_params(loss)
    losses: list[Array] = []
    for _ in range(rounds):
        losses.append(inner_step.run_loop(epochs=epochs, record=[loss])[loss])
        outer_routine()
    parameters = {p.label: ctx[p] for layer in layers for p in layer.shared}
    steps = rounds * epochs * len(xs)
    planned = oc.Mesh({"workers": 1}) if mesh is None else mesh
    inner_sent, outer_sent = (oc.plan(code, planned).engine_sent for code in (inner, outer))
    test = layers[1].agreed(oc.relu(layers[0].agreed(oc.data(tests, label="tests"))))
    return Trained(
        np.concatenate(losses),
        parameters,
        ctx[test],
        steps * inner_sent + rounds * outer_sent,
        # Which sums as many numbers after each step as the outer step does after a round.
        steps * (inner_sent + outer_sent),
    )


def main(args: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=5, help="of a worker in a round")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--engine", choices=["threads", "mpi"], default="threads")
    options = parser.parse_args(args)

    images, shown = digits(options.seed)
    used = 1500
    mesh = oc.Mesh({"workers": options.ranks}, engine=options.engine)
    trained = diloco(
        mesh,
        images[:used],
        shown[:used],
        images[used:],
        workers=options.workers,
        rounds=options.rounds,
        epochs=options.epochs,
    )
    result = float((trained.logits.argmax(axis=-1) == shown[used:]).mean())
    print(f"mean loss of the last steps {trained.losses[-10:].mean():.4f}")
    print(f"accuracy on {len(images) - used} images not trained on: {result:.4f}")
    print(
        f"a rank sends {trained.sent} bytes in {options.rounds} rounds; "
        f"data parallel, it sends {trained.sent_by_data_parallel}"
    )
    return result


if __name__ == "__main__":
    main()
