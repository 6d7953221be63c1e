"""Handwritten digits again, as images: LeNet-5 on the 8x8 images of `digits.py`.

The convolutions are padded, so that an image is 8x8, 4x4 after the first pool, and 2x2 after the second. The
network is trained on copies of the images too, shifted by one cell. These copies of an image vote on what it
shows.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from digits import Floats, Ints, Model, digits
from progress import progress

import ocannl as oc
from ocannl import nn, train

TRAINED_ON = 1500
BATCH_SIZE = 50
SHIFTS = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))


@dataclass
class Trained:
    """The mean loss of each epoch, and the accuracy on images that were not trained on."""

    epoch_losses: list[float]
    accuracy: float


def shifted(images: Floats, down: int, right: int) -> Floats:
    """The images moved by at most one cell, over an empty background."""
    framed = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return framed[:, 1 - down : 9 - down, 1 - right : 9 - right]


def training_batches(images: Floats, shown: Ints, seed: int) -> tuple[Floats, Ints]:
    """All shifts of the images in a random order: batches, batch, height, width, channels."""
    copies = np.concatenate([shifted(images, *shift) for shift in SHIFTS])
    order = np.random.default_rng(seed).permutation(len(copies))
    return (
        copies[order].reshape(-1, BATCH_SIZE, 8, 8, 1),
        np.tile(shown, len(SHIFTS))[order].reshape(-1, BATCH_SIZE),
    )


def accuracy(context: oc.Context, model: Model, images: Floats, shown: Ints) -> float:
    """The share of images that all shifts together recognize: their probabilities are added up."""
    copies = [oc.data(np.ascontiguousarray(shifted(images, *shift)), label="test_images") for shift in SHIFTS]
    probabilities = nn.softmax()(model(oc.stack(copies, axis="batch")))
    votes = oc.einsum("shift, image | digit => image | digit", probabilities)
    return float((context[votes].argmax(axis=-1) == shown).mean())


def train_lenet(seed: int, epochs: int, plain: bool = True) -> Trained:
    rows, shown = digits(seed)
    images = rows.reshape(-1, 8, 8, 1)
    batched_images, batched_digits = training_batches(images[:TRAINED_ON], shown[:TRAINED_ON], seed)
    batches = len(batched_images)
    batch_n, step_n = oc.index("batch_n", batches), oc.index("step_n")
    train_images = oc.data(batched_images, label="images")
    train_digits = oc.data(batched_digits, axes="bb", label="digits")

    model = nn.lenet(num_classes=10)
    loss = nn.cross_entropy(model(train_images[batch_n]), train_digits[batch_n])
    rate = 0.05 * (1 - step_n / (epochs * batches))

    context = oc.Context.auto()
    update = train.sgd_update(loss, learning_rate=rate, momentum=0.9, weight_decay=2e-3)
    step = context.compile(train.grad_update(loss) + update, name="lenet_step")
    context.init_params(loss, seed=seed)
    losses: list[float] = []
    with progress(epochs, plain) as advance:
        for _ in range(epochs):
            record = step.run_loop(epochs=1, advance=[step_n], record=[loss])
            losses.append(float(np.mean(record[loss])))
            advance(f"mean loss {losses[-1]:.4f}")
    return Trained(losses, accuracy(context, model, images[TRAINED_ON:], shown[TRAINED_ON:]))


def main(args: list[str] | None = None) -> Trained:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--plain", action="store_true", help="no colours")
    options = parser.parse_args(args)

    trained = train_lenet(options.seed, options.epochs, options.plain)
    print(f"accuracy on images not trained on: {trained.accuracy:.4f}")
    return trained


if __name__ == "__main__":
    main()
