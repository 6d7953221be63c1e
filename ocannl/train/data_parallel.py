"""Data parallel training in several contexts of one process, by merge buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike

import ocannl as oc
from ocannl.program.arguments.checks import integer
from ocannl.program.leaves import contents_of
from ocannl.runtime.host.threads import default_threads
from ocannl.train.gradients import grad_update
from ocannl.train.optimizer import Optimizer
from ocannl.train.recipes import trained_params
from ocannl.train.shards import contents, shard_along

Reduction: TypeAlias = Literal["mean", "sum"]
LossOf: TypeAlias = Callable[[oc.Tensor, oc.Tensor], oc.Tensor]
Update: TypeAlias = Optimizer | Callable[[oc.Tensor], oc.Code]


def data_parallel(
    loss_of: LossOf,
    inputs: oc.Tensor | ArrayLike,
    targets: oc.Tensor | ArrayLike,
    *,
    contexts: int | Sequence[oc.Context],
    update: Update,
    reduction: Reduction = "mean",
    axis: int = 0,
    seed: int = 1,
) -> DataParallel:
    """Training of one model in several contexts: each has a part of the batch, along an axis in the order of
    memory, and all have the same parameters. `loss_of(x, y)` is the loss of a part; it is called once for
    each context, with parameters that are made before. Random numbers of the parts differ.

    `contexts` may be a number: so many of the CPU, which share its threads. `update` is an optimizer, or a
    function such as `lambda loss: train.sgd_update(loss, learning_rate=0.1)`. It runs in the first context,
    on the mean or the sum of all gradients, and the others get the parameters from there. The sum is in the
    order of contexts, so that each run has the same bits.

    Raises `ArgumentError` for a batch that is not as many equal parts, and for losses of different
    parameters.
    """
    if reduction not in ("mean", "sum"):
        raise oc.ArgumentError(f"gradients are combined by 'mean' or 'sum', found {reduction!r}")
    if not callable(update) and not isinstance(update, Optimizer):
        raise oc.ArgumentError(
            "`update` of data_parallel is an optimizer, such as train.sgd(lr=0.1), or a function that gives "
            f"the code of an update, found {update!r}"
        )
    places = _contexts(contexts)
    shards = [_sharded(whole, len(places), axis, label) for whole, label in ((inputs, "x"), (targets, "y"))]
    losses = [_loss(loss_of, number, x, y) for number, (x, y) in enumerate(zip(*shards, strict=True))]
    params = [*trained_params(losses[0], "data_parallel").values()]
    for loss in losses[1:]:
        if {*trained_params(loss, "data_parallel").values()} != {*params}:
            raise oc.ArgumentError(
                "data_parallel trains one model, but `loss_of` makes new parameters each time: make them, "
                "or configure the blocks that have them, before"
            )
    return DataParallel(places, losses, params, shards, axis, reduction, update, seed)


def _contexts(contexts: int | Sequence[oc.Context]) -> list[oc.Context]:
    if isinstance(contexts, Sequence):
        if not contexts or len({*contexts}) != len(contexts):
            raise oc.ArgumentError("data_parallel trains in one context or several, each given once")
        return [*contexts]
    count = integer(contexts, "the number of contexts", least=1)
    return [oc.Context.cpu(max(1, default_threads() // count)) for _ in range(count)]


def _sharded(whole: oc.Tensor | ArrayLike, count: int, axis: int, label: str) -> list[oc.Tensor]:
    data = whole if isinstance(whole, oc.Tensor) else oc.data(whole, label=label)
    return shard_along(data, count, axis=axis)


def _loss(loss_of: LossOf, number: int, x: oc.Tensor, y: oc.Tensor) -> oc.Tensor:
    """The loss of one part; its random numbers have keys of their own."""
    if not number:
        return loss_of(x, y)
    with oc.scope(f"shard{number}"):
        return loss_of(x, y)


class DataParallel:
    """The training that `data_parallel` begins.

    Attributes:
        contexts: those that it trains in. The first one, `owner`, has the moments of the optimizer.
        losses: the losses of the parts.
        params: the parameters, which are equal in all contexts after each step.
    """

    def __init__(
        self,
        contexts: Sequence[oc.Context],
        losses: Sequence[oc.Tensor],
        params: Sequence[oc.Tensor],
        shards: Sequence[Sequence[oc.Tensor]],
        axis: int,
        reduction: Reduction,
        update: Update,
        seed: int,
    ) -> None:
        self.contexts, self.losses, self.params = contexts, losses, params
        self.owner = contexts[0]
        self._shards, self._axis, self._reduction = shards, axis, reduction
        self._total = oc.node("data_parallel_loss", output=[])
        summed = self._summed()
        self._sync = self.owner.compile(summed, "grad_sync")
        make = update.update if isinstance(update, Optimizer) else update
        self._update = self.owner.compile(make(losses[0]), "update")
        self._gradients = [
            ctx.compile(grad_update(loss), "gradients") for ctx, loss in zip(contexts, losses, strict=True)
        ]
        self._broadcasts = [ctx.compile(self._taken(), "take_params") for ctx in contexts[1:]]
        self._pool = ThreadPoolExecutor(len(contexts), "data_parallel")
        self.owner.init_params(losses[0], seed=seed)
        for ctx, loss in zip(contexts[1:], losses[1:], strict=True):
            ctx.init_params(loss, seed=seed)
        self._all(self._broadcasts)

    def _summed(self) -> oc.Code:
        """Code for the owner: the mean or sum of gradients and losses, in the order of contexts."""
        scale = 1 / len(self.contexts) if self._reduction == "mean" else 1.0
        with oc.code("sum of gradients") as summed:
            for p in self.params:
                others = [p.grad.merge(ctx) for ctx in self.contexts[1:]]
                p.grad[...] = sum(others, start=p.grad) * scale
            merged = zip(self.losses[1:], self.contexts[1:], strict=True)
            losses = [self.losses[0].value, *(loss.merge(ctx) for loss, ctx in merged)]
            self._total[...] = sum(losses[1:], start=losses[0]) * scale
        return summed

    def _taken(self) -> oc.Code:
        """Code for another context: the parameters of the owner."""
        return sum((oc.set(p, p.merge(self.owner)) for p in self.params), oc.Code())

    def _all(self, routines: Iterable[Callable[..., None]], **indices: int) -> None:
        """Runs routines at the same time. When all have ended, raises what the first that failed raised."""
        running = [self._pool.submit(routine, **indices) for routine in routines]
        wait(running)
        for run in running:
            run.result()

    def step(self, **indices: int) -> None:
        """One step: the gradients of all parts, their mean or sum, the update, and the new parameters for
        all contexts. Static indices are set by name, as in a call of a routine.
        """
        self.compute_gradients(**indices)
        self.grad_sync()
        self._update(**indices)
        self.share_params()

    def compute_gradients(self, **indices: int) -> None:
        """The loss and the gradients of each part, in its context."""
        self._all(self._gradients, **indices)

    def grad_sync(self) -> None:
        """Sets the gradients of the owner to the mean or sum of all, as `step` does."""
        self._sync()

    def share_params(self) -> None:
        """Gives all contexts the parameters of the owner: `step` does, and after `owner.load` it is to do."""
        self._all(self._broadcasts)

    def set_batch(self, inputs: ArrayLike, targets: ArrayLike) -> None:
        """Sets the next batch, which is divided as the first one. Raises `ShapeError`."""
        for whole, parts in zip((inputs, targets), self._shards, strict=True):
            divided = shard_along(oc.data(contents_of(whole, None)), len(parts), axis=self._axis)
            for ctx, part, new in zip(self.contexts, parts, divided, strict=True):
                ctx[part] = contents(new)

    @property
    def loss(self) -> float:
        """The loss of the whole batch in the last step: the mean or the sum of those of its parts."""
        return float(self.owner[self._total])

    def state_roots(self) -> list[Any]:
        """The state is that of the owner: the parameters, and what its part of a step keeps."""
        _, *indices = self._update.state_roots()
        codes = self._gradients[0].code + self._sync.code + self._update.code
        return [*self.params, codes, *indices]
