"""A model that was loaded: a block with the configuration that its folder has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

import ocannl as oc

Config: TypeAlias = Mapping[str, Any]
Array: TypeAlias = NDArray[Any]


class Model(oc.Block[..., Any]):
    """A block of an open model; `config` is what its `config.json` says.

    A language model is called as `model(ids)`: batch, position | to batch, position | scores of the ids that
    follow. With an `nn.kv_cache` as `cache`, the ids are those of the next positions; with `at`, batch | ,
    there are scores of one position of each sequence only: batch | scores.
    """

    def __init__(self, function: Callable[..., Any], config: Config) -> None:
        super().__init__(function)
        self.config = config

    @property
    def context(self) -> int | None:
        """The greatest number of positions that it was made for, or that a dynamic scaling of them allows."""
        known = (self.config.get(name) for name in ("max_position_embeddings", "n_positions"))
        most = next((size for size in known if size is not None), None)
        scaling: Config = self.config.get("rope_parameters") or self.config.get("rope_scaling") or {}
        if most is None or scaling.get("rope_type", scaling.get("type")) != "dynamic":
            return most
        return int(most * scaling["factor"])


def settings_of(path: Path) -> Config:
    """The settings of a file in JSON. Raises `OcannlError` where it has none, `OSError` without a file."""
    try:
        found: Any = json.loads(path.read_text())
    except ValueError as error:
        raise oc.OcannlError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise oc.OcannlError(f"{path} is no configuration: settings by name")
    return cast(Config, found)


def setting(config: Config, name: str, default: Any = ...) -> Any:
    """A setting of a configuration. Raises `OcannlError` for one that it needs and does not have, and for
    sizes and numbers that are none.
    """
    value, owner = config.get(name), f"the configuration of a {config.get('model_type')}"
    if value is None:
        if default is ...:
            raise oc.OcannlError(f"{owner} needs `{name}`")
        return default
    if is_size(name):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise oc.OcannlError(f"`{name}` in {owner} is an integer of at least 1, found {value!r}")
    elif isinstance(default, float) and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise oc.OcannlError(f"`{name}` in {owner} is a number, found {value!r}")
    return value


def is_size(name: str) -> bool:
    """Whether a setting is one of sizes and counts."""
    return name.endswith("_size") or name.startswith(("num_", "n_")) or name == "max_position_embeddings"


def batch_of_ids(ids: oc.TensorLike | Array) -> oc.Tensor:
    """Ids as a tensor: all axes of an array are batch axes."""
    if isinstance(ids, np.ndarray):
        return oc.data(ids, axes="b" * ids.ndim, label="ids")
    return oc.as_tensor(ids)


def picked(hidden: oc.Tensor, at: oc.Tensor | None) -> oc.Tensor:
    """Batch, position | features at one position of each sequence, or at all."""
    return hidden if at is None else oc.gather("b, s | d; b | => b | d", hidden, at, at="s")
