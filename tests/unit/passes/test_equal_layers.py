"""Equal layers become equal nests, and few of them are compiled for all."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.passes.layered import MODELS, PARTS, Part, layer, product, residual, stack, step_of

import ocannl as oc
from ocannl.dialects.assign import OWN_MEMORY
from ocannl.dialects.loops import FuncOp
from ocannl.extract import extract
from ocannl.lowering.pipelines import PIPELINES, module_text, parse_text, run_passes
from ocannl.passes import fold_layers
from ocannl.passes.layers import ATTRIBUTE
from ocannl.passes.nests import functions, nodes, steps
from ocannl.passes.structure import Structures
from ocannl.passes.unfold_layers import IrregularLayers, UnfoldLayersPass

PASSES = PIPELINES["cpu"]
NAMES = [*(p.name for p in PASSES), "lower-loops-to-llvm"]
STRUCTURES = Structures()
Model = Callable[[oc.Tensor, int], oc.Tensor]
T = TypeVar("T")


def before(name: str, model: Model, layers: int) -> FuncOp:
    """The training step before a pass or target."""
    module = extract(step_of(model, layers)[1], "step").module
    run_passes(module, PASSES[: NAMES.index(name)])
    (func,) = functions(module)
    return func


def both(make: Callable[[], T]) -> tuple[T, T]:
    """With layers folded, and without."""
    with patch.object(fold_layers, "LEAST_LAYERS", 1000):
        plain = make()
    return make(), plain


def structures(func: FuncOp) -> Counter[int]:
    return Counter(map(STRUCTURES.number, steps(func)))


def nodes_with_memory(func: FuncOp) -> Counter[tuple[str, str, str]]:
    """With the labels of those that keep their values: others are numbered in the order in which passes meet
    them.
    """
    found = [(node.label.data, node.mode.data, str(node.result.type)) for node in nodes(func)]
    return Counter(
        (label if mode in OWN_MEMORY else "", mode, type) for label, mode, type in found if mode != "virtual"
    )


def labels(func: FuncOp) -> list[str]:
    return [node.label.data for node in nodes(func)]


def bits(model: Model, layers: int) -> bytes:
    """The loss and all parameters after two steps."""
    loss, code = step_of(model, layers)
    context = oc.Context.cpu(1)
    step = context.compile(code)
    context.init_params(loss)
    step()
    step()
    values = [loss, *oc.params(loss).values()]
    return b"".join(context[value].tobytes() for value in values)


@pytest.mark.parametrize("model", MODELS)
def test_more_layers_need_no_other_nests(model: str):
    """Three more layers need three times the nests that one of them needs."""
    few, many = (structures(before("bypass-caches", MODELS[model], layers)) for layers in (4, 7))
    assert few.keys() == many.keys()
    more = many - few
    assert more.total() == many.total() - few.total()
    assert more
    assert all(count % 3 == 0 for count in more.values())


@pytest.mark.parametrize("model", MODELS)
def test_many_layers_take_no_more_work_than_some(model: str):
    some, many = (structures(before("unfold-layers", MODELS[model], layers)) for layers in (7, 10))
    assert some == many


@pytest.mark.parametrize("model", MODELS)
def test_folding_changes_nothing(model: str):
    folded, plain = both(lambda: before("lower-loops-to-llvm", MODELS[model], 8))
    assert structures(folded) == structures(plain)
    assert folded.attributes["arena"] == plain.attributes["arena"]
    assert nodes_with_memory(folded) == nodes_with_memory(plain)
    assert len(set(labels(folded))) == len(labels(folded))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3), st.booleans(), st.integers(6, 9))
def test_results_have_the_same_bits(parts: list[Part], is_residual: bool, layers: int):
    made = residual if is_residual else layer
    model = stack(made([product, *parts]))
    assert len(set(both(lambda: bits(model, layers)))) == 1


def test_layers_that_merge_are_compiled_as_they_are():
    """Products of all layers go into one nest: none stands for those of another layer."""
    first, unfold = NAMES.index("fold-layers"), NAMES.index("unfold-layers")
    module = parse_text(gains(8))
    run_passes(module, PASSES[first:unfold])
    assert ATTRIBUTE in functions(module)[0].attributes
    with pytest.raises(IrregularLayers, match="do without `fold-layers`"):
        run_passes(module, [UnfoldLayersPass])
    texts: set[str] = set()
    for passes in (PASSES[first:], PASSES[first + 1 :]):
        module = parse_text(gains(8))
        run_passes(module, passes)
        texts.add(module_text(module))
    assert len(texts) == 1


def gains(layers: int) -> str:
    """What each layer computes is used once, so that it is computed where it is used."""
    type = "!texpr.tensor<8, f32>"
    lines = [f'%x0 = texpr.data "x0" : {type}']
    for k in range(layers):
        lines.append(f'%w{k} = texpr.param "w{k}" : {type}')
        lines.append(f'%x{k + 1} = texpr.apply = mul(%w{k}, %x{k}) logic "." : {type}')
    return "\n".join(["texpr.routine @f {", *lines, f"texpr.forward %x{layers}", "}"])
