"""Line tables: metadata of LLVM that leads from instructions to lines of the user's program (DWARF)."""

from __future__ import annotations

from pathlib import PurePath

from xdsl.ir import Operation

from ocannl.dialects.ir.origins import at

# The number of the first node; those before it are of metadata of other kinds, such as non-temporal stores.
FIRST_NODE = 1


class DebugInfo:
    """The metadata of a module. A function is written at the line of its first origin, and an instruction at
    that of the scalar operation that it is for. `emission` is LLVM's kind of debug information.
    """

    is_shared = False
    """Whether equal steps are one function, of which one has the lines."""

    def __init__(self, emission: str = "LineTablesOnly") -> None:
        self._nodes: dict[str, int] = {}
        self._unit = self._node(
            "distinct !DICompileUnit(language: DW_LANG_Python, file: "
            f'{self._file("ocannl")}, producer: "ocannl", isOptimized: true, runtimeVersion: 0, '
            f"emissionKind: {emission})"
        )
        self._count = 0
        self._files: dict[str, str] = {}

    def function(self, name: str, op: Operation) -> str | None:
        """The node of a function that runs an operation, which its definition names as `!dbg`; None without a
        line.
        """
        where = self.place_of(op)
        if where is None:
            return None
        self._count += 1  # Functions at one line differ.
        file, line, own = self._file(where[0]), where[1], _quoted(name)
        names = f'name: "{own}", linkageName: "{own}.{self._count}", scope: {file}, file: {file}'
        type = self._node("!DISubroutineType(types: !{})")
        kind = f"type: {type}, spFlags: DISPFlagDefinition, unit: {self._unit}"
        scope = self._node(f"distinct !DISubprogram({names}, line: {line}, scopeLine: {line}, {kind})")
        self._files[scope] = file
        return scope

    def place(self, function: str, op: Operation) -> str:
        """The text after an instruction for an operation in a function; empty without a line."""
        where = self.place_of(op)
        if where is None:
            return ""
        file = self._file(where[0])
        scope = function
        if file != self._files[function]:
            scope = self._node(f"!DILexicalBlockFile(scope: {function}, file: {file}, discriminator: 0)")
        return f", !dbg {self._node(f'!DILocation(line: {where[1]}, scope: {scope})')}"

    def place_of(self, op: Operation) -> tuple[str, int] | None:
        """The file and the line of an operation."""
        where = at(op.location)
        return None if where is None else (where.filename.data, where.line.data)

    def text(self) -> str:
        """The metadata, for the end of the module."""
        version = self._node('!{i32 2, !"Debug Info Version", i32 3}')
        format = self._node('!{i32 2, !"Dwarf Version", i32 4}')
        nodes = [f"!{number} = {text}" for text, number in self._nodes.items()]
        heads = [f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{version}, {format}}}"]
        return "\n".join([*heads, *nodes])

    def _file(self, path: str) -> str:
        whole = PurePath(path)
        names = f'filename: "{_quoted(whole.name)}", directory: "{_quoted(str(whole.parent))}"'
        return self._node(f"!DIFile({names})")

    def _node(self, text: str) -> str:
        return f"!{self._nodes.setdefault(text, FIRST_NODE + len(self._nodes))}"


def _quoted(text: str) -> str:
    """Text in a string of LLVM IR."""
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode())
