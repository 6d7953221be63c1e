"""A wheel with a library and a module of Python that runs it, for which NumPy is enough."""

from __future__ import annotations

import base64
import hashlib
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from ocannl.program.arguments.trees import Branch, Form
from ocannl.shipping.library import Library

WHEEL = "Wheel-Version: 1.0\nGenerator: ocannl\nRoot-Is-Purelib: false\nTag: {tag}\n"
# The time of all members, the first that the format can tell, so that equal wheels have equal bytes.
TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Call:
    """How a function is called: the labels of its arguments by their names, and of its results, in their
    form; a result that is not a node is itself.
    """

    arguments: Mapping[str, str | None]
    results: Sequence[str | complex | None]
    form: Form


def wheel(
    library: Library, shared: bytes, folder: Path, call: Call | None, source: str, version: str
) -> Path:
    """Writes the wheel of a version into a folder, and returns its path."""
    name, tag = library.name, f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"{name}-{version}.dist-info"
    members = {
        f"{name}/__init__.py": module_text(library, call, source).encode(),
        f"{name}/library.bin": shared,
        f"{name}/py.typed": b"",
        f"{info}/METADATA": _metadata(library, source, version).encode(),
        f"{info}/WHEEL": WHEEL.format(tag=tag).encode(),
    }
    if library.loaded:
        members[f"{name}/parameters.bin"] = library.file_contents()
    record = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{name}-{version}-{tag}.whl"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(ZipInfo(member, TIME), data, ZIP_DEFLATED)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _metadata(library: Library, source: str, version: str) -> str:
    return (
        f"Metadata-Version: 2.1\nName: {library.name}\nVersion: {version}\n"
        f"Summary: {source}, compiled by OCANNL for {library.target.cpu}\nRequires-Dist: numpy\n"
        "Requires-Python: >=3.9\n"
    )


def module_text(library: Library, call: Call | None, source: str) -> str:
    """The module of the wheel."""
    nodes = [(n.label, n.shape, _stored(n.dtype), n.offset, n.bytes) for n in library.nodes]
    text = (files("ocannl.shipping") / "assets" / "module.py.txt").read_text("utf-8")
    parts = {
        "@SOURCE@": f"{source}, compiled by OCANNL for {library.target.cpu}",
        "@NAME@": library.name,
        "@NODES@": "".join(f"    {node!r},\n" for node in nodes),
        "@INDICES@": repr(tuple(library.indices)),
        "@CALL@": "" if call is None else _call_text(library.name, call),
    }
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


def _stored(dtype: str) -> str:
    """The dtype of NumPy; the integers of the bits for those that it lacks."""
    small = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
    return small.get(dtype, dtype)


def _call_text(name: str, call: Call) -> str:
    """The function that copies arguments in, runs, and copies results out."""
    used = [(argument, label) for argument, label in call.arguments.items() if label]
    lines = [f"    arrays[{label!r}][...] = {argument}" for argument, label in used]
    leaves = iter([f"arrays[{r!r}].copy()[()]" if isinstance(r, str) else repr(r) for r in call.results])
    result = _built(call.form, leaves)
    body = "\n".join([*lines, "    run()", f"    return {result}"])
    return f"\n\ndef {name}({', '.join(call.arguments)}):\n{body}\n"


def _built(form: Form, leaves: Any) -> str:
    """An expression that builds the form of leaves: dictionaries and lists, else tuples."""
    if not isinstance(form, Branch):
        return next(leaves)
    parts = [_built(part, leaves) for part in form.parts]
    if form.kind is dict:
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(form.keys, parts, strict=True)) + "}"
    if form.kind is list:
        return f"[{', '.join(parts)}]"
    return f"({', '.join(parts)},)"
