"""Low-rank adaptation of blocks (LoRA)."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, cast

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.nn.weights.product_weights import PRODUCTS, ProductWeights
from ocannl.program.arguments.checks import integer
from ocannl.program.blocks.block import named_parts


def lora(
    block: oc.Block[..., Any],
    *,
    rank: int = 8,
    alpha: float | None = None,
    only: str = "*",
    init: Any = None,
    label: str = "lora",
) -> oc.Block[..., Any]:
    """The block with adapters beside its linear layers (Hu et al., 2022), which alone have gradients: a layer
    `w @ x + b` becomes `w @ x + b + alpha / rank * up @ (down @ x)`; and so do the products `w @ x` of
    `nn.mlp`, attention, recurrent layers and `nn.selective_ssm`.

    `label.down`: in -> rank is initialized as `init` says, by default as any weight, and `label.up`: rank ->
    out at 0, so that the block at first computes what it did. `alpha` is by default the rank. `only` is a
    pattern of the paths of layers and weights, such as "*.attend.*". Raises `ArgumentError` where none is
    meant.
    """
    if not isinstance(block, oc.Block):
        raise oc.ArgumentError(f"adapters are put into a block, found {type(block).__name__}")
    rank = integer(rank, "a rank", least=1)
    scale = 1.0 if alpha is None else alpha / rank
    if _is_linear(block) and only == "*":
        return cast("oc.Block[..., Any]", adapter(block.freeze(), rank, scale, init, label))
    paths = [path for path in _linear_layers(block) if fnmatchcase(path, only)]
    if not paths:
        raise oc.ArgumentError(f"{block.title} has no linear layers called {only!r}")
    adapted = block.freeze()
    for path in paths:
        part = _part(adapted, path)
        make: Any = product_adapter if isinstance(part, oc.Tensor) else adapter
        adapted = adapted.replace(path, make(part, rank, scale, init, label))
    return adapted


@oc.configurable
def adapter(base: oc.Block[..., oc.Tensor], rank: int, scale: float, init: Any, label: str) -> Layer:
    """A layer and a product of low rank beside it, of the rows of its weights, as far as these are known."""
    down, up = _factors(base.w, rank, init, label)
    return lambda x: base(x) + scale * (up @ (down @ x))


def product_adapter(w: oc.Tensor, rank: int, scale: float, init: Any, label: str) -> ProductWeights:
    """Weights without gradients in products, and a product of low rank beside each."""
    down, up = _factors(w, rank, init, label)

    def adapted_product(x: oc.Tensor) -> oc.Tensor:
        return oc.stop_gradient(w) @ x + scale * (up @ (down @ x))

    return ProductWeights(adapted_product)


def _factors(w: oc.Tensor, rank: int, init: Any, label: str) -> tuple[oc.Tensor, oc.Tensor]:
    with oc.scope(label):
        down = oc.param("down", init, input=_known(w.shape.input), output=rank)
        up = oc.param("up", 0.0, input=rank, output=_known(w.shape.output))
    return down, up


def _known(row: tuple[Any, ...]) -> list[int | oc.Dim] | None:
    return None if ... in row else [*row]


def _linear_layers(block: oc.Block[..., Any]) -> Iterator[str]:
    """The paths of the linear layers in a block, and of weights in products."""
    takes_products = block.function.__module__ in PRODUCTS
    for name, part in named_parts(block):
        # Biases have input axes, too, as long as their shapes are not known.
        if isinstance(part, oc.Tensor):
            if takes_products and name.startswith("w"):
                yield name
        elif callable(part):
            inner = _as_block(part)
            if _is_linear(inner):
                yield name
            else:
                yield from (f"{name}.{path}" for path in _linear_layers(inner))


def _is_linear(block: oc.Block[..., Any]) -> bool:
    how = block.configuration
    return how is not None and how.configure.__module__ == "ocannl.nn.linear"


def _as_block(part: Any) -> oc.Block[..., Any]:
    return cast("oc.Block[..., Any]", part) if isinstance(part, oc.Block) else oc.Block(part)


def _part(block: oc.Block[..., Any], path: str) -> Any:
    """The part of a path such as `layers[3].attend.out`."""
    found: Any = block
    for step in path.replace("[", ".[").split("."):
        key = step.strip("[]")
        if key == step:
            found = _as_block(found).parts[step]
        else:
            found = found[int(key) if isinstance(found, list | tuple) else key]
    return found
