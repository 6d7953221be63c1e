"""The training loop: what it calls and tells, and that it goes on where it was."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
Y = 2 * X[:, :2]


class Training:
    """A function that trains, in a context and with parameters of its own."""

    def __init__(self, lr: Any = 1e-2) -> None:
        self.ctx = oc.Context.cpu(threads=1)
        model, optimizer = nn.linear(out_dim=2), train.adamw(lr)

        def step(x: oc.Tensor, y: oc.Tensor) -> dict[str, oc.Tensor]:
            loss = nn.mse(model(x), y)
            optimizer.step(loss)
            return {"loss": loss}

        self.step = oc.function(step, ctx=self.ctx)
        self.evaluate: Any = oc.function(lambda x, y: {"error": nn.mse(model(x), y)}, ctx=self.ctx)

    def fit(self, epochs: int, **how: Any) -> list[dict[str, float]]:
        batches = train.batches((X, Y), size=10, shuffle=3)
        evaluate = lambda: self.evaluate(X, Y)  # noqa: E731
        return train.fit(self.step, batches, epochs=epochs, evaluate=evaluate, **how)

    def bits(self) -> dict[str, bytes]:
        return {name: self.ctx[entry].tobytes() for name, entry in oc.state(self.step).items()}


def test_metrics_are_means_over_an_epoch_and_what_evaluation_gives():
    seen: list[tuple[int, int]] = []

    def step(x: Any, y: Any) -> dict[str, float]:
        seen.append((len(x), len(y)))
        return {"loss": len(seen), "rows": len(x)}

    history = train.fit(step, train.batches((X, Y), size=15), epochs=2, evaluate=lambda: np.float32(0.5))
    assert seen == [(15, 15), (5, 5)] * 2
    assert history == [{"loss": 0.5, "rows": 10.0}] * 2


def test_a_metric_that_some_steps_give_is_the_mean_of_these():
    given = iter([{"loss": 1.0, "right": 4.0}, {"loss": 3.0}, {"loss": 5.0, "right": 2.0}])
    assert train.fit(lambda x: next(given), [(X,)] * 3, epochs=1) == [{"loss": 3.0, "right": 3.0}]


def test_a_generator_is_one_epoch():
    with pytest.raises(oc.ArgumentError, match="used up after one epoch"):
        train.fit(lambda x: 0.0, (X for _ in range(3)), epochs=2)


def test_forms_of_batches():
    found: list[Any] = []
    train.fit(lambda x: found.append(x.shape), train.batches(X, size=20), epochs=1)
    train.fit(
        lambda a, b: found.append((a.shape, b.shape)), train.batches({"b": Y, "a": X}, size=20), epochs=1
    )
    train.fit(lambda x, y: found.append((x.shape, y.shape)), [(X, Y)], epochs=1)
    assert found == [(20, 3), ((20, 3), (20, 2)), ((20, 3), (20, 2))]


def test_a_dictionary_is_the_argument_of_a_function_of_one(tmp_path: Path):
    """Of which no key is the name; else arguments are called by the keys."""
    batches = train.batches({"x": X, "y": Y}, size=10)
    model, optimizer = nn.linear(out_dim=2), train.sgd(0.1, momentum=0.9)

    @oc.function
    def step(batch: dict[str, oc.Tensor]) -> oc.Tensor:
        loss = nn.mse(model(batch["x"]), batch["y"])
        optimizer.step(loss)
        return loss

    def run(epochs: int) -> list[dict[str, float]]:
        return train.fit(step, batches, epochs=epochs, checkpoints=train.Checkpoints(tmp_path))

    first, (last,) = run(2), run(3)
    assert last["loss"] < first[-1]["loss"] < first[0]["loss"]
    with pytest.warns(
        UserWarning, match=r"nothing was left to train, .* has trained for 3 epochs: more epochs"
    ):
        assert run(3) == []
    found: list[Any] = []
    train.fit(lambda x: found.append(x.shape), train.batches({"x": X}), epochs=1)
    train.fit(lambda **arrays: found.append(sorted(arrays)), batches, epochs=4)
    assert found == [(20, 3), ["x", "y"], ["x", "y"]]


@pytest.mark.parametrize("parts", [(1, 3), pytest.param((1, 2, 5), marks=pytest.mark.exhaustive)])
def test_training_in_parts_is_training_at_once(parts: tuple[int, ...], tmp_path: Path):
    """Bits, metrics and tables; with a learning rate that falls by evaluation, and a count of bad ones."""

    def run(name: str, epochs: int) -> Training:
        training = Training(train.plateau(0.3, patience=0, metric="error", factor=0.5))
        training.fit(
            epochs,
            checkpoints=train.Checkpoints(tmp_path / name, keep=1),
            log=[train.csv(tmp_path / f"{name}.csv")],
            stop=train.early_stopping(patience=4, metric="error"),
            metric="error",
        )
        return training

    whole = run("whole", parts[-1])
    last = [run("parts", epochs) for epochs in parts][-1]
    assert last.bits() == whole.bits()
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert len((tmp_path / "whole.csv").read_text().splitlines()) == parts[-1] + 1
    ends = [train.Checkpoints(tmp_path / name).all for name in ("parts", "whole")]
    assert [(c.step, c.metric) for c in ends[0]] == [(c.step, c.metric) for c in ends[1]]


def test_a_table_is_that_of_the_checkpoint(tmp_path: Path):
    """Epochs that were told, but whose checkpoint is lost, are told anew."""
    log = train.csv(tmp_path / "log.csv")
    log.begin(0, 3)
    for epoch in (1, 2, 3):
        log.epoch(epoch, 10 * epoch, {"loss": 1 / epoch})
    log.begin(20, 3)
    log.epoch(3, 30, {"loss": 0.25, "error": 1.0})
    assert (tmp_path / "log.csv").read_text().splitlines() == [
        "epoch,step,loss,error",
        "1,10,1.0,",
        "2,20,0.5,",
        "3,30,0.25,1.0",
    ]


def test_metrics_with_the_names_of_a_table_are_beside_these(tmp_path: Path):
    log = train.csv(tmp_path / "log.csv")
    log.begin(0, 2)
    log.epoch(1, 10, {"loss": 1.0, "step": 5.5, "epoch": 0.5})
    log.begin(10, 2)
    log.epoch(2, 20, {"loss": 2.0, "step": 15.5, "epoch": 1.5})
    assert (tmp_path / "log.csv").read_text().splitlines() == [
        "epoch,step,loss,metric_step,metric_epoch",
        "1,10,1.0,5.5,0.5",
        "2,20,2.0,15.5,1.5",
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]


def test_early_stopping():
    values = iter([3.0, 2.0, 2.5, 1.95, 2.0, 1.8])
    stop = train.early_stopping(patience=2, min_delta=0.1)
    history = train.fit(lambda x: 0.0, train.batches(X), epochs=9, evaluate=lambda: next(values), stop=stop)
    assert [found["loss"] for found in history] == [3.0, 2.0, 2.5, 1.95]
    assert stop.is_over
    highest = train.early_stopping(patience=1, mode="max")
    for value in (1.0, 2.0):
        highest.update(value)
    assert not highest.is_over
    highest.update(2.0)
    assert highest.is_over
    wrong: Any = 3
    with pytest.raises(oc.ArgumentError, match="a metric is named, as 'loss', found 3"):
        train.early_stopping(metric=wrong)


def test_early_stopping_watches_the_metric_of_fit(tmp_path: Path):
    """As its checkpoints order it, unless it says otherwise."""

    def epochs(stop: train.EarlyStopping) -> int:
        values, w = iter([1.0, 2.0, 3.0, 2.0]), oc.node("w", output=[], init=0.0, kind="moment")
        keep = train.Checkpoints(tmp_path / str(stop.mode), best="max")
        return len(
            train.fit(
                lambda x: 0.0,
                train.batches(X),
                epochs=4,
                evaluate=lambda: {"accuracy": next(values)},
                checkpoints=keep,
                metric="accuracy",
                stop=stop,
                what=w,
            )
        )

    assert epochs(train.early_stopping(patience=1)) == 4
    assert epochs(train.early_stopping(patience=1, mode="min")) == 2


def test_learning_rates_are_told_what_evaluation_gives():
    rate = train.plateau(0.1, patience=0, metric="error", factor=0.5)
    training = Training(rate)
    training.evaluate = lambda x, y: {"error": 1.0}
    training.fit(3)
    assert float(training.ctx[rate.rate]) == pytest.approx(0.025)


def test_a_routine_with_batches_in_its_data(tmp_path: Path):
    def run(folder: str, epochs: int) -> bytes:
        x, ctx = oc.data(np.zeros((10, 3), np.float32), label="x"), oc.Context.cpu(threads=1)
        loss = (nn.linear(out_dim=2)(x) ** 2).einsum("...|... => 0")
        routine = ctx.compile(train.sgd(0.01, momentum=0.9).step(loss))
        ctx.init_params(loss)

        def step(batch: Any) -> float:
            ctx[x] = batch
            routine()
            return float(ctx[loss])

        keep = train.Checkpoints(tmp_path / folder)
        train.fit(
            step, train.batches(X, size=10, shuffle=1), epochs=epochs, checkpoints=keep, ctx=ctx, what=routine
        )
        return b"".join(ctx[entry].tobytes() for entry in oc.state(routine).values())

    assert run("whole", 4) == [run("parts", epochs) for epochs in (1, 3, 4)][-1]


def test_progress_tells_of_each_epoch(capsys: pytest.CaptureFixture[str]):
    train.fit(lambda x: 0.5, train.batches(X), epochs=2, log=[train.progress()])
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("epoch")] == [
        "epoch 1/2  step 1  loss 0.5",
        "epoch 2/2  step 2  loss 0.5",
    ]


def test_tensorboard_gets_scalars(tmp_path: Path):
    pytest.importorskip("tensorboardX")
    train.fit(lambda x: 0.5, train.batches(X), epochs=2, log=[train.tensorboard(tmp_path / "board")])
    (file,) = (tmp_path / "board").iterdir()
    assert b"step/loss" in file.read_bytes()
    assert b"epoch/loss" in file.read_bytes()


@pytest.mark.parametrize(("make", "package"), [(train.progress, "rich"), (train.tensorboard, "tensorboardX")])
def test_a_missing_package_is_named(make: Any, package: str, monkeypatch: pytest.MonkeyPatch):
    for name in (package, f"{package}.console"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(oc.OcannlError, match=rf"needs the package {package}: pip install 'ocannl\[log\]'"):
        make() if package == "rich" else make("folder")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"stop": train.early_stopping(metric="error")}, "there is no metric `error`; there are loss"),
        ({"checkpoints": train.Checkpoints("nowhere")}, r"say what= is to be saved"),
        (
            {"evaluate": lambda: {"error": np.zeros(2)}},
            r"metric `error` is one number, found an array of shape",
        ),
        ({"evaluate": lambda: "good"}, "metric `loss` is one number, found 'good'"),
        ({"log": [print]}, r"`log` of fit is of type Sequence\[Log\], found \[<built-in function print>\]"),
        ({"epochs": 1.5}, "the number of epochs is an integer"),
    ],
)
def test_errors(how: dict[str, Any], message: str):
    wrong: dict[str, Any] = {"epochs": 1, **how}
    with pytest.raises(oc.ArgumentError, match=message):
        train.fit(lambda x: 0.0, train.batches(X), **wrong)
    with pytest.raises(oc.ArgumentError, match="the patience is at least 1"):
        train.early_stopping(patience=0)
    with pytest.raises(oc.ArgumentError, match="min_delta is a number, found '1'"):
        train.early_stopping(min_delta="1")  # pyright: ignore[reportArgumentType]
    with pytest.raises(oc.ArgumentError, match="mode is 'min' or 'max'"):
        train.early_stopping(mode="least")  # pyright: ignore[reportArgumentType]


def test_a_block_of_ones_own_may_be_a_step():
    @oc.configurable
    def trainer(*, lr: float) -> oc.Function:
        model, optimizer = nn.linear(out_dim=2), train.sgd(lr)

        @oc.function
        def step(x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
            loss = nn.mse(model(x), y)
            optimizer.step(loss)
            return loss

        return step

    first, last = train.fit(trainer(lr=0.1), train.batches((X, Y), size=10), epochs=2)
    assert last["loss"] < first["loss"]
