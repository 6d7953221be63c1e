"""Recurrent layers: cells that are scanned over positions, in several layers and directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import ocannl as oc
from ocannl.nn.dropout import dropout
from ocannl.nn.layer import Layer
from ocannl.program.arguments.checks import integer
from ocannl.program.location import user_location, warn_at
from ocannl.program.tensor_functions.remembered import remembered

State: TypeAlias = tuple[oc.Tensor, ...]
"""The state of one layer in one direction; the first tensor of it is what the layer gives."""
States: TypeAlias = list[State]
"""Those of all layers and directions."""
Begin: TypeAlias = Sequence[Sequence[oc.TensorLike]]


class Recurrence(Protocol):
    """One layer in one direction: what it gives at all positions, and its last state."""

    def __call__(
        self, x: oc.Tensor, begin: Sequence[oc.TensorLike], real: oc.Tensor | None, *, reverse: bool
    ) -> tuple[oc.Tensor, State]: ...


class RecurrentLayer(Protocol):
    """A function of sequences: batch, position | in -> batch, position | out.

    `state` is what each layer and direction begins with, by default zeros: a list with a tuple for each,
    those of a layer together. With `states`, the result is the sequence and such a list of the last states.
    At positions from `lengths` (batch |) on, states stay as they are, and the result is 0. There is dropout
    between layers if there is a `train_step`.
    """

    def __call__(
        self,
        x: oc.Tensor,
        state: Begin | None = None,
        *,
        lengths: oc.Tensor | None = None,
        states: bool = False,
        train_step: oc.TensorLike | None = None,
    ) -> Any: ...


def scanned(
    step: Callable[[oc.Tensor, State], State],
    inputs: oc.Tensor,
    begin: Sequence[oc.TensorLike],
    real: oc.Tensor | None,
    reverse: bool,
) -> tuple[oc.Tensor, State]:
    """A cell at all positions of its inputs; where a position is not `real`, its state stays."""

    def cell(state: State, x: Any) -> tuple[State, oc.Tensor]:
        if real is None:
            state = step(x, state)
            return state, state[0]
        given, is_real = x
        new = tuple(oc.where(is_real, n, s) for n, s in zip(step(given, state), state, strict=True))
        return new, oc.where(is_real, new[0], 0.0)

    xs = inputs if real is None else (inputs, real)
    ys, last = oc.scan(cell, tuple(begin), xs, reverse=reverse)
    return ys, last


def recurrent(
    make: Callable[[str], Recurrence],
    size: int,
    depth: int,
    bidirectional: bool,
    dropout_rate: float,
    label: str,
) -> RecurrentLayer:
    """Layers of a recurrence in one or two directions; `make` makes one, whose parameters have a suffix, and
    whose state has `size` tensors. What two directions give is joined: first forward, then backward. What a
    layer gives to the next one is dropped at `dropout_rate`.
    """
    if integer(depth, "the number of layers", 1) == 1 and dropout_rate:
        warn_at(user_location(), "dropout of recurrent layers is between them, and there is one")
    suffixes = ["", "_reverse"] if bidirectional else [""]
    count = depth * len(suffixes)
    if count == 1:
        layer = make("")

        def all_layers(
            x: oc.Tensor, begins: Begin, real: oc.Tensor | None, train_step: oc.TensorLike | None
        ) -> tuple[oc.Tensor, States]:
            ys, last = layer(x, begins[0], real, reverse=False)
            return ys, [last]
    else:
        drop = dropout(dropout_rate)
        names = [f"l{k}{suffix}" for k in range(depth) for suffix in suffixes]
        layers = {name: make(f"_{name}") for name in names}

        def all_layers(
            x: oc.Tensor, begins: Begin, real: oc.Tensor | None, train_step: oc.TensorLike | None
        ) -> tuple[oc.Tensor, States]:
            return _stacked(layers, x, begins, real, lambda given: drop(given, train_step))

    def with_states(
        x: oc.Tensor, state: Begin | None, lengths: oc.Tensor | None, train_step: oc.TensorLike | None
    ) -> tuple[oc.Tensor, States]:
        _check_length(x)
        ys, last = all_layers(x, _begin(state, count, size), _real(lengths), train_step)
        return ys.named(label), last

    @remembered
    def without_states(x: oc.Tensor, lengths: oc.Tensor | None) -> oc.Tensor:
        return with_states(x, None, lengths, None)[0]

    def apply(
        x: oc.Tensor,
        state: Begin | None = None,
        *,
        lengths: oc.Tensor | None = None,
        states: bool = False,
        train_step: oc.TensorLike | None = None,
    ) -> Any:
        is_dropped = train_step is not None and dropout_rate > 0
        if state is None and not states and not is_dropped:
            return without_states(x, lengths)
        ys, last = with_states(x, state, lengths, train_step)
        return (ys, last) if states else ys

    return apply


def _stacked(
    layers: Mapping[str, Recurrence], x: oc.Tensor, begins: Begin, real: oc.Tensor | None, between: Layer
) -> tuple[oc.Tensor, States]:
    """The results of the last layer, and the last states."""
    found: States = []
    given: list[oc.Tensor] = []
    for (name, layer), begin in zip(layers.items(), begins, strict=True):
        reverse = name.endswith("_reverse")
        if found and not given:
            x = between(x)
        ys, last = layer(x, begin, real, reverse=reverse)
        found.append(last)
        given.append(ys)
        if reverse or f"{name}_reverse" not in layers:
            x = oc.concat("... | f; ... | b => ... | f^b", *given) if reverse else ys
            given = []
    return x, found


def _begin(state: Begin | None, count: int, size: int) -> Begin:
    if state is None:
        return [[0.0] * size] * count
    found = [len(one) for one in state]
    if found != [size] * count:
        raise oc.ArgumentError(f"a state is a list of {count} tuples of {size} tensors, found {found}")
    return state


def _real(lengths: oc.Tensor | None) -> oc.Tensor | None:
    """Which positions there are, along a further batch axis."""
    if lengths is None:
        return None
    return oc.outer_sum("... | ; t => ... t |", lengths, -1 - oc.range(oc.Dim("positions"))) >= 0


def _check_length(x: oc.Tensor) -> None:
    if x.shape.batch and x.shape.batch[-1] == 0:
        raise oc.ArgumentError(f"a recurrent layer has a state after each position, and {x} has none")
