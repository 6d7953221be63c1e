"""The structures of C that a routine takes: the addresses of its arrays, and its static indices."""

from __future__ import annotations

from collections.abc import Iterable

from ocannl.dialects.records import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """An array of a routine: the type of its elements, its name in C, and what it is."""

    type: str
    name: str
    about: str


def memory_structure(name: str, fields: Iterable[Field], workspace_bytes: int) -> str:
    lines = [f"    {field.type} *{field.name}; /* {_safe(field.about)} */" for field in fields]
    workspace = f"    void *workspace; /* {workspace_bytes} bytes, whose contents do not matter */"
    return "\n".join([f"typedef struct {name}_memory {{", *lines, workspace, f"}} {name}_memory;"])


def index_structure(name: str, indices: Iterable[tuple[str, int | None]]) -> str:
    """`indices` are names of C with their sizes, where they have some."""
    fields = [
        f"    int64_t {index};" + ("" if size is None else f" /* 0 to {size - 1} */")
        for index, size in indices
    ] or ["    int64_t unused;"]
    return "\n".join([f"typedef struct {name}_indices {{", *fields, f"}} {name}_indices;"])


def _safe(text: str) -> str:
    return text.replace("*/", "* /")
