"""Nodes that passes have made for layers are there for those that were left out, too."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest
from support.layered import MODELS, step_of
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ocannl.dialects.loops import FuncOp, LoadOp, NestOp, ReduceOp, StoreOp
from ocannl.dialects.loops.late_bodies import late_body
from ocannl.dialects.loops.schedule import Schedule, ScheduleAttr
from ocannl.lowering.assign_to_loops import LowerAssignToLoopsPass
from ocannl.lowering.pipelines import PIPELINES, run_passes
from ocannl.passes.analysis.dataflow.kept_copies import written
from ocannl.passes.analysis.dataflow.routine_facts import routine_facts
from ocannl.passes.analysis.equality.structural_equality import StructuralNumbering
from ocannl.passes.analysis.names import Names
from ocannl.passes.analysis.nests import (
    Step,
    all_steps,
    declaration,
    functions,
    nests,
    nodes,
    operations,
    single_nests,
    steps,
    steps_using,
    touches,
    used_nodes,
    written_nodes,
)
from ocannl.passes.loops.schedule.pack import copy_nest
from ocannl.passes.loops.unfold_layers import UnfoldLayersPass
from ocannl.passes.texpr.fold_layers import fold_layers
from ocannl.program.module.extract import extract
from ocannl.runtime.cpu.native import NativeDevice
from ocannl.runtime.interface import Interface

PASSES = PIPELINES["cpu"]
BEFORE = PASSES[: PASSES.index(LowerAssignToLoopsPass) + 1]
STRUCTURES = StructuralNumbering()


def stores(nest: NestOp) -> list[StoreOp]:
    return [op for op in nest.body.block.ops if isinstance(op, StoreOp)]


class CopyOperandsPass(ModulePass):
    """Copies an operand of each sum; the labels of copies tell no layer."""

    name = "copy-operands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        labels = Names(set())
        for nest in [nest for func in functions(op) for nest in nests(func)]:
            sums = (load.parent_op() for load in operations(nest.body.block) if isinstance(load, LoadOp))
            found = next((reduce for reduce in sums if isinstance(reduce, ReduceOp)), None)
            if found is not None and nest.space.data:
                load = next(op for op in found.body.block.ops if isinstance(op, LoadOp))
                copy = copy_nest(nest, load, Schedule(lanes=(nest.space.names[-1], 1)), None, labels)
                label = StringAttr(labels.fresh("operand"))
                for made in (copy, declaration(stores(copy)[0].node)):
                    made.properties["label"] = label


def step_with_copies(model: str) -> tuple[bool, FuncOp]:
    """Whether layers were left out, and the step with all of them."""
    module = extract(step_of(MODELS[model], 8)[1].statements, "step").module
    run_passes(module, BEFORE)
    is_folded = any("layers" in str(func.attributes) for func in functions(module))
    run_passes(module, [CopyOperandsPass, UnfoldLayersPass])
    (func,) = functions(module)
    return is_folded, func


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["perceptron", "convolutions"])
def test_copies_of_operands(model: str):
    was_folded, folded = step_with_copies(model)
    with patch.object(fold_layers, "LEAST_LAYERS", 1000):
        _, plain = step_with_copies(model)
    assert was_folded
    folded.verify()
    assert Counter(map(STRUCTURES.number, steps(folded))) == Counter(map(STRUCTURES.number, steps(plain)))
    found, wanted = (Counter(str(node.result.type) for node in nodes(func)) for func in (folded, plain))
    assert found == wanted
    labels = [node.label.data for node in nodes(folded)]
    assert len(set(labels)) == len(labels)


def unfolded(model: str, last: str) -> tuple[ModuleOp, FuncOp]:
    module = extract(step_of(MODELS[model], 8)[1].statements, "step").module
    names = [each.name for each in PASSES]
    run_passes(module, PASSES[: names.index(last) + 1])
    (func,) = functions(module)
    return module, func


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", MODELS)
def test_bodies_that_are_not_made_tell_what_those_that_are_do(model: str):
    _, func = unfolded(model, "unfold-layers")
    late = [nest for nest in single_nests(func) if late_body(nest) is not None]
    numbering = StructuralNumbering()

    def told() -> list[object]:
        each = [
            (
                used_nodes(nest),
                written_nodes(nest),
                [(type(op), str(op.indices), node) for op, node in touches(nest)],
                numbering.number_and_nodes(nest),
            )
            for nest in single_nests(func)
        ]
        used = [node.label.data for node in nodes(func) if node.result.first_use is not None]
        using: dict[SSAValue, list[Step]] = {}
        for step in all_steps(func):
            for node in used_nodes(step):
                using.setdefault(node, []).append(step)
        assert {node: steps_using(func, node) for node in using} == using
        return [each, used, routine_facts(func), written(func)]

    before = told()
    assert len(late) >= 4
    assert all(late_body(nest) is not None for nest in late)
    func.verify()
    assert all(late_body(nest) is None for nest in late)
    assert told() == before


@pytest.mark.sampled(5)
@pytest.mark.parametrize("model", MODELS)
def test_compiling_makes_no_body_of_a_layer_left_out(model: str):
    module, func = unfolded(model, "plan-memory")
    late = [nest for nest in single_nests(func) if late_body(nest) is not None]
    text = NativeDevice().text(module)
    Interface.of(func)
    assert late
    assert all(late_body(nest) is not None for nest in late)
    assert module.clone().is_structurally_equivalent(module)
    assert NativeDevice().text(module) == text


def test_what_changed_is_not_taken_for_its_pattern():
    _, func = unfolded("perceptron", "unfold-layers")
    nest = next(nest for nest in single_nests(func) if late_body(nest) is not None)
    numbering = StructuralNumbering()
    number = numbering.number(nest)
    nest.properties["schedule"] = ScheduleAttr(Schedule(chains=7))
    assert numbering.number(nest) != number
