"""The header of a library for C: its memory and its indices as documented structures."""

from __future__ import annotations

from ocannl.lowering.arena import ALIGNMENT, PADDING
from ocannl.shipping.library import Library, Node

TYPES = {
    **{f"{kind}{bits}": f"{kind}{bits}_t" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    "bfloat16": "uint16_t",
    "float16": "uint16_t",
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
}
"""The types of C by dtype. Floats that C lacks are the integers of their bits."""


def header(library: Library, source: str) -> str:
    """The text of the header. `source` names what the library was compiled from."""
    name, guard = library.name, f"OCANNL_{library.name.upper()}_H"
    return f"""\
/* {source}, compiled by OCANNL for {library.target.cpu}.

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
typedef struct {name}_memory {{
{chr(10).join(_field(node) for node in library.nodes)}
    void *workspace; /* {library.workspace_bytes} bytes, whose contents do not matter */
}} {name}_memory;

{_indices(library)}
{name}_memory *{name}_default(void);
void {name}_run(const {name}_memory *memory, const {name}_indices *indices);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _field(node: Node) -> str:
    shape = "".join(f"[{size}]" for size in node.shape) or "[1]"
    uses = [word for word, holds in (("read", node.is_read), ("written", node.is_written)) if holds]
    what = "; ".join([f"{node.label}: {node.dtype}{shape}", node.why, " and ".join(uses) or "not used"])
    return f"    {TYPES[node.dtype]} *{node.name}; /* {what} */"


def _places(library: Library) -> str:
    """The places of parameters in their file."""
    if not library.loaded:
        return ""
    upper = library.name.upper()
    lines = [f"#define {upper}_OFFSET_{node.name} {node.offset}" for node in library.loaded]
    about = f"/* Where the parameters, null in {library.name}_default(), are in {library.name}.bin. */"
    return "\n".join([about, *lines, ""])


def _indices(library: Library) -> str:
    fields = [
        f"    int64_t {name};" + ("" if size is None else f" /* 0 to {size - 1} */")
        for name, size in library.indices
    ] or ["    int64_t unused;"]
    return "\n".join(
        [f"typedef struct {library.name}_indices {{", *fields, f"}} {library.name}_indices;", ""]
    )
