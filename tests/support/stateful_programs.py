"""Programs that keep state of every kind, built anew by each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

import ocannl as oc
from ocannl import nn, train

Build: TypeAlias = Callable[[], tuple[oc.Tensor, Sequence[oc.Code]]]
"""Gives a loss, and the code of the routines that run in turn."""

TOTAL = "...|... => 0"
X = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


def data() -> oc.Tensor:
    return oc.data(X, label="x")


def momentum() -> tuple[oc.Tensor, Sequence[oc.Code]]:
    first, second = nn.linear(out_dim=4), nn.linear(out_dim=2)
    loss = (second(oc.tanh(first(data()))) ** 2).einsum(TOTAL)
    rate = 0.1 / (1 + oc.index("step_n"))
    update = train.sgd_update(loss, learning_rate=rate, momentum=0.9)
    return loss, [train.grad_update(loss) + update]


def running_statistics() -> tuple[oc.Tensor, Sequence[oc.Code]]:
    norm, layer = nn.batch_norm1d(), nn.linear(out_dim=2)
    loss = (layer(norm(data(), train_step=oc.index("step_n"))) ** 2).einsum(TOTAL)
    return loss, [train.grad_update(loss) + train.adam_update(loss)]


def gradients_that_add_up() -> tuple[oc.Tensor, Sequence[oc.Code]]:
    """Three runs of the first routine are one and a half of the second."""
    loss = (nn.linear(out_dim=2)(data()) ** 2).einsum(TOTAL)
    turn = oc.node("turn", output=[], init=0.0)
    with oc.code("every second time") as update:
        turn += 1
        now = oc.eq(turn % 2, 0)
        for p in oc.params(loss).values():
            p -= 0.01 * now * p.grad
            p.grad[...] = (1 - now) * p.grad
    return loss, [loss.forward + oc.set(loss.grad, 1) + loss.backprop, update]


def dropout_by_a_node() -> tuple[oc.Tensor, Sequence[oc.Code]]:
    step = oc.node("step", output=[], init=0.0)
    loss = (nn.linear(out_dim=2)(nn.dropout(0.5)(data(), train_step=step)) ** 2).einsum(TOTAL)
    with oc.code("count") as count:
        step += 1
    return loss, [train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1) + count]


def carried_value() -> tuple[oc.Tensor, Sequence[oc.Code]]:
    """A recurrence over runs, by the last value of an expression."""
    carried = oc.node("carried", like=data(), init=0.0)
    hidden = oc.tanh(nn.linear(out_dim=3)(data() + carried)).named("hidden")
    loss = (hidden**2).einsum(TOTAL)
    step = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    return loss, [oc.set(carried, hidden.value), hidden.forward + step]


def data_that_code_writes() -> tuple[oc.Tensor, Sequence[oc.Code]]:
    seen = oc.data(np.zeros(3, np.float32), label="seen")
    loss = (nn.linear(out_dim=2)(data() + seen) ** 2).einsum(TOTAL)
    with oc.code("see") as see:
        seen += oc.einsum("b | o => o", data())
    return loss, [train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.01) + see]


PROGRAMS: dict[str, Build] = {
    build.__name__: build
    for build in (
        momentum,
        running_statistics,
        gradients_that_add_up,
        dropout_by_a_node,
        carried_value,
        data_that_code_writes,
    )
}


class Running:
    """A program in a context of its own, with parameters by a seed."""

    def __init__(self, build: Build, seed: int = 1) -> None:
        self.context = oc.Context.cpu(threads=1)
        self.loss, code = build()
        self.routines = [self.context.compile(c) for c in code]
        self.context.init_params(self.loss, seed=seed)
        for tensor in [t for t in self.state().values() if isinstance(t, oc.Tensor) and ".value" in t.label]:
            self.context[tensor] = np.zeros(self.context.node_of(tensor).memory.shape)

    def state(self) -> oc.State:
        return oc.state(self.routines)

    def run(self, times: int) -> None:
        for _ in range(times):
            for routine in self.routines:
                routine()
                for index in routine.indices:
                    routine[index] += 1

    def bits(self) -> dict[str, bytes]:
        """The whole state."""
        return {name: self.context[entry].tobytes() for name, entry in self.state().items()}
