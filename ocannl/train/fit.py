"""The training loop: epochs, evaluation, checkpoints and logs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

import ocannl as oc
from ocannl.execute.context import default_context
from ocannl.functions.function import Function
from ocannl.program.arguments.checks import integer
from ocannl.program.location import user_location, warn_at
from ocannl.program.memory.state import Held, Root, Stateful
from ocannl.program.types.dtypes import is_numeric
from ocannl.program.values import Kind
from ocannl.train.checkpoints import Checkpoints
from ocannl.train.data import Batches, batches
from ocannl.train.logs import Log
from ocannl.train.plateau import plateaus_in
from ocannl.train.stopping import EarlyStopping


class _Steps(Held):
    """The number of steps so far."""

    label = "fit.step"
    kind: Kind = "counter"

    def __init__(self) -> None:
        self.count = 0

    def read(self) -> NDArray[Any]:
        return np.array(self.count, np.int64)

    def write(self, array: ArrayLike) -> None:
        self.count = int(np.asarray(array))


def fit(
    step: Callable[..., Any],
    batches: Iterable[Any],
    *,
    epochs: int,
    evaluate: Callable[[], Any] | None = None,
    checkpoints: Checkpoints | None = None,
    log: Sequence[Log] = (),
    stop: EarlyStopping | None = None,
    metric: str = "loss",
    ctx: oc.Context | None = None,
    what: Root | None = None,
) -> list[dict[str, float]]:
    """Calls `step` with each batch of `epochs` epochs: `step(x, y)` for a tuple, by name for a dictionary, or
    with the dictionary if it is the only argument that `step` has. It returns a number, the loss, or numbers
    by name. After each epoch, `evaluate()` does; learning rates of
    `train.plateau` and `stop` are told what it gave, logs are told that and the means over the epoch, and a
    checkpoint is saved, with `metric` as its metric, which `stop` watches, too. A mean is of the steps that
    gave the metric. Returns the metrics of the epochs.

    Where `checkpoints` has any, training goes on from the latest, to the same bits as without interruption;
    there is a warning where that was its end.
    What is saved is the state of `step`, a function or routine, or of `what`, and the places in data.

    Raises `ArgumentError` for what is no step, as a block of `nn`, and what the step raises.
    """
    _check_step(step)
    loop = _Loop(
        step,
        batches if isinstance(batches, Batches) else _batches(batches),
        integer(epochs, "the number of epochs"),
        ctx or _context_of(step),
        evaluate,
        checkpoints,
        log,
        stop,
        metric,
        what,
    )
    return loop.run()


_batches = batches


def _check_step(step: object) -> None:
    """Raises `ArgumentError` for what is no step: a block of `nn`, or no function."""
    is_block = isinstance(step, oc.Block)
    if callable(step) and not (is_block and step.function.__module__.startswith("ocannl.nn.")):
        return
    found = step.title if is_block else type(step).__name__
    what = "a function that is given a batch, computes the loss, and calls optimizer.step(loss)"
    raise oc.ArgumentError(f"fit calls a step, {what}; found {found}: fit(step, batches, epochs=3)")


def _context_of(step: object) -> oc.Context:
    context = getattr(step, "context", None)
    return context if isinstance(context, oc.Context) else default_context()


@dataclass
class _Loop:
    """One call of `fit`."""

    step: Callable[..., Any]
    batches: Batches
    epochs: int
    ctx: oc.Context
    evaluate: Callable[[], Any] | None
    checkpoints: Checkpoints | None
    log: Sequence[Log]
    stop: EarlyStopping | None
    metric: str
    what: Root | None
    steps: _Steps = field(default_factory=_Steps)

    def run(self) -> list[dict[str, float]]:
        if self.stop is not None:
            self.stop.follow(self.metric, None if self.checkpoints is None else self.checkpoints.order)
        self.restore()
        history: list[dict[str, float]] = []
        for log in self.log:
            log.begin(self.steps.count, self.epochs)
        try:
            while not self.is_over:
                history.append(self.epoch())
        finally:
            for log in self.log:
                log.end()
        return history

    @property
    def is_over(self) -> bool:
        return self.batches.epoch >= self.epochs or (self.stop is not None and self.stop.is_over)

    def epoch(self) -> dict[str, float]:
        sums: dict[str, tuple[float, int]] = {}
        for batch in self.batches:
            args, named = _arguments(self.step, batch)
            metrics = metrics_of(self.step(*args, **named))
            self.steps.count += 1
            for name, value in metrics.items():
                total, count = sums.get(name, (0.0, 0))
                sums[name] = total + value, count + 1
            for log in self.log:
                log.step(self.steps.count, metrics)
        found = {name: total / count for name, (total, count) in sums.items()}
        if self.evaluate is not None:
            found |= metrics_of(self.evaluate())
        self.tell(found)
        for log in self.log:
            log.epoch(self.batches.epoch, self.steps.count, found)
        if self.checkpoints is not None:
            value = _named(found, self.metric)
            self.checkpoints.save(self.ctx, self.kept(), step=self.steps.count, metric=value)
        return found

    def tell(self, found: Mapping[str, float]) -> None:
        """Tells what depends on evaluation."""
        for plateau in self.plateaus():
            plateau.update(self.ctx, _named(found, plateau.metric))
        if self.stop is not None:
            self.stop.update(_named(found, self.stop.metric or self.metric))

    def root(self) -> Root:
        """The state that is asked for, or that of the step."""
        return self.step if self.what is None else self.what

    def plateaus(self) -> Sequence[Any]:
        return plateaus_in(oc.state(self.root()).values())

    def kept(self) -> list[Root]:
        more = [] if self.stop is None else [self.stop]
        return [self.root(), *self.plateaus(), self.batches, self.steps, *more]

    def restore(self) -> None:
        """Goes on from the latest checkpoint, if there is one."""
        if self.checkpoints is None:
            return
        if self.what is None and not isinstance(self.step, Stateful):
            raise oc.ArgumentError(
                "checkpoints are of the state of a function or routine; "
                f"for {self.step!r}, say what= is to be saved"
            )
        if self.checkpoints.latest is not None:
            if isinstance(self.step, Function):
                # A function that was never called has made no code, whose state is what was saved.
                args, named = _arguments(self.step, self.batches.first())
                self.step.lower(*args, **named)
            self.checkpoints.restore(self.ctx, self.kept())
            if self.is_over:
                before = f"{self.checkpoints.folder} has trained for {self.batches.epoch} epochs"
                has_stopped = self.stop is not None and self.stop.is_over
                more = "`stop` has ended it" if has_stopped else "more epochs go on"
                way = f"{more}, and without that folder training begins anew"
                warn_at(user_location(), f"nothing was left to train, {before}: {way}")


def _arguments(step: Callable[..., Any], batch: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments that a step takes from a batch, in order and by name."""
    if isinstance(batch, Mapping):
        arrays = cast(Mapping[str, Any], batch)
        return ((arrays,), {}) if _takes_one(step, arrays) else ((), arrays)
    return (cast(tuple[Any, ...], batch) if isinstance(batch, tuple) else (batch,)), {}


