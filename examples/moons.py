"""Half-moons: a network with two hidden layers learns to tell two interleaved arcs apart."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from progress import progress
from terminal_plot import CYAN, RED, two_classes

import ocannl as oc
from ocannl import train
from ocannl.train.charts import chart

Floats = NDArray[np.float32]

BATCH_SIZE = 10
BATCHES = 80


def half_moons(count: int, seed: int, noise_range: float = 0.1) -> tuple[Floats, Floats]:
    """`count` points, half of them on each arc, and their classes: 1 and -1."""
    angle = np.arange(count // 2) * np.pi / (count // 2)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    points = np.concatenate([upper, lower])
    classes = np.repeat([[1.0], [-1.0]], count // 2, axis=0)
    rng = np.random.default_rng(seed)
    points += rng.uniform(-noise_range, noise_range, points.shape)
    order = rng.permutation(count)  # batches are a random partition, the same in every epoch
    return points[order].astype(np.float32), classes[order].astype(np.float32)


@oc.block
def mlp(p, x):
    return p.w3 @ oc.relu(p.b2(output=16) + p.w2 @ oc.relu(p.b1(output=16) + p.w1 @ x))


@dataclass
class History:
    losses: Floats
    learning_rates: Floats
    epoch_losses: Floats


@dataclass
class Trained:
    """A trained classifier: `scores` is positive for points of class 1."""

    history: History
    context: oc.Context
    model: Callable[[oc.Tensor], oc.Tensor]

    def scores(self, points: Floats) -> Floats:
        result = self.model(oc.data(points, label="points"))
        train.forward_once(self.context, result)
        return self.context[result].reshape(-1)


def train_moons(points: Floats, classes: Floats, epochs: int, seed: int, plain: bool = True) -> Trained:
    steps = epochs * BATCHES
    batch_n, step_n = oc.index("batch_n", BATCHES), oc.index("step_n")
    moons_flat = oc.data(points.reshape(BATCHES, BATCH_SIZE, 2), label="moons_flat")
    moons_classes = oc.data(classes.reshape(BATCHES, BATCH_SIZE, 1), label="moons_classes")

    model = mlp()
    margin_loss = oc.relu(1 - moons_classes[batch_n] * model(moons_flat[batch_n]))
    loss = margin_loss.einsum("...|... => 0") / BATCH_SIZE
    learning_rate = 0.1 * (2 * steps - step_n) / steps

    context = oc.Context.auto()
    update = train.grad_update(loss) + train.sgd_update(loss, learning_rate=learning_rate, weight_decay=1e-4)
    step = context.compile(update, name="moons_step")
    context.init_params(loss, seed=seed)

    losses, rates = list[Floats](), list[Floats]()
    with progress(epochs, plain) as advance:
        for _ in range(epochs):
            record = step.run_loop(epochs=1, advance=[step_n], record=[loss, learning_rate])
            losses.append(np.ravel(record[loss]))
            rates.append(np.ravel(record[learning_rate]))
            advance(f"epoch loss {losses[-1].sum():.4f}")
    history = History(np.concatenate(losses), np.concatenate(rates), np.stack(losses).sum(axis=1))
    return Trained(history, context, model)


def log_losses(losses: Floats) -> Floats:
    """Of losses that may be 0."""
    return np.log(np.maximum(losses, 1e-6))


@dataclass
class Plane:
    """The rectangle around some points, and a grid over it whose first row is at the top."""

    low: Floats
    high: Floats

    @staticmethod
    def around(points: Floats) -> "Plane":
        return Plane(points.min(axis=0), points.max(axis=0))

    def grid(self, width: int, height: int) -> Floats:
        xs = np.linspace(self.low[0], self.high[0], width)
        ys = np.linspace(self.high[1], self.low[1], height)
        return np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2).astype(np.float32)

    def unit(self, points: Floats) -> Floats:
        return ((points - self.low) / (self.high - self.low)).astype(np.float32)


def show(trained: Trained, points: Floats, classes: Floats, colours: bool) -> None:
    """All plots, in the terminal."""
    history = trained.history
    plots = (
        ("Loss", history.losses, RED),
        ("Log-loss", log_losses(history.losses), RED),
        ("Learning rate", history.learning_rates, CYAN),
    )
    for title, values, colour in plots:
        print(chart(title, values, colour=colour if colours else None))
    plane, width, height = Plane.around(points), 72, 24
    positive = trained.scores(plane.grid(width, height)).reshape(height, width) > 0
    print(two_classes("Decision boundary", positive, plane.unit(points), classes[:, 0], colours))


def save(trained: Trained, points: Floats, classes: Floats, file: Path) -> None:
    """All plots, as one picture."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print(f"matplotlib is not installed: {file} was not written")
        return
    history = trained.history
    figure = Figure(figsize=(12, 9), layout="constrained")
    FigureCanvasAgg(figure)
    (loss, log_loss), (rate, boundary) = figure.subplots(2, 2)
    loss.plot(history.losses, ".", markersize=2, color="tab:red")
    log_loss.plot(log_losses(history.losses), ".", markersize=2, color="tab:red")
    rate.plot(history.learning_rates, color="tab:cyan")
    for axes, title in ((loss, "loss"), (log_loss, "log-loss"), (rate, "learning rate")):
        axes.set(title=title, xlabel="step")

    plane, width, height = Plane.around(points), 300, 300
    scores = trained.scores(plane.grid(width, height)).reshape(height, width)
    extent = (plane.low[0], plane.high[0], plane.low[1], plane.high[1])
    boundary.contourf(
        scores > 0, levels=[-0.5, 0.5, 1.5], extent=extent, origin="upper", cmap="RdBu_r", alpha=0.3
    )
    boundary.scatter(*points.T, c=classes[:, 0], s=8, cmap="RdBu_r")
    boundary.set(title="decision boundary")
    figure.savefig(file)
    print(f"plots written to {file}")


def main(args: list[str] | None = None) -> Trained:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--png", type=Path, default=Path("moons.png"), help="where to write the plots")
    parser.add_argument("--plain", action="store_true", help="no colours")
    options = parser.parse_args(args)

    points, classes = half_moons(BATCHES * BATCH_SIZE, options.seed)
    trained = train_moons(points, classes, options.epochs, options.seed, options.plain)
    show(trained, points, classes, colours=sys.stdout.isatty() and not options.plain)
    save(trained, points, classes, options.png)
    first, last = trained.history.epoch_losses[[0, -1]]
    print(f"epoch loss: {first:.4f} at first, {last:.4f} at last")
    return trained


if __name__ == "__main__":
    main()
