"""Tokens brought to their experts in arrays of fixed sizes, and what these give brought back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import ocannl as oc
from ocannl.nn.experts.routing import Routing

# How many rows take as long as to read an expert's weights, and to copy them for a block; measured.
READING, COPYING = 30, 50


class Buffers(Protocol):
    """The places of tokens in front of experts: axes `...` of what they are applied to."""

    def dispatched(self, x: oc.Tensor) -> oc.Tensor:
        """The tokens in their places: groups, tokens | in -> places | in."""
        ...

    def applied(self, w: oc.Tensor, b: oc.Tensor | None, inputs: oc.Tensor) -> oc.Tensor:
        """In each place the linear layer of its expert: `w` is experts | in -> out, `b` experts | out."""
        ...

    def combined(self, results: oc.Tensor) -> oc.Tensor:
        """The results of its experts for each token, 0 where it was dropped: groups, tokens | k, out."""
        ...


def layer_of_each(w: oc.Tensor, b: oc.Tensor | None, inputs: oc.Tensor) -> oc.Tensor:
    """Linear layers, each on inputs of its own: experts, places | in -> experts, places | out."""
    result = oc.einsum("e | ..m.. -> ..h..; e, ... | ..m.. => e, ... | ..h..", w, inputs)
    return result if b is None else oc.outer_sum("e, ... | ..h..; e | ..h.. => e, ... | ..h..", result, b)


@dataclass(frozen=True)
class Capacity:
    """As many places for each expert in each group, experts, groups, capacity: tokens that find none are
    dropped (Lepikhin et al., 2021). Experts may be divided over an axis of a mesh.
    """

    routing: Routing
    place: oc.Tensor
    capacity: int
    mesh: str | None

    @staticmethod
    def of(routing: Routing, factor: float, mesh: str | None) -> Capacity:
        """With `factor` times the places that there have to be if all experts have the same share; no more
        than there are tokens.
        """
        # Less a little, so that the rounding of the factor makes no place more.
        needed = math.ceil(factor * routing.top_k * routing.tokens / routing.experts - 1e-9)
        return Capacity(routing, routing.earlier(), max(1, min(needed, routing.tokens)), mesh)

    def dispatched(self, x: oc.Tensor) -> oc.Tensor:
        found = oc.scatter(
            "..., s | ..m..; ..., s | k; ..., s | k => e, ..., c | ..m..",
            x,
            self.routing.chosen,
            self.place,
            at=("e", "c"),
            out_of_range="drop",
            e=self.routing.experts,
            c=self.capacity,
        )
        return divided(found.named("dispatched"), self.mesh)

    def applied(self, w: oc.Tensor, b: oc.Tensor | None, inputs: oc.Tensor) -> oc.Tensor:
        return layer_of_each(w, b, inputs)

    def combined(self, results: oc.Tensor) -> oc.Tensor:
        return oc.gather(
            "e, ..., c | ..m..; ..., s | k; ..., s | k => ..., s | k, ..m..",
            divided(results.named("expert_results"), self.mesh),
            self.routing.chosen,
            self.place,
            at=("e", "c"),
            out_of_range="drop",
        )


def divided(x: oc.Tensor, mesh: str | None) -> oc.Tensor:
    """Experts, places | features, with experts divided over an axis of a mesh, if there is one."""
    return x if mesh is None else oc.shard(x, {("batch", 0): mesh})


@dataclass(frozen=True)
class AllTokens:
    """A place for each token in front of each expert: experts, groups, tokens. No token is dropped."""

    routing: Routing
    mesh: str | None

    def dispatched(self, x: oc.Tensor) -> oc.Tensor:
        found = oc.einsum("... | ..m.. => e, ... | ..m..", x, e=self.routing.experts)
        return divided(found.named("dispatched"), self.mesh)

    def applied(self, w: oc.Tensor, b: oc.Tensor | None, inputs: oc.Tensor) -> oc.Tensor:
        return layer_of_each(w, b, inputs)

    def combined(self, results: oc.Tensor) -> oc.Tensor:
        results = divided(results.named("expert_results"), self.mesh)
        return oc.gather("e, ... | ..m..; ... | k => ... | k, ..m..", results, self.routing.chosen, at="e")


@dataclass(frozen=True)
class Blocks:
    """Blocks of rows, groups, blocks, rows: each block is of one expert, which has as many as it needs. No
    token is dropped (Gale et al., "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts", 2023).

    Attributes:
        block: the block of each choice: groups, tokens | k.
        row: its row there.
        owner: the expert of each block, out of range where that is empty: groups, blocks | .
        count: how many blocks there are: enough for all choices, however they are shared.
        rows: how many rows a block has.
    """

    block: oc.Tensor
    row: oc.Tensor
    owner: oc.Tensor
    count: int
    rows: int

    @staticmethod
    def of(routing: Routing) -> Blocks:
        rows, count = block_sizes(routing)
        place, needed = routing.earlier(), (routing.counts() + (rows - 1)) // rows
        ends = oc.cumsum(needed)
        begins = oc.einsum("... | e; ..., s, k | e => ..., s | k", ends - needed, routing.hot())
        is_behind = oc.outer_sum("... | e; j => ..., j | e", -ends, oc.range(count)) >= 0
        owner = oc.einsum("... | e => ... |", is_behind)
        return Blocks(begins + place // rows, place % rows, owner, count, rows)

    def dispatched(self, x: oc.Tensor) -> oc.Tensor:
        return oc.scatter(
            "..., s | ..m..; ..., s | k; ..., s | k => ..., j, r | ..m..",
            x,
            self.block,
            self.row,
            at=("j", "r"),
            out_of_range="drop",
            j=self.count,
            r=self.rows,
        ).named("dispatched")

    def applied(self, w: oc.Tensor, b: oc.Tensor | None, inputs: oc.Tensor) -> oc.Tensor:
        spec = "e | ..m.. -> ..h..; ... | => ... | ..m.. -> ..h.."
        own = oc.gather(spec, w, self.owner, at="e", out_of_range="drop")
        result = oc.einsum("... | ..m.. -> ..h..; ..., r | ..m.. => ..., r | ..h..", own, inputs)
        if b is None:
            return result
        biases = oc.gather("e | ..h..; ... | => ... | ..h..", b, self.owner, at="e", out_of_range="drop")
        return oc.outer_sum("..., r | ..h..; ... | ..h.. => ..., r | ..h..", result, biases)

    def combined(self, results: oc.Tensor) -> oc.Tensor:
        return oc.gather(
            "..., j, r | ..m..; ..., s | k; ..., s | k => ..., s | k, ..m..",
            results.named("expert_results"),
            self.block,
            self.row,
            at=("j", "r"),
            out_of_range="drop",
        )


def block_sizes(routing: Routing) -> tuple[int, int]:
    """The rows of a block, those of an equal share, and how many blocks there have to be: not more than two
    for each expert, because of each that is used weights are copied.
    """
    choices = routing.top_k * routing.tokens
    rows = max(1, choices // routing.experts)
    return rows, (choices + routing.experts * (rows - 1)) // rows


def without_drops(routing: Routing, mesh: str | None, *, is_divided: bool) -> Buffers:
    """Places for all tokens: in blocks where that takes less time, and experts are not divided, because any
    rank would need the weights of any expert.
    """
    rows, count = block_sizes(routing)
    time_of_all = routing.experts * (routing.tokens + READING)
    if not is_divided and count * (rows + COPYING) < time_of_all:
        return Blocks.of(routing)
    return AllTokens(routing, mesh)
