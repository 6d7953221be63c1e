"""Normalized weights: what PyTorch's `weight_norm` and `spectral_norm` keep in place of weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.interop.counterparts import Arrays, Converted, Counterpart, Parts
from ocannl.nn.normalization.reparametrized import Normalized
from ocannl.program.blocks.block import Block

Array = NDArray[Any]

# What torch.nn.utils.parametrizations calls the weights and what belongs to them, by the parts of a block.
WEIGHT_NORM = {"": "original1", "g": "original0"}
SPECTRAL_NORM = {"": "original", "u": "0._u", "v": "0._v"}
# The same by the hooks that came before, torch.nn.utils.weight_norm and spectral_norm.
OF_HOOKS = {"original0": "g", "original1": "v", "original": "orig", "0._u": "u", "0._v": "v"}
PARAMETRIZED = re.compile(r"parametrizations\.([^.]+)\.(original[01]?|0\._[uv])$")


def name_of_hook(name: str) -> str:
    """The name that the hooks give to what parametrizations call so."""
    return PARAMETRIZED.sub(lambda found: f"{found[1]}_{OF_HOOKS[found[2]]}", name)


def is_parametrized(name: str) -> bool:
    """Whether a parametrization calls an array so."""
    return PARAMETRIZED.search(name) is not None


def with_normalized(counterpart: Counterpart, parts: Parts) -> tuple[Counterpart, Parts]:
    """The counterpart of a block some of whose weights are normalized, with the weights as they are trained
    in place of those, and what belongs to them as `w.g`, or `w.u` and `w.v`.
    """
    normalized = {part: made for part, tensor in parts.items() if (made := _normalized(tensor))}
    if not normalized:
        return counterpart, parts
    trained = dict(parts)
    for part, made in normalized.items():
        trained[part] = made.weights
        trained |= {f"{part}.{own}": tensor for own, tensor in made.further.items()}
    names = {part: name for name, (part, *others) in counterpart.names(parts).items() if not others}
    weights = [_Weights(counterpart, names[part], part, made) for part, made in normalized.items()]
    return _with_weights(counterpart, weights), trained


def _normalized(tensor: oc.Tensor) -> Normalized | None:
    return tensor.ir_value.normalized


@dataclass(frozen=True)
class _Weights:
    """Normalized weights: what the module and the block call them."""

    counterpart: Counterpart
    name: str
    part: str
    made: Normalized

    @property
    def names(self) -> Mapping[str, str]:
        """The names in PyTorch of the weights, "", and of what belongs to them."""
        known = WEIGHT_NORM if "g" in self.made.further else SPECTRAL_NORM
        return {own: f"parametrizations.{self.name}.{theirs}" for own, theirs in known.items()}

    def ours(
        self, block: Block[..., Any], weights: Converted, arrays: Arrays
    ) -> Iterator[tuple[str, Converted]]:
        """The arrays that belong to the weights, from those of the module."""
        sizes = arrays[self.names[""]].shape
        for own in self.made.further:
            array, rows = arrays[self.names[own]], self._rows(own, weights)
            batch = weights.batch if own == "v" else ()
            shape = (*batch, *rows[0], *rows[1])
            for positions in _positions(own, array, sizes):
                at = self.counterpart.ours(block, {self.name: positions})[self.part].array
                at = at.reshape(*weights.batch, *weights.rows[0], *weights.rows[1])
                picked = at[tuple(slice(n) for n in self._spread(own, np.empty(shape), at.ndim).shape)]
                if np.array_equal(np.broadcast_to(picked, at.shape), at) and picked.size == array.size:
                    yield f"{self.part}.{own}", Converted(array.ravel()[picked].reshape(shape), rows, batch)
                    break
            else:
                raise ValueError(f"{own} does not belong to these weights")

    def theirs(self, block: Block[..., Any], weights: Array, arrays: Arrays) -> Iterator[tuple[str, Array]]:
        """The arrays that belong to the weights as the module has them, from those of the block."""
        for own, name in self.names.items():
            if not own:
                continue
            array = arrays.get(f"{self.part}.{own}")
            if array is None:
                array = _next_outputs(weights, arrays[f"{self.part}.v"])
            positions = self._spread(own, np.arange(array.size).reshape(array.shape), weights.ndim)
            spread = {self.part: np.broadcast_to(positions, weights.shape)}
            at = self.counterpart.theirs(block, spread)[self.name]
            for axis in range(at.ndim):
                first = at.take([0], axis)
                at = first if (at == first).all() else at
            taken = array.ravel()[at]
            is_vector = own != "g" or self.made.per == "all"
            yield name, taken.reshape(-1 if own != "g" else ()) if is_vector else taken

    def _rows(self, own: str, weights: Converted) -> tuple[Sequence[int], Sequence[int]]:
        """The output and input axes of what belongs to the weights."""
        output, input = weights.rows
        if own == "v":
            return (), input
        return {"output": (output, ()), "channel": ((), input[-1:]), "all": ((), ())}[self.made.per]

    def _spread(self, own: str, array: Array, axes: int) -> Array:
        """An array with axes of size 1 for those of the weights that it has not."""
        missing = (1,) * (axes - array.ndim)
        leads = own != "v" and self.made.per == "output"
        return array.reshape(array.shape + missing if leads else missing + array.shape)


def _next_outputs(weights: Array, v: Array) -> Array:
    """The vector of outputs with which the next step of power iteration begins, of which a block in training
    keeps that of inputs only.
    """
    outputs = weights.shape[: weights.ndim - v.ndim]
    u = weights.reshape(-1, v.size) @ v.ravel()
    return (u / np.linalg.norm(u)).astype(weights.dtype).reshape(outputs)


def _positions(own: str, array: Array, sizes: Sequence[int]) -> Iterator[Array]:
    """For each weight the position in an array of the module that belongs to it, in each way that its shape
    allows: the norms `g` have axes of size 1, the vectors `u` and `v` are for rows and columns of a matrix.
    """
    positions = np.arange(array.size)
    if own == "g":
        yield np.broadcast_to(positions.reshape(array.shape), sizes)
        return
    for axis, size in enumerate(sizes):
        others = [*sizes[:axis], 1, *sizes[axis + 1 :]]
        shape = [size if at == axis else 1 for at in range(len(sizes))] if own == "u" else others
        if np.prod(shape) == array.size:
            yield np.broadcast_to(positions.reshape(shape), sizes)


def _with_weights(counterpart: Counterpart, weights: Sequence[_Weights]) -> Counterpart:
    by_name = {one.name: one for one in weights}

    def names(parts: Parts) -> Mapping[str, Sequence[str]]:
        found: dict[str, Sequence[str]] = {}
        for name, of in counterpart.names(
            {part: t for part, t in parts.items() if part not in further}
        ).items():
            one = by_name.get(name)
            if one is None:
                found[name] = of
            else:
                found |= {theirs: [_joined(one.part, own)] for own, theirs in one.names.items()}
        return found

    def ours(block: Block[..., Any], arrays: Arrays) -> Mapping[str, Converted]:
        plain = {name: array for name, array in arrays.items() if not PARAMETRIZED.match(name)}
        plain |= {one.name: arrays[one.names[""]] for one in weights}
        found = dict(counterpart.ours(block, plain))
        for one in weights:
            found |= dict(one.ours(block, found[one.part], arrays))
        return found

    def theirs(block: Block[..., Any], arrays: Arrays) -> Arrays:
        plain = {part: array for part, array in arrays.items() if part not in further}
        found = dict(counterpart.theirs(block, plain))
        for one in weights:
            found[one.names[""]] = found.pop(one.name)
            found |= dict(one.theirs(block, arrays[one.part], arrays))
        return found

    further = {_joined(one.part, own) for one in weights for own in one.made.further}
    return replace(counterpart, names=names, ours=ours, theirs=theirs)


def _joined(part: str, own: str) -> str:
    return f"{part}.{own}" if own else part
