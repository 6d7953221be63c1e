"""Routines as functions of C that call those of their steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import SSAValue

from ocannl.dialects.assign import NodeOp
from ocannl.dialects.index.memref import element_type, memref_shape
from ocannl.dialects.loops import FuncOp, RepeatOp
from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.small_floats import small_format
from ocannl.lowering.arena import PADDING
from ocannl.lowering.c_family.text_lines import TextLines
from ocannl.lowering.c_family.variable_names import VariableNames
from ocannl.lowering.entry import EntrySlots, entry_layout
from ocannl.lowering.loops_to_c.comments import comment
from ocannl.lowering.loops_to_c.names import OWN, RESERVED, c_name, c_names
from ocannl.lowering.loops_to_c.structures import Field, index_structure, memory_structure
from ocannl.lowering.loops_to_c.types import stored_type
from ocannl.passes.analysis.nests import declaration, nodes


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a step's function, with the comments before it."""

    function: str
    indices: Sequence[str]
    nodes: Sequence[SSAValue]
    comments: Sequence[str] = ()


def structures(func: FuncOp, name: str) -> str:
    """The structures that a routine takes."""
    layout = entry_layout(func)
    own, names = {node.label.data: node for node in nodes(func)}, c_names(layout.nodes)
    fields = [Field(stored_type(element_type(own[n].result)), names[n], _about(own[n])) for n in layout.nodes]
    indices = c_names(layout.indices)
    return "\n\n".join(
        [
            memory_structure(name, fields, max(layout.arena_bytes, 1) + PADDING),
            index_structure(name, [(indices[index], func.ranges[index]) for index in layout.indices]),
        ]
    )


def _about(node: NodeOp) -> str:
    shape = "".join([f"[{size}]" for size in memref_shape(node.result)]) or "[1]"
    return f"{node.label.data}: {element_type(node.result)}{shape}; {node.why.data}"


class RoutineWriter(TextLines):
    """Writes the function of a routine; `functions` are the names of others."""

    def __init__(self, func: FuncOp, functions: Collection[str]) -> None:
        super().__init__(VariableNames(RESERVED.union(functions), OWN))
        self.func, self.slots = func, EntrySlots(func)

    def write(self, name: str, steps: Sequence[Call | RepeatOp]) -> str:
        """The function of a routine. Its name is none of a function of the C library."""
        self.addresses({node for step in steps for node in step.nodes})
        layout = self.slots.layout
        fields = c_names(layout.indices)
        used = {index for step in steps for index in self.used_indices(step)}
        for index in layout.indices:
            if index in used:
                self.line(f"const int64_t {self.variables[index]} = indices->{fields[index]};")
        if not used:
            self.line("(void)indices;")
        for step in steps:
            if isinstance(step, RepeatOp):
                self.repeat(step)
            else:
                self.lines += [f"  {text}" for text in step.comments]
                given = [self.node(node) for node in step.nodes]
                given += [self.variables[index] for index in step.indices]
                self.line(f"{step.function}({', '.join(given)});")
        heading = f"void {name}_run(const {name}_memory *memory, const {name}_indices *indices) {{"
        return "\n".join([heading, *self.lines, "}"])

    def node(self, node: SSAValue) -> str:
        return self.variables.of(node, declaration(node).label.data)

    def addresses(self, used: Collection[SSAValue]) -> None:
        """Declares the addresses of the nodes that are used."""
        layout = self.slots.layout
        fields = c_names(layout.nodes)
        starts = {node: start for node, start in self.slots.starts.items() if node in used}
        if any(slot == layout.arena_slot for slot, _ in starts.values()):
            self.line("char *const work = memory->workspace;")
        if not starts:
            self.line("(void)memory;")
        for node, (slot, offset) in starts.items():
            is_local = slot == layout.arena_slot
            place = f"work + {offset}" if is_local else f"memory->{fields[declaration(node).label.data]}"
            self.line(f"void *const {self.node(node)} = {place};")

    def used_indices(self, step: Call | RepeatOp) -> Sequence[str]:
        if not isinstance(step, RepeatOp):
            return step.indices
        return [index for index in entry_layout(step.func).indices if index != step.index.data]

    def repeat(self, step: RepeatOp) -> None:
        """A loop over the function of a body."""
        layout, body = entry_layout(step.func), c_name(step.body.data)
        fields, indices = c_names(layout.nodes), c_names(layout.indices)
        given = {fields[label]: self.node(node) for label, node in step.bound.items()}
        given["workspace"] = "0" if step.workspace is None else self.node(step.workspace)
        at = {indices[index]: self.variables[index] for index in layout.indices}
        self.line(comment(f"@{step.body.data}"))
        with self.braces(self.heading(step.index.data, step.count.data)):
            if step.flag is not None:
                self.line(f"if ({self.is_zero(step.flag)}) break;")
            self.line(f"const {body}_memory nodes = {{{_designated(given)}}};")
            self.line(f"const {body}_indices at = {{{_designated(at)}}};")
            self.line(f"{body}_run(&nodes, &at);")

    def is_zero(self, flag: SSAValue) -> str:
        element = element_type(flag)
        format, number = small_format(element), f"*(const {stored_type(element)} *){self.node(flag)}"
        return f"{number} == 0" if format is None else f"({number} & {(1 << format.bits - 1) - 1}) == 0"


def _designated(values: dict[str, str]) -> str:
    return ", ".join([f".{field} = {value}" for field, value in values.items()])
