"""Saving and loading on a mesh: each rank writes, and reads, its own parts."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocannl.execute.files.array_files import ArrayFile, Metadata, StoredArray
from ocannl.execute.files.replace_file import check_folder
from ocannl.execute.files.sharded_files import Index, Part, digest, file_name, write_index, write_parts
from ocannl.execute.memory.node import Node, stored
from ocannl.program.memory.state import Held
from ocannl.runtime.collectives.device import MeshDevice
from ocannl.runtime.collectives.memory import MeshMemory
from ocannl.runtime.device import Memory


def save_on_mesh(
    device: MeshDevice, path: Path, values: Mapping[str, Held | Memory], about: Metadata
) -> None:
    """Writes the parts of each rank to a file of its own, and then the index. Part of no array is written
    twice.

    Raises `ArgumentError` where there is no folder, `RankLost` where a rank does not come.
    """
    check_folder(path)
    engine, parts = device.engine, _parts_of_ranks(values)
    own = {
        rank: {part.key: _array(values[part.name], rank) for part in parts.get(rank, ())}
        for rank in engine.ranks
    }
    digests = engine.all_parts(engine.together([partial(digest, arrays) for arrays in own.values()]))
    save = hashlib.blake2b(b"".join(map(bytes, digests)), digest_size=8).hexdigest()
    names = {rank: file_name(path, save, k, len(parts)) for k, rank in enumerate(parts, 1)}

    def write(rank: int) -> NDArray[np.int64]:
        if rank not in parts:
            return np.zeros(1, np.int64)
        return np.array([write_parts(path.with_name(names[rank]), save, parts[rank], own[rank])])

    lengths = engine.all_parts(engine.together([partial(write, rank) for rank in engine.ranks]))
    files = {part.key: names[rank] for rank in parts for part in parts[rank]}
    index = Index(about, files, save, {name: int(lengths[rank][0]) for rank, name in names.items()})
    device.once(lambda: write_index(path, index, sum(map(_bytes, values.values()))))


def _parts_of_ranks(values: Mapping[str, Held | Memory]) -> dict[int, list[Part]]:
    """The parts that each rank writes, of the ranks that write any: the same on all ranks."""
    found: dict[int, list[Part]] = {}
    for name, value in values.items():
        if isinstance(value, MeshMemory):
            for rank, at in value.shards().items():
                starts, sizes = (
                    zip(*((r.start, r.stop - r.start) for r in at), strict=True) if at else ((), ())
                )
                found.setdefault(rank, []).append(Part(name, starts, sizes, value.shape))
        else:
            shape = value.read().shape
            found.setdefault(0, []).append(Part(name, (0,) * len(shape), shape, shape))
    return {rank: found[rank] for rank in sorted(found)}


def _array(value: Held | Memory, rank: int) -> NDArray[Any]:
    return value.shard(rank) if isinstance(value, MeshMemory) else value.read()


def _bytes(value: Held | Memory) -> int:
    return value.read().nbytes if isinstance(value, Held) else math.prod(value.shape) * value.dtype.itemsize


def check_same_file(device: MeshDevice, path: Path, file: ArrayFile) -> None:
    """Raises `DeviceError` where ranks are about to load different files."""
    arrays = {name: [str(array.dtype), array.shape] for name, array in sorted(file.arrays.items())}
    text = json.dumps([arrays, sorted(file.metadata.items()), file.save])
    device.engine.check_same(f"the state in {path}", hashlib.blake2b(text.encode()).digest())


def parts_to_set(node: Node, array: StoredArray, what: str) -> Callable[[], None] | None:
    """Reads what the ranks of this process hold of a node, and gives what sets it; None for one that is not
    in parts.
    """
    memory = node.memory
    if not isinstance(memory, MeshMemory) or not (memory.splits or memory.stages):
        return None
    found = [stored(array.part(at), memory.dtype, what) for at in memory.held()]

    def set_parts() -> None:
        memory.write_shards(found)
        node.written = True

    return set_parts
