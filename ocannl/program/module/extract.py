"""From statements to a module: copies of the operations that they need, with names and variables that
depend on nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, OpResult, SSAValue, SSAValues

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import copied, drop_uses, operands_of, operations_of
from ocannl.dialects.ir.origins import named
from ocannl.dialects.routine import IndicesAttr
from ocannl.dialects.scalar.streams import StreamAttr
from ocannl.dialects.shapes.shape import Dim, Row, Shape
from ocannl.dialects.texpr.nested import nested_in
from ocannl.dialects.texpr.placement import PlacementAttr, placement_in
from ocannl.dialects.texpr.scan import ScanOp
from ocannl.dialects.texpr.scan_arguments import ArgumentOp, ResultOp
from ocannl.dialects.texpr.tensor_type import DimsAttr, TensorType, refine_type, shape_of
from ocannl.dialects.texpr.uniform import UniformOp
from ocannl.program import graph
from ocannl.program.indexing.id_checks import IdCheck
from ocannl.program.location import user_location
from ocannl.program.loops.scan_bodies import copied_whole, result_of_scan
from ocannl.program.module.labels import Labels
from ocannl.program.module.needed import Needed, needed_for
from ocannl.program.module.reads import Key, reads_of, written_by
from ocannl.program.names import memory_names
from ocannl.program.numbering import Numbering
from ocannl.program.text.numbered_types import NumberedTypes
from ocannl.program.text.unnamed import expressions_of
from ocannl.program.tracing.traced_calls import CallAttr
from ocannl.program.values import OF_NOTHING, Value, label_of, operation_of, value_of, values_of
from ocannl.runtime.locks import shared


@dataclass
class ExtractedRoutine:
    """A module with one routine, and which value of the program under construction each of its nodes
    stands for.

    `checks` are those of its ids, with the values that tell them; `extremes` are operations that need
    elements, bodies of scans included, with their copies.
    """

    module: ModuleOp
    routine: texpr.TexprRoutineOp
    values: dict[str, Value]
    copies: dict[SSAValue, SSAValue]
    checks: list[tuple[IdCheck, Value]]
    extremes: list[tuple[Operation, Operation]]

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions of nodes that have no name but a number, by label, and what the checks are of."""
        return expressions_of(self.values) | {label: f"check of the ids {ids}" for label, ids in self.checked}

    @property
    def checked(self) -> list[tuple[str, str]]:
        """The labels of the nodes that tell of a wrong id, each with the name of the ids."""
        labels = {value: label for label, value in self.values.items()}
        return [(labels[least], check.ids) for check, least in self.checks]


def _asked(ops: Iterable[texpr.TensorOp]) -> list[Value]:
    """The gradients and last values of operations that were asked for, those of one by the latest first."""
    return [
        graph.memory_of_tensor(value, kind)
        for value in map(value_of, ops)
        for kind in reversed([*value.asked])
    ]


Ends: TypeAlias = Callable[[texpr.TensorOp], bool]
"""Tells the operations in whose place memory stands."""


@dataclass(frozen=True)
class Part:
    """Statements, with those that check their ids; the checks, and all operations that these need."""

    statements: Sequence[Operation]
    checks: Sequence[IdCheck]
    ops: Sequence[texpr.TensorOp]
    ends: Ends
    asked: Sequence[Value] = ()
    """Gradients and last values among the results: operations do not keep their results, but this does."""


def part_of(statements: Sequence[Operation], ends: Ends = lambda op: False) -> Part:
    """The part of the program that statements need, down to those operations that are `ends`."""
    statements, checks, used = with_checks(statements, ends)
    asked = _asked(used)
    return Part(statements, checks, [*dict.fromkeys([*used, *map(operation_of, asked)])], ends, asked)


def extract(
    statements: Sequence[Operation], name: str, numbering: Numbering | None = None
) -> ExtractedRoutine:
    """A module with a routine of statements: copies of these and of all operations that they need."""
    with shared:
        return extract_part(part_of(statements), name, numbering)


