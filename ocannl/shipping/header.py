"""The header of a library for C: its memory and its indices as documented structures."""

from __future__ import annotations

from ocannl.lowering.arena import ALIGNMENT, PADDING
from ocannl.lowering.loops_to_c.names import c_names
from ocannl.lowering.loops_to_c.structures import Field, index_structure, memory_structure
from ocannl.shipping.library import Library
from ocannl.shipping.node import TYPES, Node


def header(library: Library, source: str) -> str:
    """The text of the header. `source` names what the library was compiled from."""
    names = c_names(index for index, _ in library.indices)
    indices = [(names[index], size) for index, size in library.indices]
    name, guard = library.name, f"OCANNL_{library.name.upper()}_H"
    return f"""\
/* {source}, {library.about}.

   `{name}_default()` is memory of its own, where parameters and data have the values that they had when
   it was compiled. `{name}_run` reads and writes the memory that it is given, on one thread. It neither
   allocates nor calls the system. Arrays are dense, with the last axis contiguous. Those of other memory
   begin at multiples of {ALIGNMENT} bytes, and {PADDING} bytes after their end can be read. */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {name.upper()}_WORKSPACE_BYTES {library.workspace_bytes}
{_places(library)}
{memory_structure(name, map(_field, library.nodes), library.workspace_bytes)}

{index_structure(name, indices)}

{name}_memory *{name}_default(void);
void {name}_run(const {name}_memory *memory, const {name}_indices *indices);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _field(node: Node) -> Field:
    shape = "".join(f"[{size}]" for size in node.shape) or "[1]"
    uses = [word for word, holds in (("read", node.is_read), ("written", node.is_written)) if holds]
    what = "; ".join([f"{node.label}: {node.dtype}{shape}", node.why, " and ".join(uses) or "not used"])
    return Field(TYPES[node.dtype], node.name, what)


def _places(library: Library) -> str:
    """The places of parameters in their file."""
    if not library.loaded:
        return ""
    upper = library.name.upper()
    lines = [f"#define {upper}_OFFSET_{node.name} {node.offset}" for node in library.loaded]
    about = f"/* Where the parameters, null in {library.name}_default(), are in {library.name}.bin. */"
    return "\n".join([about, *lines, ""])
