"""Handwritten digits: the 8x8 images that come with scikit-learn, a network with one hidden layer."""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from progress import progress
from sklearn.datasets import load_digits

import ocannl as oc
from ocannl import nn, train

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Model = Callable[[oc.Tensor], oc.Tensor]

BATCH_SIZE = 50
BATCHES = 30


def digits(seed: int) -> tuple[Floats, Ints]:
    """Images as rows of 64 numbers between 0 and 1, and the digits they show, in a random order."""
    images, shown = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    return (images[order] / 16).astype(np.float32), shown[order].astype(np.int64)


def cross_entropy(logits: oc.Tensor, target: oc.Tensor) -> oc.Tensor:
    """For each element of the batch; the target is a distribution over the output axis."""
    largest = oc.einmax("...|...d => ...|...0", logits)
    shifted = logits - oc.stop_gradient(largest)  # so that no exponential overflows
    log_total = oc.log(oc.exp(shifted).einsum("...|...d => ...|...0"))
    return log_total - (target * shifted).einsum("...|...d => ...|...0")


def accuracy(context: oc.Context, model: Model, images: Floats, shown: Ints) -> float:
    logits = model(oc.data(images, label="test_images"))
    train.forward_once(context, logits)
    return float((context[logits].argmax(axis=-1) == shown).mean())


def main(args: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--plain", action="store_true", help="no colours")
    options = parser.parse_args(args)

    images, shown = digits(options.seed)
    used = BATCHES * BATCH_SIZE
    batch_n = oc.index("batch_n", BATCHES)
    train_images = oc.data(images[:used].reshape(BATCHES, BATCH_SIZE, 64), label="images")
    one_hot = np.eye(10, dtype=np.float32)[shown[:used]]
    train_digits = oc.data(one_hot.reshape(BATCHES, BATCH_SIZE, 10), label="digits")

    model = nn.mlp(hid_dims=[64])
    losses = cross_entropy(model(train_images[batch_n]), train_digits[batch_n])
    loss = losses.einsum("...|... => 0") / BATCH_SIZE

    context = oc.Context.auto()
    update = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9)
    step = context.compile(update, name="digits_step")
    context.init_params(loss, seed=options.seed)
    with progress(options.epochs, options.plain) as advance:
        for _ in range(options.epochs):
            record = step.run_loop(epochs=1, record=[loss])
            advance(f"mean loss {np.mean(record[loss]):.4f}")

    result = accuracy(context, model, images[used:], shown[used:])
    print(f"accuracy on {len(images) - used} images not trained on: {result:.4f}")
    return result


if __name__ == "__main__":
    main()
