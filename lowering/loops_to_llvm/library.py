"""LLVM IR of a library around a routine: its memory, and a function that C can call."""

from __future__ import annotations

from collections.abc import Sequence

from ocannl.dialects.records import dataclass
from ocannl.lowering.arena import ALIGNMENT, PADDING
from ocannl.lowering.entry import EntryLayout, entry_symbol


@dataclass(frozen=True)
class LibraryArray:
    """The bytes of a node; without contents, zeros or, where it is not `inside`, the caller's own memory."""

    bytes: int
    contents: bytes | None = None
    is_inside: bool = True


def library_text(
    text: str, layout: EntryLayout, routine: str, name: str, arrays: Sequence[LibraryArray], prefix: str = ""
) -> str:
    """The text of a routine with three symbols more: `NAME_memory`, a struct with the addresses of its nodes
    in the order of the layout, and of a workspace; `NAME_run(memory, indices)`, which runs it on such a
    struct and an array of 8-byte indices; and `NAME_default()`, the address of `NAME_memory`. Nothing else
    can be seen from outside. `prefix` stands before all.
    """
    entry = f'define void @"{entry_symbol(routine)}"'
    assert entry in text
    inner = text.replace("define void @", "define internal void @")
    pointers = ["ptr", *["ptr"] * len(arrays)]
    addresses = [f"ptr @array.{k}" if a.is_inside else "ptr null" for k, a in enumerate(arrays)]
    struct = f"{{ {', '.join(pointers)} }}"
    workspace = max(layout.arena_bytes, 1) + PADDING
    globals = [
        *(f"@array.{k} = internal global {_contents(a)}" for k, a in enumerate(arrays) if a.is_inside),
        f"@workspace = internal global [{workspace} x i8] zeroinitializer, align {ALIGNMENT}",
        "@alone = internal global [4 x i64] [i64 1, i64 0, i64 0, i64 0], align 8",
        f"@{name}_memory = global {struct} {{ {', '.join([*addresses, 'ptr @workspace'])} }}, align 8",
    ]
    default = f"define ptr @{name}_default() {{\n  ret ptr @{name}_memory\n}}"
    return "\n".join([prefix, *globals, default, _run(layout, routine, name, struct), inner])


def _contents(array: LibraryArray) -> str:
    """The value of a global: bytes, and zeros after them."""
    if array.contents is None:
        return f"[{array.bytes + PADDING} x i8] zeroinitializer, align {ALIGNMENT}"
    data = "".join([f"\\{byte:02X}" for byte in array.contents])
    type = f"{{ [{array.bytes} x i8], [{PADDING} x i8] }}"
    inside = f'{{ [{array.bytes} x i8] c"{data}", [{PADDING} x i8] zeroinitializer }}'
    return f"{type} {inside}, align {ALIGNMENT}"


def _run(layout: EntryLayout, routine: str, name: str, struct: str) -> str:
    """The function that fills the slots of the entry and calls it."""
    lines = [f"  %args = alloca [{layout.slots} x i64], align {ALIGNMENT}"]

    def slot(number: int, value: str) -> None:
        lines.append(f"  %to.{number} = getelementptr i64, ptr %args, i64 {number}")
        lines.append(f"  store i64 {value}, ptr %to.{number}, align 8")

    fields = [*range(layout.node_slot, layout.node_slot + len(layout.nodes)), layout.arena_slot]
    for at, number in enumerate(fields):
        lines.append(f"  %field.{at} = getelementptr {struct}, ptr %memory, i32 0, i32 {at}")
        lines.append(f"  %pointer.{at} = load ptr, ptr %field.{at}")
        lines.append(f"  %address.{at} = ptrtoint ptr %pointer.{at} to i64")
        slot(number, f"%address.{at}")
    for at in range(len(layout.indices)):
        lines.append(f"  %from.{at} = getelementptr i64, ptr %indices, i64 {at}")
        lines.append(f"  %index.{at} = load i64, ptr %from.{at}, align 8")
        slot(layout.index_slot + at, f"%index.{at}")
    if layout.is_parallel:
        lines.append("  %team = ptrtoint ptr @alone to i64")
        slot(layout.team_slot, "%team")
    call = f'  call void @"{entry_symbol(routine)}"(ptr %args)'
    return "\n".join(
        [f"define void @{name}_run(ptr %memory, ptr %indices) {{", *lines, call, "  ret void", "}"]
    )
