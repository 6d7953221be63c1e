"""Arrays in several files, each with some parts of them, and an index in the form of Hugging Face's.

The state `a.safetensors` is then `a.safetensors.index.json`, and files `a-<save>-00001-of-00002.safetensors`
beside it, where `<save>` is a hash of what they hold. The index is written last: it never names parts of two
saves.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import StateError
from ocannl.execute.files.array_files import (
    ArrayFile,
    Metadata,
    StoredArray,
    open_arrays,
    texts,
    write_arrays,
)
from ocannl.execute.files.replace_file import PARTIAL, remove_partial, replacing

INDEX = ".index.json"
Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Part:
    """A part of a named array: where it begins in the whole, its sizes, and those of the whole."""

    name: str
    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def key(self) -> str:
        """Its name in a file."""
        ranges = [f"{start}:{start + size}" for start, size in zip(self.starts, self.sizes, strict=True)]
        return self.name if self.sizes == self.shape else f"{self.name}[{', '.join(ranges)}]"


@dataclass(frozen=True)
class StoredPart:
    """A part of an array in a file."""

    starts: tuple[int, ...]
    array: StoredArray


@dataclass(frozen=True)
class Index:
    """The contents of an index: the file of each array, and where this package wrote it, the save and the
    length of each file.
    """

    metadata: Metadata
    files: Mapping[str, str]
    save: str
    lengths: Mapping[str, int]


def index_of(path: Path) -> Path:
    """The path of the index of state that is called `path`."""
    return path if path.name.endswith(INDEX) else path.with_name(path.name + INDEX)


def file_name(path: Path, save: str, number: int, count: int) -> str:
    """The name of a file of parts."""
    return f"{path.stem}-{save}-{number:05}-of-{count:05}.safetensors"


def digest(arrays: Mapping[str, Array]) -> Array:
    """A hash of named arrays, as bytes."""
    found = hashlib.blake2b(digest_size=16)
    for name, array in arrays.items():
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return np.frombuffer(found.digest(), np.uint8)


def write_parts(path: Path, save: str, parts: Iterable[Part], arrays: Mapping[str, Array]) -> int:
    """Writes one file of parts, by their keys; gives its length."""
    table = {part.key: asdict(part) for part in parts if part.key != part.name}
    write_arrays(path, arrays, {"save": save, "parts": json.dumps(table)})
    return path.stat().st_size


def write_index(path: Path, index: Index, size: int) -> None:
    """Writes the index of state whose files are there, with the bytes of all arrays, and removes what was
    called `path` before.
    """
    content = {
        "metadata": {"total_size": size, **index.metadata},
        "weight_map": {**index.files},
        "save": index.save,
        "files": {**index.lengths},
    }
    with replacing(index_of(path)) as aside:
        aside.write_text(json.dumps(content, indent=2))
    path.unlink(missing_ok=True)
    remove_parts(path, but=index.lengths)


def remove_parts(path: Path, but: Iterable[str] = ()) -> None:
    """Removes the files of parts of what is called `path`, but for some."""
    pattern = re.compile(
        rf"\.?{re.escape(path.stem)}-[0-9a-f]{{16}}-\d{{5}}-of-\d{{5}}\.safetensors({PARTIAL})?"
    )
    kept = {*but}
    for file in path.parent.iterdir():
        if pattern.fullmatch(file.name) and file.name not in kept:
            remove_partial(file)


def remove_shards(path: Path) -> None:
    """Removes the index and the files of parts of what is called `path`, where this package wrote them."""
    index = index_of(path)
    if index.exists() and _read_index(index).save:
        index.unlink()
        remove_parts(path)


def remove_saved(path: Path) -> None:
    """Removes the state that is called `path`, in one file or in several."""
    path.unlink(missing_ok=True)
    remove_shards(path)


def open_saved(path: Path) -> ArrayFile:
    """The arrays of state that is called `path`, in one file or in several; `path` may also be an index.

    Raises `StateError` for what is damaged, or not there as a whole, `ArgumentError` for another suffix, and
    `MissingFileError`.
    """
    index = _index_in_place(path)
    return open_arrays(path) if index is None else _open_parts(index_of(path), index)


def saved_metadata(path: Path) -> Metadata:
    """The description in the state that is called `path`."""
    index = _index_in_place(path)
    return open_arrays(path).metadata if index is None else index.metadata


def _index_in_place(path: Path) -> Index | None:
    """The index by which to read `path`; one of others only where there is no such file."""
    file = index_of(path)
    if not file.exists():
        return None
    index = _read_index(file)
    return index if index.save or file == path or not path.exists() else None


def _read_index(path: Path) -> Index:
    try:
        content: Any = json.loads(path.read_bytes())
        metadata = texts(json.dumps(content.get("metadata", {})))
        files = texts(json.dumps(content["weight_map"]))
        lengths = {name: int(size) for name, size in texts(json.dumps(content.get("files", {}))).items()}
        save = str(content.get("save", ""))
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise StateError(f"{path} is damaged, or no index of safetensors files: {error!r}") from None
    outside = sorted({file for file in files.values() if Path(file).name != file})
    if outside:
        raise StateError(f"{path} names files of other folders: {', '.join(outside)}")
    return Index(
        {name: text for name, text in metadata.items() if name != "total_size"}, files, save, lengths
    )


def _open_parts(path: Path, index: Index) -> ArrayFile:
    """The arrays of all files of an index. Raises one `StateError` for all files that are not its own."""
    wrong: list[str] = []
    found: dict[str, list[tuple[Part, StoredArray]]] = {}
    for name in sorted({*index.files.values()}):
        problem, file = _opened(path.with_name(name), index)
        if file is None:
            wrong.append(f"{name} {problem}")
            continue
        for part, array in _parts(path.with_name(name), file):
            found.setdefault(part.name, []).append((part, array))
    if wrong:
        raise StateError("\n  ".join([f"{path} is not there as a whole:", *wrong]))
    return ArrayFile(
        {name: _array(path, name, parts) for name, parts in found.items()}, index.metadata, index.save
    )


def _opened(path: Path, index: Index) -> tuple[str, ArrayFile | None]:
    """A file of parts, or what is wrong with it."""
    if not path.is_file():
        return "is missing", None
    size, wanted = path.stat().st_size, index.lengths.get(path.name)
    if wanted is not None and size != wanted:
        return f"has {size} bytes in place of {wanted}", None
    try:
        file = open_arrays(path)
    except StateError as error:
        return str(error), None
    if file.metadata.get("save", "") != index.save and index.save:
        return "is of another save", None
    own = {name for name, its_file in index.files.items() if its_file == path.name}
    if index.save and own != {*file.arrays}:
        return "has other arrays than the index says", None
    return "", file


def _parts(path: Path, file: ArrayFile) -> list[tuple[Part, StoredArray]]:
    """The arrays of a file, with the parts that they are."""
    try:
        table = cast(dict[str, Any], json.loads(file.metadata.get("parts", "{}")))
        noted = {key: _part(fields) for key, fields in table.items()}
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise StateError(f"{path} is damaged: its table of parts is none: {error!r}") from None
    whole = {name: Part(name, (0,) * len(a.shape), a.shape, a.shape) for name, a in file.arrays.items()}
    return [(noted.get(key, whole[key]), array) for key, array in file.arrays.items()]


def _part(fields: Mapping[str, Any]) -> Part:
    starts, sizes, shape = (tuple(map(int, fields[name])) for name in ("starts", "sizes", "shape"))
    return Part(str(fields["name"]), starts, sizes, shape)


def _array(path: Path, name: str, parts: Sequence[tuple[Part, StoredArray]]) -> StoredArray:
    """An array of all its parts."""
    shape, dtype = parts[0][0].shape, parts[0][1].dtype
    fits = all(part.sizes == array.shape and array.dtype == dtype for part, array in parts)
    if not fits or not _is_tiled(shape, [part for part, _ in parts]):
        raise StateError(f"{path} is damaged: the parts of `{name}` are not those of an array of {shape}")
    if len(parts) == 1:
        return parts[0][1]
    stored = [StoredPart(part.starts, array) for part, array in parts]
    read: Callable[[], Array] = partial(
        _joined, shape, dtype, stored, tuple(slice(0, size) for size in shape)
    )
    return SplitArray(shape, dtype, read, stored)


def _is_tiled(shape: tuple[int, ...], parts: Sequence[Part]) -> bool:
    """Whether parts are the tiles of a grid over the whole shape, each once."""
    if any(part.shape != shape or not len(part.starts) == len(part.sizes) == len(shape) for part in parts):
        return False
    ends: list[dict[int, int]] = []
    for axis, size in enumerate(shape):
        along = {part.starts[axis]: part.starts[axis] + part.sizes[axis] for part in parts}
        begins = sorted(along)
        if begins[0] != 0 or [along[begin] for begin in begins] != [*begins[1:], size]:
            return False
        ends.append(along)
    tiles = {part.starts for part in parts}
    even = all(
        part.starts[k] + part.sizes[k] == ends[k][part.starts[k]] for part in parts for k in range(len(shape))
    )
    count = int(np.prod([len(along) for along in ends], dtype=object))
    return even and len(tiles) == len(parts) == count


@dataclass(frozen=True)
class SplitArray(StoredArray):
    """An array in several parts. Only what is asked for is read."""

    parts: Sequence[StoredPart]

    def part(self, at: tuple[slice, ...]) -> Array:
        return _joined(self.shape, self.dtype, self.parts, at)


def _joined(
    shape: tuple[int, ...], dtype: np.dtype[Any], parts: Sequence[StoredPart], at: tuple[slice, ...]
) -> Array:
    """A range of an array, of the stored parts that it meets."""
    asked = [(ranged.start, ranged.stop) for ranged in at]
    found = np.empty([stop - start for start, stop in asked], dtype)
    for part in parts:
        sizes = part.array.shape
        spans = [
            (max(first, start), min(first + size, stop))
            for (start, stop), first, size in zip(asked, part.starts, sizes, strict=True)
        ]
        if all(low < high for low, high in spans):
            own = [
                slice(low - first, high - first)
                for (low, high), first in zip(spans, part.starts, strict=True)
            ]
            into = [
                slice(low - start, high - start) for (low, high), (start, _) in zip(spans, asked, strict=True)
            ]
            found[tuple(into)] = part.array.part(tuple(own))
    return found