def extract_part(part: Part, name: str, numbering: Numbering | None = None) -> ExtractedRoutine:
    """A module with a routine of copies of all that is in a part of the program, with memory in place of its
    ends.
    """
    statements, ops = part.statements, part.ops
    with shared:
        copier = _Copier(numbering or Numbering(), memory_names(ops))
        symbol = identifier(name)
        here = named(f"@{symbol}", user_location())
        routine = texpr.TexprRoutineOp(symbol, _indices([*ops, *statements]), location=here)
        copier.indices.update(routine.ranges)
        for op in (op for op in ops if isinstance(op, ArgumentOp)):
            raise OcannlError(used_outside(op, [*ops, *statements]))
        routine.body.block.add_ops(copier.copy_until(ops, part.ends) + copier.copy_all(statements))
    told = [(check, values_of(check.statement)[0]) for check in part.checks]
    module = ModuleOp([routine])
    module.location = here
    return ExtractedRoutine(module, routine, copier.values, copier.copies, told, copier.extremes)


def sketch_of(values: Iterable[Value], ends: Ends) -> Part:
    """The part of the program that computes values, down to those operations that are `ends`."""

    def stands_in(op: texpr.TensorOp) -> bool:
        return not isinstance(op, ScanOp | texpr.NodeOp) and ends(op)

    return Part([], [], needed_for(values, stands_in), stands_in)


def sketch(part: Part) -> tuple[ModuleOp, Mapping[SSAValue, SSAValue]]:
    """A module that computes what is in a part, to infer the types there; the values there."""
    copier = _Copier(Numbering(), {op: label_of(value_of(op)) for op in part.ops})
    routine = texpr.TexprRoutineOp("sketch", _indices(part.ops))
    routine.body.block.add_ops(copier.copy_until(part.ops, part.ends))
    return ModuleOp([routine]), copier.copies


def used_outside(argument: ArgumentOp, ops: Iterable[Operation]) -> str:
    """The error of a tensor of one iteration that an operation outside of its scan uses."""
    user = next(op for op in ops if argument.result in operands_of(op))
    name = f"`{argument.result.name_hint}`" if argument.result.name_hint else "this tensor"
    return at_line(
        user, f"{name} has a value only inside of the cell of a scan: return it as a carry or as y"
    )


def with_checks(
    statements: Sequence[Operation], ends: Ends
) -> tuple[list[Operation], list[IdCheck], list[texpr.TensorOp]]:
    """Statements, with those that check ids, each before those that use its operation; the checks, none again
    while the ids are the same; and the operations that all of these need, down to `ends`.
    """
    found: list[Operation] = []
    done: dict[Hashable, IdCheck] = {}
    made: set[Hashable] = set()
    checks: list[IdCheck] = []
    used: list[texpr.TensorOp] = []
    unchecked, closure = Needed(ends), Needed(ends)
    reads: dict[Value, frozenset[Key]] = {}
    for statement in statements:
        reached = unchecked.of([statement])
        own = [check for op in reached for check in value_of(op).id_checks if not ends(op)]
        new = {check.key: check for check in own if check.key not in done}
        new = {key: once_more(check) if key in made else check for key, check in new.items()}
        made.update(new)
        checks += new.values()
        added = [check.statement for check in new.values()]
        found += [*added, statement]
        used += closure.of(added)
        used += closure.add(reached)  # without another search
        done |= new
        written = {*written_by(statement)} if done else set[Key]()
        changed = [
            key for key, check in done.items() if written & reads_of(values_of(check.statement)[0], reads)
        ]
        if changed:
            for key in changed:
                del done[key]
            unchecked = Needed(ends)  # what uses these ids again checks them again
    return found, checks, used


def once_more(check: IdCheck) -> IdCheck:
    """A check that is made again, whose result has memory of its own."""
    (least,) = values_of(check.statement)
    assert isinstance(least.op, texpr.ApplyOp)
    op = copied(least.op, {})
    op.results = SSAValues([OpResult(graph.fresh_type(), op, 0)])
    statement = texpr.ForwardOp(graph.add(op))
    op.location, statement.location = least.op.location, check.statement.location
    drop_uses(statement)
    return replace(check, statement=statement)


def identifier(name: str) -> str:
    """A routine's symbol name, and the name of its compiled function."""
    return graph.hint(name) or "routine"


