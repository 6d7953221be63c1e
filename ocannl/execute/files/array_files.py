"""Files of named arrays: `.safetensors` and `.npz`. Reading one runs no code that it holds."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast
from zipfile import BadZipFile, ZipFile, ZipInfo

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ocannl.dialects.ir.errors import MissingFileError, StateError
from ocannl.execute.files.replace_file import replacing
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.location import here

Metadata: TypeAlias = Mapping[str, str]

# The codes of dtypes in a safetensors file.
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    **{f"{kind.upper()}{size}": np.dtype(f"{kind}{size // 8}") for kind in "iu" for size in (8, 16, 32, 64)},
    **{f"F{size}": np.dtype(f"f{size // 8}") for size in (16, 32, 64)},
}
# Errors of reading an .npz file that is damaged, or made to do damage.
DAMAGE = (BadZipFile, ValueError, OSError, EOFError, OverflowError, RuntimeError, struct.error, zlib.error)
SUFFIXES = ".safetensors", ".npz"
# The member of an .npz file that holds its metadata, as JSON.
METADATA = "__metadata__"


@dataclass(frozen=True)
class StoredArray:
    """An array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], NDArray[Any]]

    def part(self, at: tuple[slice, ...]) -> NDArray[Any]:
        """A range of it along each axis. Of a memory-mapped file, only that is loaded."""
        return self.read()[at]


@dataclass(frozen=True)
class ArrayFile:
    """The arrays of a file, none of them read yet, and what it says of itself; of several files, also the
    name of the save.
    """

    arrays: Mapping[str, StoredArray]
    metadata: Metadata
    save: str = ""


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    """Writes a file of the format that its suffix names, in place of any that is there.

    Raises `ArgumentError` for another suffix.
    """
    write = _of_format(path, _write_safetensors, _write_npz)
    with replacing(path) as aside:
        write(aside, arrays, metadata)


def open_arrays(path: Path) -> ArrayFile:
    """Reads the contents of a file, checked against its length. Arrays of `.safetensors` are memory-mapped.

    Raises `StateError` for a damaged file, `ArgumentError` for another suffix, and
    `MissingFileError`.
    """
    read = _of_format(path, _open_safetensors, _open_npz)
    if not path.exists():
        raise MissingFileError(here(f"there is no file {str(path)!r}{_beside(path)}"))
    if not path.is_file():
        raise StateError(f"{path} is no file but {'a folder' if path.is_dir() else 'a device or pipe'}")
    try:
        return read(path)
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror or error}") from None


def _beside(path: Path) -> str:
    """The thing that there is in place of a file, for a message."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f", nor a folder {str(folder)!r}"
    names = sorted(file.name for file in folder.iterdir() if file.suffix in SUFFIXES)
    near = get_close_matches(path.name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else f" in {str(folder)!r}" * (not path.is_absolute())


def texts(text: str) -> Metadata:
    """The strings by name that a file has as JSON. Raises `ValueError` for anything else."""
    found: object = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"expected strings by name, found {text[:40]}")
    return {str(name): str(value) for name, value in cast(dict[object, object], found).items()}


def _of_format(path: Path, safetensors: Any, npz: Any) -> Any:
    if path.suffix not in SUFFIXES:
        of_torch = (
            ": PyTorch's arrays are set by oc.interop.from_torch" if path.suffix in (".pt", ".pth") else ""
        )
        raise ArgumentError(
            f"state is in a file called *.safetensors or *.npz, found {str(path)!r}{of_torch}"
        )
    return safetensors if path.suffix == ".safetensors" else npz


def _write_safetensors(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    library = import_module("safetensors.numpy")
    library.save_file(
        {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}, path, {**metadata}
    )


def _open_safetensors(path: Path) -> ArrayFile:
    library = import_module("safetensors")
    try:
        with library.safe_open(path, framework="numpy"):
            """It checks that the header is right and agrees with the length of the file."""
    except library.SafetensorError as error:
        raise StateError(f"{path} is damaged, or no safetensors file: {error}") from None
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    metadata: dict[str, str] = header.pop("__metadata__", {})
    arrays: dict[str, StoredArray] = {}
    for name, entry in header.items():
        dtype, (start, end) = DTYPES.get(entry["dtype"]), entry["data_offsets"]
        if dtype is None:
            raise StateError(f"{path} has `{name}` of dtype {entry['dtype']}, which no tensor has")
        shape = tuple(entry["shape"])
        arrays[name] = StoredArray(shape, dtype, _mapped(path, 8 + size + start, end - start, dtype, shape))
    return ArrayFile(arrays, metadata)


def _mapped(
    path: Path, start: int, size: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Callable[[], NDArray[Any]]:
    """Reads part of a file as an array. Its pages are loaded when they are looked at."""

    def read() -> NDArray[Any]:
        if not size:
            return np.zeros(shape, dtype)
        return np.memmap(path, np.uint8, "r", start, (size,)).view(dtype).reshape(shape)

    return read


def _write_npz(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Metadata) -> None:
    dtypes = {name: array.dtype.name for name, array in arrays.items()}
    about = np.array(json.dumps({**metadata, "dtypes": json.dumps(dtypes)}))
    with ZipFile(path, "w") as archive:
        for name, array in {METADATA: about, **arrays}.items():
            # A date of its own would make the bytes depend on the time.
            with archive.open(ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                # NumPy's format knows its own dtypes; others are bytes, with their names in the metadata.
                kept = array.view(f"V{array.dtype.itemsize}") if array.dtype.isbuiltin == 2 else array
                np.lib.format.write_array(member, kept, allow_pickle=False)


def _open_npz(path: Path) -> ArrayFile:
    with path.open("rb") as file:
        try:
            archive = ZipFile(file)
            members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            found = {name: _npz_array(path, archive, info) for name, info in members.items()}
            metadata = {**texts(str(found.pop(METADATA).read()))} if METADATA in found else {}
            dtypes = texts(metadata.pop("dtypes", "{}"))
        except DAMAGE as error:
            raise StateError(f"{path} is damaged, or no .npz file of numbers: {error}") from None
    return ArrayFile({name: _typed(array, dtypes.get(name)) for name, array in found.items()}, metadata)


def _npz_array(path: Path, archive: ZipFile, info: ZipInfo) -> StoredArray:
    """The array of one member, whose header agrees with its size."""
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in header:
            raise ValueError(f"{info.filename} has version {version}")
        shape, _, dtype = header[version](member)
        if dtype.hasobject:
            raise ValueError(f"{info.filename} holds objects of Python")
        wanted = member.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize
        if info.file_size != wanted:
            raise ValueError(f"{info.filename} has {info.file_size} bytes, its header says {wanted}")

    def read() -> NDArray[Any]:
        with path.open("rb") as file:
            try:
                with ZipFile(file).open(info) as member:
                    return np.lib.format.read_array(member, allow_pickle=False)
            except DAMAGE as error:
                raise StateError(f"{path} is damaged: {error}") from None

    return StoredArray(shape, dtype, read)


def _typed(array: StoredArray, name: str | None) -> StoredArray:
    """An array of the dtype of a name, which NumPy's format has as bytes only."""
    dtype = next((d for d in DTYPES.values() if d.name == name), array.dtype)
    if array.dtype.kind != "V" or dtype.itemsize != array.dtype.itemsize:
        return array
    return StoredArray(array.shape, dtype, lambda: array.read().view(dtype))