def _takes_one(step: Callable[..., Any], batch: Mapping[str, Any]) -> bool:
    """Whether a dictionary is the only argument of a function, which none of the keys names."""
    try:
        signature = inspect.signature(step)
        signature.bind(batch)
    except (TypeError, ValueError):  # It takes others; or it is not written in Python, and tells none.
        return False
    return len(signature.parameters) == 1 and not batch.keys() & signature.parameters.keys()


def metrics_of(result: Any) -> dict[str, float]:
    """The results of a step or an evaluation, as numbers by name."""
    if result is None:
        return {}
    if not isinstance(result, Mapping):
        result = {"loss": result}
    found: dict[str, float] = {}
    for name, value in cast(Mapping[Any, Any], result).items():
        array = np.asarray(value)
        if array.size != 1:
            raise oc.ArgumentError(f"metric `{name}` is one number, found an array of shape {array.shape}")
        if not is_numeric(array.dtype):
            raise oc.ArgumentError(f"metric `{name}` is one number, found {value!r:.60}")
        found[str(name)] = float(array.item())
    return found


def _named(found: Mapping[str, float], name: str) -> float:
    if name not in found:
        raise oc.ArgumentError(f"there is no metric `{name}`; there are {', '.join(found) or 'none'}")
    return found[name]
