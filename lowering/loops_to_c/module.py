"""Whole modules as C text: a function for each different step of a routine, and one for each routine."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ocannl.dialects.index.memref import loaded_type, memref_shape
from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.loops import CollectiveOp, FuncOp, GroupOp, NestOp, RepeatOp, StepOp
from ocannl.dialects.loops.schedule import schedule_text
from ocannl.lowering.arena import arena_ranges, disjoint
from ocannl.lowering.entry import used_names
from ocannl.lowering.loops_to_c.comments import comment, user_lines
from ocannl.lowering.loops_to_c.functions import definitions
from ocannl.lowering.loops_to_c.names import c_name, variable_names
from ocannl.lowering.loops_to_c.nest import NestWriter, declared
from ocannl.lowering.loops_to_c.routine import Call, RoutineWriter, structures
from ocannl.lowering.loops_to_c.types import c_type
from ocannl.passes.analysis.equality.structural_equality import StructuralNumbering
from ocannl.passes.analysis.nests import declaration, has_points, uncalled, written_nodes

# No product is fused with a sum: error terms of sums depend on each rounding.
HEAD = """\
// C11, to compile with -O3 -march=native -fno-strict-aliasing -lm, and -fopenmp for threads and vectors.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
#ifdef _OPENMP
#define PRAGMA(...) _Pragma(#__VA_ARGS__)
#define OMP(...) PRAGMA(omp __VA_ARGS__)
#else
#define OMP(...)
#endif"""
MOST_COLUMNS = 100


def to_c(module: ModuleOp, library: str | None = None) -> str:
    """The C text of all routines of a module. Each is a function `NAME_run(memory, indices)`, which takes
    the structures `NAME_memory` and `NAME_indices`.

    The last routine of a `library` has its name, and the header of that name has its structures.

    Raises `OcannlError` for what is no loops yet, and for operations that C lacks.
    """
    writer = _Writer(library, uncalled(module)[-1:])
    for op in operations_of(module.body.block):
        if not isinstance(op, FuncOp):
            raise OcannlError(at_line(op, f"`{op.name}` has no loops yet: run the pipeline first, `-p c`"))
        writer.routine(op)
    head = HEAD if library is None else f'{HEAD}\n\n#include "{library}.h"'
    return "\n\n".join([head, *definitions(writer.parts), *writer.parts]) + "\n"


class _Writer:
    def __init__(self, library: str | None, last: Sequence[FuncOp]) -> None:
        self.library, self.last = library, last
        self.parts: list[str] = []
        self.names = variable_names()
        self.structures = StructuralNumbering()
        self.known: dict[Hashable, tuple[str, Sequence[str]]] = {}

    def routine(self, func: FuncOp) -> None:
        steps = [self.step(func, op) for op in operations_of(func.body.block) if isinstance(op, StepOp)]
        name = c_name(func.sym_name.data)
        if self.library is not None and func in self.last:
            name = self.library
        else:
            self.parts.append(structures(func, name))
        called = [step for step in steps if step is not None]
        self.parts.append(RoutineWriter(func, self.names.taken).write(name, called))

    def step(self, func: FuncOp, step: Operation) -> Call | RepeatOp | None:
        """The call of a step's function, one for all steps that are equal but for names; None of an empty
        step.
        """
        if isinstance(step, RepeatOp):
            return step
        if isinstance(step, CollectiveOp):
            raise OcannlError(at_line(step, "C has no exchanges among ranks, and is for one device"))
        if not isinstance(step, NestOp | GroupOp):
            message = f"`{step.name}` is for a GPU: for C, run `-p c` in place of lower-loops-to-kernels"
            raise OcannlError(at_line(step, message))
        if not has_points(step):
            return None
        what, nodes = self.structures.number_and_nodes(step)
        alone = disjoint(nodes, arena_ranges(nodes))
        key = what, tuple([node in alone for node in nodes])
        lines, known = user_lines(step), self.known.get(key)
        if known is not None:
            return Call(*known, nodes, lines)
        indices = used_names(step, func.ranges)[1]
        kind = "nest" if isinstance(step, NestOp) else "group"
        self.known[key] = name, indices = self.names.fresh(f"{c_name(step.label.data)}_{kind}"), indices
        self.parts.append("\n".join([*lines, *self.function(step, name, nodes, alone, indices)]))
        return Call(name, indices, nodes)

    def function(
        self,
        step: NestOp | GroupOp,
        name: str,
        nodes: Sequence[SSAValue],
        alone: set[SSAValue],
        indices: Sequence[str],
    ) -> list[str]:
        names, written = variable_names(), written_nodes(step)
        arrays = {node: names.of(node, declaration(node).label.data) for node in nodes}
        parameters = [
            declared(
                f"{'' if node in written else 'const '}{c_type(loaded_type(node))}",
                arrays[node],
                memref_shape(node),
                "restrict " if node in alone else "",
            )
            for node in nodes
        ]
        parameters += [f"int64_t {names[index]}" for index in indices]
        writer = NestWriter(names, arrays)
        writer.write(step)
        schedule = [] if step.schedule is None else [comment(f"schedule {schedule_text(step.schedule.data)}")]
        return [*schedule, *_heading(name, parameters), *writer.lines, "}"]


def _heading(name: str, parameters: Sequence[str]) -> list[str]:
    whole = f"static void {name}({', '.join(parameters)}) {{"
    if len(whole) <= MOST_COLUMNS:
        return [whole]
    *first, last = parameters
    return [f"static void {name}(", *(f"    {parameter}," for parameter in first), f"    {last}) {{"]
