"""Low-rank adaptation of blocks (LoRA)."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, cast

import ocannl as oc
from ocannl.nn.layer import Layer
from ocannl.program.block import named_parts
from ocannl.program.checks import integer


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
    `w @ x + b` becomes `w @ x + b + alpha / rank * up @ (down @ x)`.

    `label.down`: in -> rank is initialized as `init` says, by default as any weight, and `label.up`: rank ->
    out at 0, so that the block at first computes what it did. `alpha` is by default the rank. `only` is a
    pattern of the paths of layers, such as "*.attend.*". Raises `ArgumentError` where no layer is meant.
    """
    if not isinstance(block, oc.Block):
        raise oc.ArgumentError(f"adapters are put into a block, found {type(block).__name__}")
    rank = integer(rank, "a rank", least=1)
    scale = 1.0 if alpha is None else alpha / rank
    paths = [path for path in _linear_layers(block) if fnmatchcase(path, only)]
    if not paths:
        raise oc.ArgumentError(f"{block.title} has no linear layers called {only!r}")
    adapted = block.freeze()
    for path in paths:
        adapted = adapted.replace(path, adapter(_part(adapted, path), rank, scale, init, label))
    return adapted


@oc.configurable
def adapter(base: oc.Block[..., oc.Tensor], rank: int, scale: float, init: Any, label: str) -> Layer:
    """A layer and a product of low rank beside it, of the rows of its weights, as far as these are known."""
    weights: oc.Tensor = base.w
    with oc.scope(label):
        down = oc.param("down", init, input=_known(weights.shape.input), output=rank)
        up = oc.param("up", 0.0, input=rank, output=_known(weights.shape.output))

    def apply(x: oc.Tensor) -> oc.Tensor:
        return base(x) + scale * (up @ (down @ x))

    return apply


def _known(row: tuple[Any, ...]) -> list[int | oc.Dim] | None:
    return None if ... in row else [*row]


def _linear_layers(block: oc.Block[..., Any]) -> Iterator[str]:
    """The paths of the linear layers in a block."""
    for name, part in named_parts(block):
        if isinstance(part, oc.Block):
            inner = cast("oc.Block[..., Any]", part)
            how = inner.configuration
            if how is not None and how.configure.__module__ == "ocannl.nn.linear":
                yield name
            else:
                yield from (f"{name}.{path}" for path in _linear_layers(inner))


def _part(block: oc.Block[..., Any], path: str) -> Any:
    """The part of a path such as `layers[3].attend.out`."""
    found: Any = block
    for step in path.replace("[", ".[").split("."):
        key = step.strip("[]")
        if key == step:
            found = found.parts[step]
        else:
            found = found[int(key) if isinstance(found, list | tuple) else key]
    return found