def _indices(ops: Sequence[Operation]) -> tuple[tuple[str, int | None], ...]:
    """The static indices that the operations use, in the order of their declaration."""
    found: dict[str, int | None] = {}
    declared: dict[str, int] = {}
    for op in nested_in(ops):
        noted, orders = op.attributes.get("indices"), op.attributes.get("declared")
        if not isinstance(noted, IndicesAttr) or not isinstance(orders, IndicesAttr):
            continue
        for (name, size), (_, order) in zip(noted.data, orders.data, strict=True):
            if name in found and found[name] != size:
                message = f"two indices are called `{name}`, with ranges {found[name]} and {size}"
                raise OcannlError(at_line(op, message))
            found[name] = size
            declared[name] = min(order or 0, declared.get(name, order or 0))
    _check_bases(ops, found)
    return tuple(sorted(found.items(), key=lambda item: declared[item[0]]))


def _check_bases(ops: Iterable[Operation], names: Iterable[str]) -> None:
    """Raises `OcannlError` where a basis is called as an index is: only padded axes of functions are."""
    for op in ops:
        if isinstance(op, texpr.DataOp) and "indices" not in op.attributes:
            axes = [axis for row in shape_of(op.result) for axis in row.axes]
            both = {axis.basis for axis in axes if isinstance(axis, Dim)}.intersection(names)
            for name in both:
                message = f"an axis has the basis `{name}`, and an index is called so, too"
                raise OcannlError(at_line(op, message))


