"""Saving the state of programs to files, and loading it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocannl.dialects.ir.errors import StateError, UninitializedError
from ocannl.dialects.shapes.shape import Dim, Row, Shape, closed_row
from ocannl.dialects.texpr.tensor_type import tensor_type
from ocannl.execute.files.array_files import ArrayFile, Metadata, StoredArray, texts, write_arrays
from ocannl.execute.files.mesh_saving import check_same_file, parts_to_set, save_on_mesh
from ocannl.execute.files.near_names import likely_renaming
from ocannl.execute.files.sharded_files import open_saved, remove_shards
from ocannl.execute.inference import infer
from ocannl.execute.memory.node import Node, stored
from ocannl.execute.memory.shapes_of_arrays import close_shapes, row_fits, shape_of_sizes
from ocannl.execute.turns import Turn
from ocannl.program import graph
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.arguments.renaming import Renaming
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.recorder import RECORDER
from ocannl.program.location import here
from ocannl.program.memory.state import Held, Root, State, state
from ocannl.program.tensor import Tensor
from ocannl.program.types.dtypes import ELEMENTS, dtype_of
from ocannl.program.values import Value, memory_key
from ocannl.runtime.collectives.device import MeshDevice
from ocannl.runtime.device import Device, Memory
from ocannl.version import installed_version

OTHERS_KNOW = ", and what it is used for needs another shape"
"""Why an array cannot be the value of memory whose own shape is open."""


class Memories(Protocol):
    """The part of a context that holds memory."""

    @property
    def device(self) -> Device: ...

    @property
    def turn(self) -> Turn: ...

    def node_of(self, tensor: Tensor) -> Node:
        """The memory of a tensor, made where there is none."""
        ...

    def __setitem__(self, tensor: Tensor, array: ArrayLike) -> None: ...

    def once(self, action: Callable[[], object]) -> None: ...


def save_state(
    context: Memories, path: str | Path, what: Root, step: int | None, notes: Mapping[str, str]
) -> None:
    """Writes the state of a program to a file, or on a mesh to one of each rank and an index, with notes of
    its own beside what tells how to read it.
    """
    found, path, device = state(what), Path(path), context.device
    values = _values(context, found)
    tensors = {name: entry for name, entry in found.items() if isinstance(entry, Tensor)}
    about = {
        "version": installed_version(),
        "shapes": json.dumps({name: str(tensor.shape) for name, tensor in tensors.items()}),
        "paths": json.dumps(found.paths),
        "kinds": json.dumps(found.kinds),
        **({} if step is None else {"step": str(step)}),
        **notes,
    }
    if isinstance(device, MeshDevice) and path.suffix == ".safetensors":
        save_on_mesh(device, path, values, about)
    else:
        arrays = {name: value.read() for name, value in values.items()}
        context.once(lambda: _write_whole(path, arrays, about))


def _write_whole(path: Path, arrays: Mapping[str, NDArray[Any]], about: Metadata) -> None:
    """Writes one file, in place of any state that is called so."""
    write_arrays(path, arrays, about)
    remove_shards(path)


def _values(context: Memories, found: State) -> dict[str, Held | Memory]:
    """The owners of the values of a state, by name. Raises `UninitializedError` where something has none."""
    values: dict[str, Held | Memory] = {}
    unset: list[str] = []
    for name, entry in found.items():
        if isinstance(entry, Held):
            values[name] = entry
            continue
        _infer_open(found, entry)
        node = context.node_of(entry)
        if not node.written and name not in found.updated:
            unset.append(name)
        values[name] = node.memory
    if unset:
        raise UninitializedError(
            f"there is nothing to save yet in {', '.join(unset)}: nothing has written it; "
            "initialize parameters by ctx.init_params(...)"
        )
    return values


def _is_open(tensor: Tensor) -> bool:
    return not tensor.shape.is_final or tensor_type(tensor.ir_value).element_or_none is None


def _infer_open(found: State, tensor: Tensor) -> None:
    """Infers the shapes of what the state was asked of, if that of a tensor is open."""
    if _is_open(tensor):
        for target in found.inferred:
            infer(target)


def load_state(
    context: Memories, path: str | Path, what: Root, *, strict: bool, rename: Mapping[str, str], partial: bool
) -> dict[str, str]:
    """Reads the state of a program from a file, or from several by an index; changes all of it or nothing.
    Gives what the file says of itself.
    """
    file, found = open_saved(Path(path)), state(what)
    if isinstance(context.device, MeshDevice):
        check_same_file(context.device, Path(path), file)
    names = _renamed(str(path), file.arrays, rename)
    for entry in found.values():
        if isinstance(entry, Tensor):
            _infer_open(found, entry)
    arrays = {names[name]: array for name, array in file.arrays.items()}
    shapes, paths = (_noted(str(path), file, table, names) for table in ("shapes", "paths"))
    # A new name is one of its own, whatever numbers the old one had.
    paths |= {new: new for old, new in names.items() if new != old}
    loading = _Loading(str(path), found, arrays, shapes, paths, strict, partial)
    if wrong := loading.misfits():
        raise loading.refusal(wrong)
    loading.close()
    chosen = [(found[name], array) for name, array in loading.chosen.items()]
    changes = [_change(context, entry, array) for entry, array in chosen if isinstance(entry, Tensor)]
    with context.turn.held():
        _write_held([(entry, array.read()) for entry, array in chosen if isinstance(entry, Held)])
        for change in changes:
            change()
    return {**file.metadata}


def _write_held(values: Sequence[tuple[Held, NDArray[Any]]]) -> None:
    """Sets what Python holds: none of it, if one of the values is refused."""
    with ExitStack() as undo:
        for entry, value in values:
            before = entry.read()
            entry.write(value)
            undo.callback(entry.write, before)
        undo.pop_all()


def _change(context: Memories, tensor: Tensor, array: StoredArray) -> Callable[[], None]:
    """Reads what this process needs of an array, and gives what sets it. Raises `ArgumentError` for numbers
    that the memory cannot hold.
    """
    node, what = context.node_of(tensor), f"`{tensor.label}`"
    if isinstance(context.device, MeshDevice):
        set_parts = parts_to_set(node, array, what)
        if set_parts is not None:
            return partial(_set_settled, context, tensor, set_parts)
    return partial(context.__setitem__, tensor, stored(array.read(), node.memory.dtype, what))


def _set_settled(context: Memories, tensor: Tensor, set_parts: Callable[[], None]) -> None:
    """Sets memory in parts, after what eager mode has yet to compute from it."""
    if RECORDER.living:
        ENGINE.only.settle([memory_key(tensor.ir_value)], context)
    set_parts()


def _renamed(path: str, names: Mapping[str, object], rename: Mapping[str, str]) -> dict[str, str]:
    """The names that those of a file get."""
    renaming = Renaming(rename)
    for old in renaming.unused([*names]):
        raise ArgumentError(f"{path} has no `{old}` to rename; it has {', '.join(names)}")
    result = {name: renaming(name) for name in names}
    twice = [name for name, count in Counter(result.values()).items() if count > 1]
    if twice:
        raise ArgumentError(f"two arrays of {path} would be called {', '.join(twice)}")
    return result


def _noted(path: str, file: ArrayFile, table: str, names: Mapping[str, str]) -> dict[str, str]:
    """A table of a file's metadata, by the names of the program."""
    try:
        found = texts(file.metadata.get(table, "{}"))
    except (ValueError, RecursionError) as error:
        raise StateError(f"the {table} that {path} notes are damaged: {error}") from None
    return {names[name]: text for name, text in found.items() if name in names}


