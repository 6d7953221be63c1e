"""Compiled routines in the cache on disk, by their text with shapes and precisions. A cached routine skips
the rest of the pipeline.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import fields, is_dataclass
from typing import Any

from ocannl.dialects.index.splits import SplitAxis
from ocannl.dialects.records import dataclass
from ocannl.lowering.entry import EntryLayout
from ocannl.passes.analysis.dataflow.routine_facts import IndexLimit, RoutineFacts
from ocannl.runtime.cache.cached_origins import CachedOrigins
from ocannl.runtime.cache.compiler_version import VERSION
from ocannl.runtime.cache.object_cache import ObjectCache, entry_key
from ocannl.runtime.interface import Exchange, Interface, NodeFacts


@dataclass(frozen=True)
class CompiledText:
    """A routine as LLVM IR or Metal text, and how it is called."""

    code: str
    interface: Interface


@dataclass(frozen=True)
class CachedRoutine:
    """A routine with the text of its scheduled loops or kernels, for reports, and their origins."""

    loops: str
    origins: CachedOrigins
    compiled: CompiledText


def routine_key(text: str, target: str, tunings: str) -> str:
    """The key of a routine: that of its text, the target, and the versions of tuned schedules and of the
    compiler.
    """
    return entry_key("routine", text, target, tunings, VERSION)


def get_routine(store: ObjectCache, key: str) -> CachedRoutine | None:
    """The routine of a key; None if the cache has none."""
    data = store.get(key)
    try:
        return None if data is None else decoded(data)
    except (zlib.error, ValueError, KeyError, TypeError):  # of another format
        return None


def put_routine(store: ObjectCache, key: str, routine: CachedRoutine) -> None:
    """Stores a routine under a key."""
    store.put(key, encoded(routine))


def encoded(routine: CachedRoutine) -> bytes:
    """The interface and lengths on a line, then all texts as they are: reading them as JSON takes long."""
    loops, origins = routine.loops, routine.origins.text
    header = {"interface": routine.compiled.interface, "loops": len(loops), "origins": len(origins)}
    line = json.dumps(header, default=_plain)
    return zlib.compress(f"{line}\n{loops}{origins}{routine.compiled.code}".encode(), level=1)


def _plain(part: Any) -> object:
    """A part of an interface that JSON does not have, by one that it has."""
    if is_dataclass(part):
        return {field.name: getattr(part, field.name) for field in fields(part)}
    return sorted(part)


def decoded(data: bytes) -> CachedRoutine:
    """The inverse of `encoded`."""
    line, texts = zlib.decompress(data).decode().split("\n", 1)
    header = json.loads(line)
    loops, texts = texts[: header["loops"]], texts[header["loops"] :]
    origins, code = texts[: header["origins"]], texts[header["origins"] :]
    compiled = CompiledText(code, _interface(header["interface"]))
    return CachedRoutine(loops, CachedOrigins(origins), compiled)


def _interface(fields: dict[str, Any]) -> Interface:
    layout, facts = fields["layout"], fields["facts"]
    layout |= {name: tuple(layout[name]) for name in ("nodes", "indices")}
    return Interface(
        fields["name"],
        EntryLayout(**layout),
        fields["ranges"],
        RoutineFacts(
            set(facts["reads"]), set(facts["writes"]), set(facts["parts"]), [*map(_limit, facts["limits"])]
        ),
        {
            label: NodeFacts(
                tuple(node["shape"]),
                node["dtype"],
                node["why"],
                node["is_kept"],
                tuple(SplitAxis(**split) for split in node["splits"]),
                tuple(node["stages"]),
            )
            for label, node in fields["nodes"].items()
        },
        fields["mesh"],
        tuple(map(_exchange, fields["exchanges"])),
        tuple(map(_interface, fields["stages"])),
    )


def _exchange(fields: dict[str, Any]) -> Exchange:
    message = fields.pop("message")
    return Exchange(**fields, message=None if message is None else tuple(message))


def _limit(fields: dict[str, Any]) -> IndexLimit:
    terms = tuple((name, coefficient) for name, coefficient in fields["terms"])
    return IndexLimit(terms, fields["least"], fields["greatest"])