@dataclass
class _Copier:
    """Copies operations with unique labels, keys for random numbers, and densely numbered variables."""

    numbering: Numbering
    memory: dict[Operation, str]
    """The names of what the routine keeps."""
    copies: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    statements: Counter[str] = field(default_factory=Counter[str])
    kept: frozenset[str] = field(init=False)
    labels: Labels = field(init=False)
    types: NumberedTypes = field(default_factory=NumberedTypes)
    indices: set[str] = field(default_factory=set[str])
    """The names of static indices."""
    contexts: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    """The numbers of contexts that merge buffers are from."""

    extremes: list[tuple[Operation, Operation]] = field(default_factory=list[tuple[Operation, Operation]])

    def __post_init__(self) -> None:
        self.kept = frozenset(self.memory.values())
        self.labels = Labels(self.values)

    def copy_all(self, ops: Iterable[Operation]) -> list[Operation]:
        return [copy for op in ops if (copy := self.copy(op)) is not None]

    def copy_until(self, ops: Iterable[texpr.TensorOp], ends: Ends) -> list[Operation]:
        """Copies of operations, with memory in place of those that are `ends`."""
        made = [self.stand_in(op) if ends(op) else self.copy(op) for op in ops]
        return [copy for copy in made if copy is not None]

    def copy(self, op: Operation) -> Operation | None:
        """A copy; None for the result of a scan, which the copy of that has."""
        if isinstance(op, ResultOp):
            copy = result_of_scan(op, self.copies).owner
            assert isinstance(copy, ScanOp)
            self._label(op, copy.results[op.number.data])
            return None
        if isinstance(op, ScanOp):
            return self._scan(op)
        copy = copied(op, self.copies)
        self._clear(op, copy)
        if isinstance(op, texpr.TensorOp):
            assert isinstance(copy, texpr.TensorOp)
            value, result = value_of(op), copy.result
            self._type(value, result)
            copy.location = named(self._label(op, result), op.location)
            if isinstance(copy, texpr.MergeOp):
                self._number_context(value, copy)
            if isinstance(copy, texpr.ParamOp) and (stage := value.stage) is not None:
                copy.properties["placement"] = PlacementAttr(replace(placement_in(copy), stage=stage))
        else:
            copy.location = named(self._statement(op), op.location)
        self._own(op, copy)
        return copy

    def _clear(self, op: Operation, copy: Operation) -> None:
        """Takes from a copy what only operations under construction have."""
        if OF_NOTHING in op.attributes:
            self.extremes.append((op, copy))
        copy.attributes.clear()

    def _number_context(self, value: Value, copy: texpr.MergeOp) -> None:
        number = self.contexts.setdefault(value.merged.context, len(self.contexts))
        copy.properties["context"] = IntAttr(number)

    def _own(self, op: Operation, copy: Operation) -> None:
        """Gives a copy its own variables and keys."""
        dims = copy.properties.get("dims")
        if isinstance(dims, DimsAttr):
            copy.properties["dims"] = self.types.dims_of(dims)
        if isinstance(copy, UniformOp) and isinstance(call := op.attributes.get("call"), CallAttr):
            stream = copy.stream.data
            copy.properties["stream"] = StreamAttr(
                replace(stream, key=self.numbering.key(stream.key, call.data))
            )

    def _scan(self, op: ScanOp) -> ScanOp:
        """A copy with all results, and with a body of its own."""
        values = {operand: self.copies[operand] for operand in operands_of(op)}
        copy = copied_whole(op, values)
        assert isinstance(copy, ScanOp)
        self.copies[op.result] = copy.result
        copy.location = named(self._label(op, copy.result), op.location)
        for result in copy.results:
            self._type(result, result)
        self._own(op, copy)
        self._rename(copy)
        self._body(op, copy)
        return copy

    def _body(self, op: ScanOp, copy: ScanOp) -> None:
        for argument, own in zip(op.arguments, copy.arguments, strict=True):
            self._type(argument, own)
        for inner, own in zip(operations_of(op.block), operations_of(copy.block), strict=True):
            self._clear(inner, own)
            for result, other in zip(inner.results, own.results, strict=True):
                self._type(result, other)
            name = next((result.name_hint for result in inner.results if result.name_hint), "")
            own.location = named(name or inner.name.partition(".")[2], inner.location)
            self._own(inner, own)
            if isinstance(inner, ScanOp) and isinstance(own, ScanOp):
                self._rename(own)
                self._body(inner, own)

    def _rename(self, op: ScanOp) -> None:
        """Gives a scan an index that nothing else in the routine is called."""
        ((name, count),) = op.dims.data
        number = 0
        while (own := f"{name}{number or ''}") in self.indices:
            number += 1
        self.indices.add(own)
        op.properties["dims"] = DimsAttr(((own, count),))

    def stand_in(self, op: texpr.TensorOp) -> Operation:
        """Memory of the same type: data, as values that are computed from nodes are at least f32."""
        node = texpr.DataOp("", TensorType.of(Shape(Row(), Row(), Row())))
        self._type(op.result, node.result)
        self.copies[op.result] = node.result
        node.location = named(self._label(op, node.result), op.location)
        return node

    def _type(self, value: SSAValue, copy: SSAValue) -> None:
        refine_type(copy, self.types.of(value))

    def _statement(self, op: Operation) -> str:
        """A statement's name: what it does, and how many before it do so, too."""
        kind = op.name.partition(".")[2]
        self.statements[kind] += 1
        return f"{kind} {self.statements[kind]}"

    def _label(self, op: texpr.TensorOp, copy: SSAValue) -> str:
        """Labels of nodes are unique in the module, and the names of its values say what they are. Gives the
        name of the expression.
        """
        value = value_of(op)
        if isinstance(op, texpr.OfOp) and op.source in self.copies:
            kind = "grad" if isinstance(op, texpr.GradOp) else "value"
            copy.name_hint = f"{self.copies[op.source].name_hint}_{kind}"
            return self.names.setdefault(value, f"{self.names[op.source]}.{kind}")
        if isinstance(op, texpr.MemoryOp | texpr.OfOp):
            label = self.labels.unique(self.memory[op])
        else:
            wanted = value.name_hint or f"n{len(self.values)}"
            label = self.labels.unique(wanted, self.kept)
        self.values[label] = value
        self.names[value] = label
        copy.name_hint = graph.hint(label)
        if isinstance(copy.owner, texpr.MemoryOp):
            copy.owner.properties["label"] = StringAttr(label)
        return label


def origin_of(program: ExtractedRoutine, label: str) -> tuple[Value, bool]:
    """The value of the program under construction that a node stands for, and whether it is its gradient."""
    if label in program.values:
        return program.values[label], False
    source, is_gradient = origin_of(program, label.removesuffix(".grad"))
    return graph.memory_of_tensor(source, texpr.GradOp) if is_gradient else source, True
