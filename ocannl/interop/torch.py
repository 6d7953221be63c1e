"""Parameters from PyTorch's modules, and to them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl.dialects.shapes.shape import Shape, closed_row
from ocannl.execute.files.saving import OTHERS_KNOW
from ocannl.execute.memory.shapes_of_arrays import close_shapes, row_fits
from ocannl.interop.counterparts import Arrays, Converted, Counterpart, counterpart_of, modules_in
from ocannl.interop.normalized import is_parametrized, name_of_hook, with_normalized
from ocannl.program import graph
from ocannl.program.arguments.arrays import as_array
from ocannl.program.arguments.renaming import Renaming
from ocannl.program.blocks.block import Block, named_parts
from ocannl.program.memory.as_kept import as_kept
from ocannl.program.values import is_memory

Names = Mapping[str, str]

MOST_SHOWN = 4
"""The names of a map in a hint."""

SMALL_FLOATS = [np.dtype(dtype) for dtype in (oc.bfloat16, oc.float8_e4m3fn, oc.float8_e5m2)]
FLOATS = [np.dtype(dtype) for dtype in (np.float16, np.float32, np.float64)]


@dataclass(frozen=True)
class _Place:
    """A block with its counterpart, or a parameter alone, under its path and that of PyTorch's module."""

    path: str
    module: str
    block: Block[..., Any] | None
    counterpart: Counterpart | None
    tensors: Mapping[str, oc.Tensor]

    @property
    def names(self) -> Mapping[str, Sequence[str]]:
        """The names of PyTorch in the module, with the parts that they are for."""
        return {"": [""]} if self.counterpart is None else self.counterpart.names(self.tensors)

    def ours(self, arrays: Arrays) -> Mapping[str, Converted]:
        """The arrays of the parts for those of PyTorch."""
        if self.counterpart is None or self.block is None:
            (array,) = arrays.values()
            return {"": Converted(array, (array.shape[:1], array.shape[1:]))}
        return self.counterpart.ours(self.block, arrays)

    def theirs(self, arrays: Arrays) -> Arrays:
        """The arrays of PyTorch for those of the parts."""
        if self.counterpart is None or self.block is None:
            return arrays
        return self.counterpart.theirs(self.block, arrays)

    def inside(self, part: str) -> _Place:
        """The place in a block that has this one's as a part."""
        return replace(self, path=_joined(part, self.path), module=_joined(part, self.module))


def _joined(*names: str) -> str:
    return ".".join(filter(None, names))


def _places(block: Block[..., Any]) -> Iterator[_Place]:
    counterpart = counterpart_of(block)
    parts = dict(named_parts(block))
    if counterpart is not None:
        yield _Place("", "", block, *with_normalized(counterpart, dict(_tensors(block))))
        return
    for name, part in parts.items():
        places: Iterable[_Place] = ()
        if isinstance(part, oc.Tensor):
            places = [_Place("", "", None, None, {"": as_kept(part)})]
        elif callable(part):
            places = _places(_as_block(part))
        for place in places:
            inner = place.inside(name.replace("[", ".").replace("]", ""))
            yield replace(inner, module=Renaming(modules_in(block))(inner.module))


def _tensors(block: Block[..., Any]) -> Iterator[tuple[str, oc.Tensor]]:
    """The tensors of a block and of the blocks in it, by name."""
    for name, part in named_parts(block):
        if isinstance(part, oc.Tensor):
            yield name, as_kept(part)
        elif callable(part):
            yield from ((f"{name}.{inner}", tensor) for inner, tensor in _tensors(_as_block(part)))


def from_torch(ctx: oc.Context, block: Any, state_dict: Mapping[str, Any], map: Names | None = None) -> None:
    """Sets the parameters and running statistics of a block from the `state_dict` of a PyTorch module, whose
    tensors may also be arrays. Layouts are converted by what each block is in PyTorch.

    Parts have the same names, `layers[0].attend` for `layers.0.attend`, and those of transformers also
    PyTorch's, `layers.0.self_attn`; weights that are normalized, by a parametrization or an older hook, go
    to a block that `nn.weight_norm` or `nn.spectral_norm` has made. `map` gives names of PyTorch those
    of the block, as `rename` of `ctx.load` does: `{"transformer.wte": "embed"}`. A parameter whose shape is
    open gets that of the array. Nothing changes unless all fits: else `StateError` names what is missing,
    extra and of another size.
    """
    if hasattr(state_dict, "state_dict"):
        raise oc.ArgumentError("the arrays of a module are its state_dict()")
    places = list(_places(_as_block(block)))
    as_here, as_there = Renaming(map or {}), Renaming({place.path: place.module for place in places})
    renamed = {as_there(as_here(name)): value for name, value in state_dict.items()}
    if len(renamed) < len(state_dict):
        names = Counter(as_there(as_here(name)) for name in state_dict)
        twice = ", ".join(name for name, count in names.items() if count > 1)
        raise oc.ArgumentError(f"two arrays of the state_dict would be called {twice}")
    given = {name: _array(v) for name, v in renamed.items() if not name.endswith("num_batches_tracked")}
    wanted = [_joined(place.module, name) for place in places for name in place.names]
    hooks = {name_of_hook(name): name for name in wanted}
    given = {hooks.get(name, name): value for name, value in given.items()}
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    wrong = [*(f"missing: {name}" for name in missing), *(f"not in the block: {name}" for name in extra)]
    if wrong:
        wrong += [f"in `map`: {old!r} fits no name of PyTorch here" for old in as_here.unused([*state_dict])]
    wrong += _map_meant(missing, extra)
    if any(is_parametrized(name) for name in extra):
        wrong.append("hint: nn.weight_norm(block) and nn.spectral_norm(block) have normalized weights")
    found: dict[str, tuple[oc.Tensor, Converted]] = {}
    for place in places:
        names = {name: _joined(place.module, name) for name in place.names}
        if not all(name in given for name in names.values()):
            continue
        arrays = {name: given[full] for name, full in names.items()}
        try:
            parts = place.ours(arrays)
        except (ValueError, IndexError):  # NumPy's, of arrays that cannot be divided as those of the module.
            shapes = ", ".join(f"{names[name]} {array.shape}" for name, array in arrays.items())
            wrong.append(f"{place.path or 'the block'}: arrays of these shapes are not its: {shapes}")
            continue
        for part, converted in parts.items():
            path, tensor = _joined(place.path, part), place.tensors[part]
            found[path] = tensor, converted
            if why := _misfit(tensor, converted):
                wrong.append(f"{path}: {why}")
    if not wrong:
        shapes = {path: (t.ir_value, _shape_of(c), c.array.dtype) for path, (t, c) in found.items()}
        wrong = [f"{path}: {_shapes(*found[path])}{OTHERS_KNOW}" for path in close_shapes(shapes)]
    if wrong:
        raise oc.StateError("\n  ".join(["nothing was taken over", *wrong]))
    for tensor, converted in found.values():
        ctx[tensor] = converted.array.reshape(tensor.shape.array)


