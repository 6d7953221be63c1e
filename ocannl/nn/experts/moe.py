"""Mixtures of experts (Shazeer et al., 2017; Lepikhin et al., 2021; Fedus et al., 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import ocannl as oc
from ocannl.nn.experts.expert_buffers import Buffers, Capacity, without_drops
from ocannl.nn.experts.routing import route, tokens_of
from ocannl.nn.layer import Init, Layer
from ocannl.nn.options import check_positive
from ocannl.program.arguments.checks import integer
from ocannl.program.meshes.sharding import is_split


class MixtureOfExperts(Protocol):
    """A function of tokens; with `balance` it gives the load-balancing loss beside its result."""

    def __call__(self, x: oc.Tensor, *, balance: bool = False) -> Any: ...


@oc.configurable
def moe(
    *,
    num_experts: int,
    d_ff: int,
    top_k: int = 2,
    capacity_factor: float | None = None,
    groups: int = 1,
    in_dim: oc.RowSizes | None = None,
    out_dim: oc.RowSizes | None = None,
    d_act: int | None = None,
    normalize: bool | None = None,
    activation: Layer = oc.relu,
    bias: bool = False,
    shard: Mapping[str, str] | None = None,
    init: Init = None,
    label: str = "moe",
) -> MixtureOfExperts:
    """A sum of what `top_k` of `num_experts` feed-forward blocks through `d_ff` hidden features give to each
    token, by a router's probabilities: batch, tokens | in -> batch, tokens | out. The rows `in_dim` and
    `out_dim` are inferred if they are not given, and so is how many features `activation` makes of `d_ff`,
    `d_act`.

    Parameters: `label.router`: in -> experts, `label.w_in`: experts | in -> d_ff and `label.w_out`: experts |
    d_act -> out; with `bias`, `b_in` and `b_out`. The probabilities are a softmax
    over all experts; those of a token's experts are scaled to sum to 1 if `normalize`, by default unless
    `top_k` is 1.

    With a `capacity_factor`, an expert takes that many times the tokens of each sequence that it would have
    with an equal share. All first choices stand before all second ones, in the order of tokens, and choices
    that find no place add nothing. Without it nothing is dropped. The tokens of a sequence may be `groups`
    behind each other, each with a capacity of its own.

    With `balance=True` the result is a pair with the load-balancing loss of Fedus et al. (2022), one number,
    which is 1 where all experts are chosen equally often. `shard={"experts": "data"}` divides the experts
    over an axis of a mesh. `init` is the initial value of all weights.

    Raises `ArgumentError` for settings out of range, and for tokens that are no groups of one size;
    `ShapeError` for tokens whose number is not known.
    """
    experts = integer(num_experts, "num_experts", 1)
    if integer(top_k, "top_k", 1) > experts:
        raise oc.ArgumentError(f"a token has at most {experts} experts, found top_k={top_k}")
    if capacity_factor is not None:
        check_positive(capacity_factor, "capacity_factor")
    integer(d_ff, "d_ff", 1)
    integer(groups, "groups", 1)
    mesh = _mesh_of(shard)
    place: oc.Shard | None = None if mesh is None else {"batch": mesh}
    with oc.scope(label):
        router = oc.param("router", init, input=in_dim, output=experts)
        w_in = oc.param("w_in", init, batch=experts, input=in_dim, output=d_ff, shard=place)
        w_out = oc.param("w_out", init, batch=experts, input=d_act, output=out_dim, shard=place)
        b_in = oc.param("b_in", 0.0, batch=experts, input=[], output=d_ff, shard=place) if bias else None
        b_out = oc.param("b_out", 0.0, batch=experts, input=[], output=out_dim, shard=place) if bias else None
    scaled = top_k > 1 if normalize is None else normalize

    def apply(x: oc.Tensor, *, balance: bool = False) -> Any:
        x = oc.as_tensor(x)
        grouped = x if groups == 1 else _grouped(x, groups)
        routing = route(grouped, router, experts, top_k, normalize=scaled)
        buffers: Buffers = (
            without_drops(routing, mesh, is_divided=is_split(w_in))
            if capacity_factor is None
            else Capacity.of(routing, capacity_factor, mesh)
        )
        hidden = activation(buffers.applied(w_in, b_in, buffers.dispatched(grouped)))
        found = buffers.combined(buffers.applied(w_out, b_out, hidden))
        y = oc.einsum("... | k; ... | k, ..m.. => ... | ..m..", routing.gates, found).named(label)
        if groups != 1:
            y = oc.einsum("..., g, s | ..m.. => ..., g&s | ..m..", y)
        return (y, routing.balance()) if balance else y

    return apply


def _mesh_of(shard: Mapping[str, str] | None) -> str | None:
    """The mesh axis of the experts. Raises `ArgumentError` for anything else."""
    if shard is None:
        return None
    if not isinstance(shard, Mapping) or [*shard] != ["experts"]:
        form = 'shard={"experts": "data"}'
        raise oc.ArgumentError(f"experts are divided over an axis of a mesh by {form}, found {shard!r}")
    return shard["experts"]


def _grouped(x: oc.Tensor, groups: int) -> oc.Tensor:
    """The tokens of the last batch axis in groups of one size, which follow each other."""
    tokens = tokens_of(x)
    if tokens % groups:
        raise oc.ArgumentError(f"{tokens} tokens are no {groups} groups of one size")
    return oc.einsum("..., g&s | ..m.. => ..., g, s | ..m..", x, g=groups)
