"""Few of equal layers are compiled where they exchange something, too, and their exchanges are copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.layered import BATCH, PARTS, WIDTH, Part, bias, centered, layer, product, relu, residual, stack

import ocannl as oc
from ocannl import train
from ocannl.dialects.loops import CollectiveOp
from ocannl.lowering.pipelines import PIPELINES, run_passes
from ocannl.passes.analysis.dataflow.memory import byte_size
from ocannl.passes.analysis.nests import all_steps, declaration, functions
from ocannl.passes.texpr.fold_layers import fold_layers
from ocannl.program.module.extract import extract

PASSES = PIPELINES["cpu"]
NAMES = [made.name for made in PASSES]
LAYERS = 6
RNG = np.random.default_rng(4)
POINTS, TARGETS = RNG.normal(size=(2, BATCH + 1, 3, WIDTH))

Shard = Mapping[str, str] | None
RECIPES: Mapping[str, tuple[Shard, Callable[[str], Shard]]] = {
    "data parallel": ({"batch": "data"}, lambda name: None),
    "parts": ({"batch": "data"}, lambda name: None if name.endswith("scale") else {"output": "data"}),
    "tensor parallel": ({}, lambda name: {"output": "data"} if name.endswith("1.w") else None),
}
"""The placements of data, and of each parameter by its name."""
FEED_FORWARD = residual([centered, product, bias, relu, product])


def trained(part: Part, recipe: str | None, layers: int = LAYERS) -> tuple[oc.Tensor, oc.Code]:
    """The loss and a step of Adam of a stack of layers, placed by a recipe or by none."""
    data, of_param = RECIPES[recipe] if recipe else (None, lambda name: None)
    with oc.precision(np.float64):
        x = oc.data(POINTS, axes="bbo", label="x", shard=data)
        y = oc.data(TARGETS, axes="bbo", label="y", shard=data)
        found = oc.param("out", output=WIDTH) @ stack(part)(x, layers)
        loss = ((found - y) ** 2).sum().named("loss")
    for name, param in oc.params(loss).items():
        if (shard := of_param(name)) is not None:
            oc.shard(param, shard)
    return loss, train.adam(0.01).step(loss)


def passes_run(code: oc.Code, *, verify: bool) -> tuple[list[str], list[CollectiveOp]]:
    """The names of the passes in the order in which they ran, and the exchanges of the program of a rank."""
    program, seen = extract(code.statements, "step"), list[str]()
    program.routine.set_mesh({"data": 2})
    run_passes(program.module, PASSES, verify=verify, observe=lambda name, *_: seen.append(name))
    return seen, [op for op in all_steps(functions(program.module)[0]) if isinstance(op, CollectiveOp)]


def values(part: Part, recipe: str | None, ranks: int, layers: int) -> dict[str, NDArray[np.float64]]:
    loss, code = trained(part, recipe, layers)
    mesh = oc.Mesh({"data": ranks}, engine="threads", timeout=60) if recipe else None
    ctx = oc.Context.cpu(1, mesh=mesh)
    step = ctx.compile(code)
    ctx.init_params(loss)
    for _ in range(2):
        step()
    return {name: np.asarray(ctx[value]) for name, value in (("loss", loss), *oc.params(loss).items())}


def moved(exchanges: list[CollectiveOp]) -> int:
    return sum(byte_size(declaration(op.moved)) for op in exchanges if not op.is_wait)


def summed(exchanges: list[CollectiveOp]) -> list[str]:
    """The gradients of layers that are summed together with others."""
    return [name for op in exchanges if not op.is_wait for name in op.sums if name.startswith("layer")]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("recipe", RECIPES)
def test_layers_that_exchange_something_are_folded(recipe: str) -> None:
    """All passes run once. What is exchanged has the names of its layers, and is as much as without folding,
    but that small parameters are gathered for both directions.
    """
    seen, exchanges = passes_run(trained(FEED_FORWARD, recipe)[1], verify=True)
    assert seen == NAMES
    with patch.object(fold_layers, "LEAST_LAYERS", 1000):
        _, plain = passes_run(trained(FEED_FORWARD, recipe)[1], verify=False)
    assert Counter(summed(exchanges)) == Counter({*summed(plain)})
    gathered = Counter(name for op in exchanges if not op.is_wait for name in op.gathers)
    assert max(gathered.values(), default=1) <= 2
    assert moved(exchanges) == moved(plain) or gathered


@pytest.mark.exhaustive
@settings(max_examples=2, deadline=None)
@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3),
    st.booleans(),
    st.integers(6, 7),
    st.sampled_from(sorted(RECIPES)),
    st.sampled_from([2, 3]),
)
def test_results_are_those_of_one_device(
    parts: list[Part], is_residual: bool, layers: int, recipe: str, ranks: int
) -> None:
    made = (residual if is_residual else layer)([product, *parts])
    alone, divided = values(made, None, 1, layers), values(made, recipe, ranks, layers)
    assert alone.keys() == divided.keys()
    for name, value in alone.items():
        np.testing.assert_allclose(divided[name], value, rtol=1e-12, atol=1e-12, err_msg=name)
