"""Small images in colour: a residual network on CIFAR-10, or on digits over photographs in its shape."""

import argparse
import tarfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images

import ocannl as oc
from ocannl import nn, train

Bytes = NDArray[np.uint8]
Batch = tuple[Bytes, Bytes]
"""Images, and which of ten classes each of them shows."""

SIZE, MARGIN = 32, 4


def cifar10(file: Path) -> tuple[Batch, Batch]:
    """The training and test images in `cifar-10-binary.tar.gz`: records of a class and three planes."""
    parts: dict[bool, list[Bytes]] = {False: [], True: []}
    with tarfile.open(file) as archive:
        for member in sorted(archive.getnames()):
            if member.endswith(".bin") and (found := archive.extractfile(member)):
                records = np.frombuffer(found.read(), np.uint8).reshape(-1, 1 + 3 * SIZE * SIZE)
                parts["test" in Path(member).name].append(records)
    training, test = (np.concatenate(parts[is_test]) for is_test in (False, True))
    return unpacked(training), unpacked(test)


def unpacked(records: Bytes) -> Batch:
    planes = records[:, 1:].reshape(-1, 3, SIZE, SIZE)
    return np.ascontiguousarray(np.moveaxis(planes, 1, -1)), records[:, 0]


def digits_on_photographs(seed: int) -> tuple[Batch, Batch]:
    """The scanned digits of scikit-learn, each in a colour over a piece of one of its two photographs."""
    rng = np.random.default_rng(seed)
    scans, shown = load_digits(return_X_y=True)
    ink = np.kron(scans.reshape(-1, 8, 8), np.ones((SIZE // 8, SIZE // 8)))[..., None] / 16
    photographs: list[Bytes] = load_sample_images().images
    pieces = np.stack([piece(photographs[number % 2], rng) for number in range(len(ink))])
    colours = rng.integers(160, 256, (len(ink), 1, 1, 3))
    images = (ink * colours + (1 - ink) * pieces * 0.6).astype(np.uint8)
    order, classes = rng.permutation(len(ink)), shown.astype(np.uint8)
    training, test = order[:1500], order[1500:]
    return (images[training], classes[training]), (images[test], classes[test])


def piece(photograph: Bytes, rng: np.random.Generator) -> Bytes:
    row, column = (rng.integers(0, size - SIZE) for size in photograph.shape[:2])
    return photograph[row : row + SIZE, column : column + SIZE]


def augmented(batch: Batch, rng: np.random.Generator, mirror: bool) -> Batch:
    """Images moved by up to `MARGIN` cells, over an empty background, and half of them mirrored."""
    images, classes = batch
    framed = np.pad(images, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
    windows = sliding_window_view(framed, (SIZE, SIZE), axis=(1, 2))
    down, right = rng.integers(0, 2 * MARGIN + 1, (2, len(images)))
    moved = np.moveaxis(windows[np.arange(len(images)), down, right], 1, -1)
    turned = mirror & (rng.random((len(images), 1, 1, 1)) < 0.5)
    return np.where(turned, moved[:, :, ::-1], moved), classes


@oc.configurable
def residual_network(width: int, depth: int, classes: int = 10) -> nn.TrainingLayer:
    """batch, height, width | channels -> batch | classes, of bytes. Each block halves height and width."""
    stem = nn.conv_bn_relu(stride=2, out_channels=width, label="stem")
    blocks = [
        nn.resnet_block(stride=2, out_channels=2**n * width, label=f"block{n}") for n in range(1, depth + 1)
    ]
    head = nn.linear(out_dim=classes, label="head")

    def apply(x: oc.Tensor, train_step: oc.TensorLike | None = None) -> oc.Tensor:
        x = stem(x / 255.0, train_step)
        for block in blocks:
            x = block(x, train_step)
        return head(nn.global_avg_pool2d(x))

    return apply


@dataclass
class Trained:
    history: list[dict[str, float]]
    """The metrics of each epoch."""
    best: train.Checkpoint
    accuracy: float
    """That of the best checkpoint on the test images."""


def main(args: list[str] | None = None) -> Trained:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="cifar-10-binary.tar.gz; digits on photographs without")
    parser.add_argument("--runs", type=Path, default=Path("runs/cifar"), help="the folder of checkpoints")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=16, help="channels of the stem")
    parser.add_argument("--depth", type=int, default=2, help="residual blocks")
    parser.add_argument("--rate", type=float, default=0.01, help="the highest learning rate")
    parser.add_argument("--patience", type=int, default=5, help="epochs without a better accuracy")
    parser.add_argument("--images", type=int, help="as many images for training and testing only")
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args(args)

    training, test = cifar10(o.data) if o.data else digits_on_photographs(o.seed)
    training, test = ((images[: o.images], classes[: o.images]) for images, classes in (training, test))
    batches = train.batches(
        training, size=o.batch, shuffle=o.seed, augment=partial(augmented, mirror=o.data is not None)
    )
    oc.seed(o.seed)
    model = residual_network(o.width, o.depth)
    steps = o.epochs * len(batches)
    schedule = train.warmup_cosine(o.rate, warmup=min(len(batches), steps // 2), total=steps)
    optimizer = train.adamw(schedule, weight_decay=0.05)

    @oc.function
    def step(images, classes):
        scores = model(images, train_step=0)
        loss = nn.cross_entropy(scores, classes)
        optimizer.step(loss)
        return {"loss": loss, "accuracy": nn.accuracy(scores, classes)}

    @oc.function
    def right(images, classes):
        return oc.eq(model(images).argmax(-1), classes).sum()

    def evaluate() -> dict[str, float]:
        """Over all test images, of which the last batch has fewer."""
        found = sum(int(right(*batch)) for batch in train.batches(test, size=o.batch))
        return {"test_accuracy": found / len(test[0])}

    keep = train.Checkpoints(o.runs, best="max")
    history = train.fit(
        step,
        batches,
        epochs=o.epochs,
        evaluate=evaluate,
        checkpoints=keep,
        metric="test_accuracy",
        log=[train.progress(), train.csv(o.runs / "log.csv")],
        stop=train.early_stopping(o.patience, metric="test_accuracy", mode="max"),
    )
    best = keep.restore(step.context, model, "best", strict=False)
    accuracy = evaluate()["test_accuracy"]
    assert best is not None
    print(f"best after step {best.step}: {accuracy:.4f} of {len(test[0])} test images are recognized")
    return Trained(history, best, accuracy)


if __name__ == "__main__":
    main()
