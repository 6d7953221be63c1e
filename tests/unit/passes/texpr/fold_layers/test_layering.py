"""The layer of each value, against the names that models give to the parameters of their layers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.layered import MODELS, PARTS, Part, layer, product, residual, stack, step_of
from xdsl.ir import SSAValue

import ocannl as oc
from ocannl.dialects.ir.op_helpers import operations_of
from ocannl.dialects.texpr import CommentOp, TexprRoutineOp
from ocannl.lowering.pipelines import PIPELINES, run_passes
from ocannl.passes.texpr.fold_layers.fold_layers import FoldLayersPass
from ocannl.passes.texpr.fold_layers.layering import NO_LAYER, Layering, NumberedStatements
from ocannl.program.module.extract import extract

PASSES = PIPELINES["cpu"]
NAME = re.compile(r"(?:decoder\.)?layer(\d+)[._](.*)")


def layering_of(code: oc.Code) -> Layering | None:
    """That of the longest stretch that has layers."""
    module = extract(code.statements, "step").module
    run_passes(module, PASSES[: PASSES.index(FoldLayersPass)])
    (routine,) = operations_of(module.body.block)
    assert isinstance(routine, TexprRoutineOp)
    statements = [op for op in operations_of(routine.body.block) if not isinstance(op, CommentOp)]
    numbered = NumberedStatements(statements)
    found = [(stretch, numbered.boundary(stretch)) for stretch in numbered.stretches]
    of_layers = [(stretch, boundary) for stretch, boundary in found if boundary is not None]
    return Layering(numbered, *max(of_layers, key=lambda f: f[0].stop - f[0].start)) if of_layers else None


def named(value: SSAValue) -> tuple[int, str] | None:
    """The layer, and what it is there, in the name of a parameter or gradient."""
    match = NAME.fullmatch(str(value.name_hint))
    return (int(match[1]), match[2]) if match else None


def levels_of(layering: Layering) -> dict[str, dict[int, int]]:
    """For what has such names, the level by the layer in the name."""
    found: dict[str, dict[int, int]] = {}
    for value, level in zip(layering.code.results, layering.level.tolist(), strict=True):
        name = named(value)
        if name is not None:
            found.setdefault(name[1], {})[name[0]] = level
    return found


@settings(max_examples=10)
@given(st.lists(st.sampled_from(PARTS[1:]), max_size=3), st.booleans(), st.integers(6, 9))
def test_parameters_and_gradients_belong_to_their_layers(parts: list[Part], is_residual: bool, layers: int):
    """The end of the last layer may count to the one before: no whole layer follows."""
    made = residual if is_residual else layer
    found = layering_of(step_of(stack(made([product, *parts])), layers)[1])
    assert found is not None
    assert found.layers in (layers, layers - 1)
    for levels in levels_of(found).values():
        assert set(levels) == set(range(layers))
        shift = levels[layers - 2] - (layers - 2)
        last = levels.pop(layers - 1)
        assert levels == {k: max(k + shift, 0) for k in levels}
        assert last in (layers - 1 + shift, layers - 2 + shift)


@pytest.mark.parametrize("model", MODELS)
def test_pairs_are_the_same_value_in_two_layers(model: str):
    found = layering_of(step_of(MODELS[model], 7)[1])
    assert found is not None
    own, following = found.pairs()
    assert len(own) > 0
    results = found.code.results
    for value, other in zip(own.tolist(), following.tolist(), strict=True):
        assert found.level[other] == found.level[value] + 1
        assert results[value].type == results[other].type
        names = named(results[value]), named(results[other])
        if names[0] is not None and names[1] is not None and names[0][0]:
            assert names[1] == (names[0][0] + 1, names[0][1])


@pytest.mark.parametrize("model", MODELS)
def test_values_are_used_in_their_layer_and_the_one_beside_it(model: str):
    found = layering_of(step_of(MODELS[model], 7)[1])
    assert found is not None
    of = found.of
    for place, values in enumerate(found.code.values):
        for level in found.level[values].tolist():
            assert NO_LAYER in (level, of[place]) or level in (of[place] - 1, of[place])
    assert (found.level == NO_LAYER).any()
    assert set(found.level.tolist()) == {NO_LAYER, *range(found.layers)}


def test_sums_of_one_value_are_no_layers():
    """Each statement repeats, but none uses what the one before it computes."""
    x = oc.data(np.ones((4, 8), np.float32), axes="bo", label="x")
    outs = [oc.param(f"w{k}", input=[8], output=[8]) @ x for k in range(8)]
    assert layering_of(sum(map(oc.forward, outs), oc.Code())) is None
