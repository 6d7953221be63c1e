"""Blocks whose weights are kept in integers of few bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, cast

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.nn.weights.product_weights import PRODUCTS, ProductWeights
from ocannl.nn.weights.quantized_weights import FORMATS, Weights
from ocannl.program.blocks.block_parts import changed


def quantized(
    block: oc.Block[..., Any],
    kind: str = "q8_0",
    *,
    only: str = "*",
    activations: str | None = None,
    ctx: oc.Context | None = None,
) -> oc.Block[..., Any]:
    """The block with weights kept in integers of few bits, which have no gradients: as they are now in a
    context, by default the default one. The block itself stays as it is. They are those of linear layers and
    embeddings, and what products of `nn.mlp`, attention, recurrent layers and `nn.selective_ssm` read.

    `kind` is "q8_0" or "q4_k", blocks of 32 or 256 inputs with scales as in GGUF, or "int8", a scale for each
    output. Products read the integers, and compute in f32. With `activations="int8"`, what is multiplied with
    them is rounded to integers of 8 bits, in 127 steps to the greatest of each block, or of all along the
    last input axis for "int8"; gradients pass by the rounding. `only` is a pattern of names of weights.
    Weights whose inputs are no multiple of a block stay. Raises `ArgumentError` for another kind of weights
    or activations, and where no weights are meant, `UninitializedError` for weights without values.
    """
    if not isinstance(block, oc.Block):
        raise oc.ArgumentError(f"weights are quantized of a block, found {type(block).__name__}")
    if kind not in FORMATS:
        raise oc.ArgumentError(f"weights are kept as {' or '.join(FORMATS)}, found {kind!r}")
    made, weights = with_weights(
        block, lambda name: kind if fnmatchcase(name, only) else None, is_rounded(activations)
    )
    if not weights:
        raise oc.ArgumentError(
            f"{block.title} has no weights called {only!r}, of products or embeddings with shapes, "
            f"that fit {kind}, blocks of {FORMATS[kind].block} inputs"
        )
    ctx = ctx or oc.default_context()
    for param, kept in weights.items():
        kept.set(ctx, ctx[param])
    return made


def is_rounded(activations: str | None) -> bool:
    """Whether activations are rounded. Raises `ArgumentError` for what they cannot be."""
    if activations not in (None, "int8"):
        raise oc.ArgumentError(f"activations are None, as they are, or 'int8', found {activations!r}")
    return activations is not None


def with_weights(
    block: oc.Block[..., Any], kind_of: Callable[[str], str | None], rounds: bool = False
) -> tuple[oc.Block[..., Any], Mapping[oc.Tensor, Weights]]:
    """The block with memory for quantized weights, and that memory by the parameters; `kind_of` the name of a
    parameter is how it is kept, None as it is.
    """
    change = _Change(kind_of, rounds, {param: name for name, param in block.params.items()})
    return change.block(block), {param: kept for param, kept in change.made.items() if kept is not None}


@oc.configurable
def quantized_linear(weights: Weights, b: oc.Tensor | None) -> Layer:
    """`w @ x + b` with quantized weights."""
    layout, w = weights.layout, weights.nodes
    return lambda x: layout.product(w, x) if b is None else layout.product(w, x) + b


@oc.configurable
def quantized_embedding(weights: Weights) -> Layer:
    """A quantized vector for each id."""
    layout, w = weights.layout, weights.nodes
    return lambda ids: layout.rows(w, ids)


@dataclass
class _Change:
    """Puts quantized layers in place of others."""

    kind_of: Callable[[str], str | None]
    rounds: bool
    names: Mapping[oc.Tensor, str]
    made: dict[oc.Tensor, Weights | None] = field(default_factory=dict[oc.Tensor, Any])
    """By the parameter: layers may share one."""

    def block(self, block: oc.Block[..., Any]) -> oc.Block[..., Any]:
        return self.layer(block) or self.inside(block)

    def inside(self, block: oc.Block[..., Any]) -> oc.Block[..., Any]:
        """A block with other parts."""
        if isinstance(block, ProductWeights):
            return block
        part = self.product if block.function.__module__ in PRODUCTS else self.part
        return oc.Block(changed(block.function, part), block.configuration, frozen=block.frozen)

    def part(self, part: Any) -> Any:
        if isinstance(part, oc.Tensor) or not callable(part):
            return part
        return self.block(cast("oc.Block[..., Any]", part) if isinstance(part, oc.Block) else oc.Block(part))

    def product(self, part: Any) -> Any:
        """A part of a function that takes only products of its parameters."""
        if not isinstance(part, oc.Tensor) or part not in self.names:
            return self.part(part)
        weights = self.weights(part)
        return part if weights is None else ProductWeights(quantized_linear(weights, None).function)

    def layer(self, block: oc.Block[..., Any]) -> oc.Block[..., Any] | None:
        """A layer in place of one with weights that fit."""
        how = block.configuration
        kind = "" if how is None else how.configure.__name__
        if kind not in ("linear", "embedding", "tied_scores"):
            return None
        weights = self.weights(block.parts["w"])
        if weights is None:
            return None
        if kind == "embedding":
            return quantized_embedding(weights)
        return quantized_linear(weights, block.parts.get("b"))

    def weights(self, w: oc.Tensor) -> Weights | None:
        (param,) = oc.params(w).values()
        if param not in self.made:
            kind = self.kind_of(self.names[param])
            self.made[param] = None if kind is None else Weights.like(param, kind, self.rounds)
        return self.made[param]