def _map_meant(missing: Sequence[str], extra: Sequence[str]) -> list[str]:
    """The hint that names may be told by a map: of modules with parts of the same names, in their order."""
    ours, theirs = _by_module(missing), _by_module(extra)
    if [*ours.values()] == [*theirs.values()]:
        likely = dict(zip(theirs, ours, strict=True))
    else:
        likely = dict([(name, own) for name in theirs for own in ours if theirs[name] == ours[own]][:1])
    shown = dict([*likely.items()][:MOST_SHOWN])
    more = f", and {len(likely) - len(shown)} more" if len(likely) > len(shown) else ""
    return [f"hint: `map` gives PyTorch's names those of the block: map={shown}{more}"] if shown else []


def _by_module(names: Sequence[str]) -> dict[str, set[str]]:
    """The names of parts by those of their modules."""
    found: dict[str, set[str]] = {}
    for module, _, part in (name.rpartition(".") for name in names):
        if module:
            found.setdefault(module, set()).add(part)
    return found


def to_torch(ctx: oc.Context, block: Any, map: Names | None = None) -> dict[str, Any]:
    """The parameters and running statistics of a block as tensors of PyTorch, by the names and in the layouts
    of its modules: for `module.load_state_dict`. `map` gives names of the block those of PyTorch.

    Raises `OcannlError` where PyTorch is missing.
    """
    try:
        torch: Any = import_module("torch")
    except ModuleNotFoundError:
        raise oc.OcannlError("to_torch needs PyTorch: pip install torch") from None
    return {name: torch.tensor(array) for name, array in to_arrays(ctx, block, map).items()}


def to_arrays(ctx: oc.Context, block: Any, map: Names | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of `to_torch`, by PyTorch's names."""
    found: dict[str, NDArray[Any]] = {}
    mapped = Renaming(map or {})
    for place in _places(_as_block(block)):
        values = {part: np.array(ctx[tensor]) for part, tensor in place.tensors.items()}
        if place.counterpart is not None and place.counterpart.is_flat:
            values = {part: _one_axis_a_row(place.tensors[part], array) for part, array in values.items()}
        for name, array in place.theirs(values).items():
            own, theirs = _joined(place.path, name), _joined(place.module, name)
            renamed = mapped(own)
            found[mapped(theirs) if renamed == own else renamed] = np.ascontiguousarray(array)
    return found


def _as_block(block: Any) -> Block[..., Any]:
    return cast(Block[..., Any], block) if isinstance(block, Block) else Block(block)


def _array(value: Any) -> NDArray[Any]:
    """A tensor of PyTorch, on whatever device, or an array, as an array; of small floats in f32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    array = as_array(value, "a state_dict has arrays")
    return array.astype(np.float32) if array.dtype in SMALL_FLOATS else array


def _shape_of(converted: Converted) -> Shape:
    output, input = converted.rows
    batch, input, output = (closed_row(*map(int, row)) for row in (converted.batch, input, output))
    return Shape(batch, input, output)


def _misfit(tensor: oc.Tensor, converted: Converted) -> str:
    """Why an array cannot be the value of a part; empty if it can."""
    if not is_memory(tensor.ir_value):
        return "it is computed from other parameters"
    array = converted.array
    if array.dtype not in FLOATS:
        return f"it is of floats, an array of {array.dtype} given"
    known = graph.known_shape(tensor.ir_value)
    rows = zip(known, _shape_of(converted), strict=True)
    if known.is_final:
        fits = known.elements == array.size
    else:
        fits = all(row_fits(row, given) for row, given in rows)
    return "" if fits else _shapes(tensor, converted)


def _shapes(tensor: oc.Tensor, converted: Converted) -> str:
    return f"{tensor.shape} in the block, {converted.array.shape} given"


def _one_axis_a_row(tensor: oc.Tensor, array: NDArray[Any]) -> NDArray[Any]:
    shape = graph.known_shape(tensor.ir_value)
    return array.reshape(
        [math.prod(row.sizes) for row in (shape.batch, shape.output, shape.input) if row.axes]
    )