@dataclass(frozen=True)
class _Loading:
    """State, and what a file has for it, by the names of the program."""

    path: str
    found: State
    stored: Mapping[str, StoredArray]
    shapes: Mapping[str, str]
    """Shapes in rows, where the file notes them."""
    paths: Mapping[str, str]
    """Names without numbers, where the file notes them."""
    strict: bool
    partial: bool

    def refusal(self, wrong: Sequence[str]) -> StateError:
        """The error that tells everything that does not fit."""
        return StateError(here("\n  ".join([f"nothing was loaded from {self.path}", *wrong])))

    @property
    def chosen(self) -> dict[str, StoredArray]:
        """The arrays that are loaded, by name."""
        return {name: array for name, array in self.stored.items() if name in self.found}

    def misfits(self) -> list[str]:
        """Everything that does not fit."""
        wrong = self.miscounted()
        missing = [name for name in self.found if name not in self.stored]
        if missing and not self.partial:
            wrong.append(f"missing in the file (partial=True leaves them as they are): {', '.join(missing)}")
        extra = [name for name in self.stored if name not in self.found]
        if extra and self.strict:
            wrong.append(f"not in the program (strict=False leaves them out): {', '.join(extra)}")
        wrong += [text for name, array in self.chosen.items() for text in self.differences(name, array)]
        rename = likely_renaming(self.stored, self.found) if wrong else {}
        return [*wrong, f"hint: these names may be the same: rename={rename}"] if rename else wrong

    def miscounted(self) -> list[str]:
        """Paths that the program and the file have several of, but not as many."""
        theirs, ours = Counter(self.paths.values()), Counter(self.found.paths.values())
        return [
            f"{path} is {ours[path]} times in the program and {theirs[path]} times in the file, "
            "so that numbers do not tell which is which: give labels"
            for path in ours
            if path in theirs and ours[path] != theirs[path]
        ]

    def differences(self, name: str, array: StoredArray) -> list[str]:
        """The differences of an array's shape and dtype from the program's, in words."""
        entry = self.found[name]
        if isinstance(entry, Held):
            value = entry.read()
            dtype, fits = value.dtype, value.shape == array.shape
        else:
            element = tensor_type(entry.ir_value).element_or_none
            dtype = array.dtype if element is None else dtype_of(element)
            fits = self.shape_of(name, entry) is not None
        found = [] if fits else [self.misfit(name)]
        converts = array.dtype in ELEMENTS and (not self.strict or self.is_count(name, dtype, array))
        if dtype != array.dtype and not converts:
            found.append(f"{name}: {dtype} in the program, {array.dtype} in the file")
        return found

    def is_count(self, name: str, dtype: np.dtype[Any], array: StoredArray) -> bool:
        """Whether an array has whole numbers as floats for a counter of integers, as some files do."""
        if self.found.kinds[name] != "counter" or (dtype.kind, array.dtype.kind) != ("i", "f"):
            return False
        values = array.read()
        return bool(np.all(np.isfinite(values) & (values == np.floor(values))))

    def misfit(self, name: str, why: str = "") -> str:
        """The shapes of an array in the program and in the file, in words."""
        entry = self.found[name]
        shape = str(entry.read().shape if isinstance(entry, Held) else entry.shape)
        theirs = self.shapes.get(name, str(self.stored[name].shape))
        return f"{name}: shape {shape} in the program, {theirs} in the file{why}"

    def shape_of(self, name: str, tensor: Tensor) -> Shape | None:
        """The shape that a tensor gets from the file; None where it does not fit what is known of it."""
        known, sizes = graph.known_shape(tensor.ir_value), self.stored[name].shape
        if known.is_final:
            return known if known.memory_sizes == sizes else None
        if name not in self.shapes:
            return shape_of_sizes(known, sizes)
        noted = shape_of_text(self.shapes[name])
        if noted is None or noted.memory_sizes != sizes:
            return None
        return noted if all(map(row_fits, known, noted)) else None

    def close(self) -> None:
        """Gives tensors whose shape or precision is open those of the file. Raises `StateError`, and changes
        nothing, where what they are used for needs others.
        """
        wanted: dict[str, tuple[Value, Shape, np.dtype[Any]]] = {}
        for name, array in self.chosen.items():
            entry = self.found[name]
            if not isinstance(entry, Held):
                shape = self.shape_of(name, entry)
                assert shape is not None, "it was compared before"
                wanted[name] = entry.ir_value, shape, array.dtype
        if wrong := [self.misfit(name, OTHERS_KNOW) for name in close_shapes(wanted)]:
            raise self.refusal(wrong)


def shape_of_text(text: str) -> Shape | None:
    """A final shape from its notation, such as `10|2->16`; None for anything else."""
    match = re.fullmatch(r"(?:([^|>]*)\|)?(?:([^|>]*)->)?([^|>]*)", "" if text == "()" else text)
    rows = [_row_of_text(part or "") for part in match.groups()] if match else [None]
    batch, input, output = rows if len(rows) == 3 else (None, None, None)
    return None if batch is None or input is None or output is None else Shape(batch, input, output)


def _row_of_text(text: str) -> Row | None:
    parts = [part.partition(":") for part in text.split(",") if part not in ("", "..")]
    if not all(size.isdecimal() for size, _, _ in parts):
        return None
    return closed_row(*(Dim(int(size), basis or None) for size, _, basis in parts))
