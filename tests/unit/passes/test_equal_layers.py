"""Equal layers become equal nests, and few of them are compiled for all."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.layered import MODELS, PARTS, Part, bias, layer, product, residual, stack, step_of, tanh

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.assign.node import OWN_MEMORY
from ocannl.dialects.loops import FuncOp
from ocannl.lowering.pipelines import PIPELINES, module_text, parse_text, run_passes
from ocannl.passes.analysis.equality.layers import ATTRIBUTE
from ocannl.passes.analysis.equality.structural_equality import StructuralNumbering
from ocannl.passes.analysis.nests import functions, nodes, steps
from ocannl.passes.loops.unfold_layers import IrregularLayers, UnfoldLayersPass
from ocannl.passes.texpr.fold_layers import fold_layers
from ocannl.passes.texpr.fold_layers.fold_layers import FoldLayersPass
from ocannl.program.module.extract import extract

PASSES = PIPELINES["cpu"]
NAMES = [*(p.name for p in PASSES), "lower-loops-to-llvm"]
STRUCTURES = StructuralNumbering()
Model = Callable[[oc.Tensor, int], oc.Tensor]
T = TypeVar("T")
VECTOR, MATRIX = "!texpr.tensor<8, f32>", "!texpr.tensor<8 -> 8, f32>"


def before(name: str, model: Model, layers: int) -> FuncOp:
    """The training step before a pass or target."""
    module = extract(step_of(model, layers)[1].statements, "step").module
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", MODELS)
def test_more_layers_need_no_other_nests(model: str):
    """Three more layers need three times the nests that one of them needs."""
    few, many = (structures(before("nontemporal-stores", MODELS[model], layers)) for layers in (4, 7))
    assert few.keys() == many.keys()
    more = many - few
    assert more.total() == many.total() - few.total()
    assert more
    assert all(count % 3 == 0 for count in more.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", MODELS)
def test_many_layers_take_no_more_work_than_some(model: str):
    some, many = (structures(before("unfold-layers", MODELS[model], layers)) for layers in (7, 10))
    assert some == many


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", MODELS)
def test_folding_changes_nothing(model: str):
    folded, plain = both(lambda: before("lower-loops-to-llvm", MODELS[model], 8))
    assert structures(folded) == structures(plain)
    assert folded.attributes["arena"] == plain.attributes["arena"]
    assert nodes_with_memory(folded) == nodes_with_memory(plain)
    assert len(set(labels(folded))) == len(labels(folded))


@settings(max_examples=4, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3), st.booleans(), st.integers(6, 9))
def test_results_have_the_same_bits(parts: list[Part], is_residual: bool, layers: int):
    made = residual if is_residual else layer
    model = stack(made([product, *parts]))
    assert len(set(both(lambda: bits(model, layers)))) == 1


OPTIMIZERS: dict[str, Callable[[], train.Optimizer]] = {
    "adamw": lambda: train.adamw(0.01, clip_norm=1e-3, groups={"*.b": {"weight_decay": 0.0}}),
    "schedule": lambda: train.adamw(train.warmup_cosine(0.01, 2, 9), ema=0.9),
    "accumulate": lambda: train.adam(0.01, accumulate=2, clip_norm=1e-3, clip_value=0.1),
    "dampening": lambda: train.sgd(0.01, momentum=0.9, dampening=0.1),
    "radam": lambda: train.radam(0.01),
    "adagrad": lambda: train.adagrad(0.01, lr_decay=0.1),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updates_of_layers_are_folded(optimizer: str):
    """Numbers that all updates need, as corrections and norms, belong to no layer."""

    def trained(layers: int) -> tuple[oc.Tensor, train.Optimizer, oc.Code]:
        loss, _ = step_of(stack(layer([product, bias, tanh])), layers)
        made = OPTIMIZERS[optimizer]()
        return loss, made, made.step(loss)

    def lowered(layers: int) -> tuple[bool, Counter[int], Counter[int]]:
        """Whether layers are folded, and the nests of those that stay, and of all."""
        module = extract(trained(layers)[2].statements, "step").module
        at = NAMES.index("unfold-layers")
        run_passes(module, PASSES[:at])
        (func,) = functions(module)
        is_folded, few = ATTRIBUTE in func.attributes, structures(func)
        run_passes(module, PASSES[at:])
        return is_folded, few, structures(func)

    def after_steps() -> bytes:
        loss, made, code = trained(7)
        context = oc.Context.cpu(1)
        step = context.compile(code)
        context.init_params(loss)
        for _ in range(3):
            step()
        values = [loss, *oc.params(loss).values(), *made.state_roots()]
        return b"".join(context[value].tobytes() for value in values)

    (is_folded, few, folded), (was_folded, _, plain) = both(lambda: lowered(7))
    assert is_folded
    assert not was_folded
    assert folded == plain
    assert lowered(9)[1] == few
    assert len(set(both(after_steps))) == 1


@pytest.mark.exhaustive
def test_copies_that_layers_far_apart_use_belong_to_none():
    """A tied embedding is read before the first layer and after the last one."""
    ids = oc.data(np.zeros((4, 64), np.int32), axes="bb", label="ids")
    with oc.precision(oc.float32, compute=oc.bfloat16):
        embed = nn.embedding(num=512, dim=128)
        hidden = nn.decoder_only(num_layers=7, num_heads=2, d_k=64, d_v=64, d_ff=256)(embed(ids))
        scores = oc.cast(embed.w @ hidden, oc.float32)
    code = train.sgd(0.1).step(nn.cross_entropy(scores, ids))
    module, ran = extract(code.statements, "step").module, list[str]()
    run_passes(module, PASSES, observe=lambda name, module, seconds: ran.append(name))
    assert ran == [made.name for made in PASSES]


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


def unfolded(text: str) -> tuple[str, str]:
    """The text after the pipeline, with layers folded and without."""

    def compiled() -> str:
        module = parse_text(text)
        run_passes(module, PASSES)
        return module_text(module)

    return both(compiled)


def is_folded(text: str) -> bool:
    module = parse_text(text)
    run_passes(module, [FoldLayersPass])
    return "layers = [[" in module_text(module)


def products(layers: int, label: str = "w{}", name: str = "x{}") -> list[str]:
    """Products with a matrix of each layer, with labels and names by number."""
    lines = [f'%x = texpr.data "x" : {VECTOR}']
    values = ["x", *(name.format(k) for k in range(layers))]
    for k, (before, after) in enumerate(pairwise(values)):
        lines.append(f'%w{k} = texpr.param "{label.format(k)}" : {MATRIX}')
        lines.append(f'%{after} = texpr.apply add= mul(%w{k}, %{before}) logic "@" : {VECTOR}')
    return [*lines, f"texpr.forward %{values[-1]}"]


def routine(lines: Sequence[str]) -> str:
    return "\n".join(["texpr.routine @f {", *lines, "}"])


def squared(order: Sequence[int]) -> str:
    """The matrix of each layer becomes its product with that of the layer before, in some order."""
    found = products(8)
    for k in order:
        found.append(f'%p{k} = texpr.apply add= mul(%w{k}, %w{max(k - 1, 0)}) logic "@" : {MATRIX}')
        found.append(f'texpr.assign %w{k} = %p{k} logic "."')
    return routine(found)


@pytest.mark.parametrize("order", [range(8), range(7, -1, -1)])
def test_layers_that_run_in_order_are_folded(order: Sequence[int]):
    assert is_folded(squared(order))
    folded, plain = unfolded(squared(order))
    assert Counter(folded.splitlines()) == Counter(plain.splitlines())


def is_in_order(order: list[int]) -> bool:
    return order in (sorted(order), sorted(order, reverse=True))


@settings(max_examples=4, deadline=None)
@given(st.permutations(range(8)).filter(lambda order: not is_in_order([k for k in order if 0 < k < 7])))
def test_inner_layers_out_of_order_stay(order: list[int]):
    folded, plain = unfolded(squared(order))
    assert folded == plain


def test_what_is_computed_down_the_layers_stays():
    """The first layer after those left out would use what the last one before computes later."""
    down = [
        line
        for k in range(7, 0, -1)
        for line in (
            f'%h{k} = texpr.apply = mul(%w{k - 1}, %w{k - 1}) logic "." : {MATRIX}',
            f'texpr.assign %w{k} = %h{k} logic "."',
        )
    ]
    folded, plain = unfolded(routine([*products(8), *down]))
    assert folded == plain


@pytest.mark.parametrize(
    ("label", "name"), [("w", "x{}"), ("w", "{}"), ("x{}", "x{}"), ("a.{}", "a_b{}"), ("w{}", "w{}_y")]
)
def test_labels_tell_layers_or_nothing_is_folded(label: str, name: str):
    found = [
        re.findall(r'assign.node "(.*)" on_device', text)
        for text in unfolded(routine(products(8, label, name)))
    ]
    assert sorted(found[0]) == sorted(found[1])
    assert len(set(found[0])) == 9


def test_no_other_labels_begin_like_those_of_layers():
    """A node may be called after one of some layer, without that those of others have one."""
    count = [f'%c{k} = texpr.node "w{k}.count" : {VECTOR}' for k in (1, 6)]
    count += [f'texpr.assign %c{k} mul= %x logic "."' for k in (1, 6)]
    assert is_folded(routine(products(8)))
    assert not is_folded(routine([*products(8), *count]))


def test_folded_layers_are_not_folded_again():
    module = parse_text(routine(products(8)))
    run_passes(module, [FoldLayersPass])
    text = module_text(module)
    with patch.object(fold_layers, "LEAST_LAYERS", 4):
        run_passes(module, [FoldLayersPass])
    assert module_text(module) == text


def test_text_of_folded_layers_that_merge_is_an_error():
    module = parse_text(gains(8))
    run_passes(module, [FoldLayersPass])
    with pytest.raises(IrregularLayers, match="what passes made of equal layers differs"):
        run_passes(parse_text(module_text(module)), PASSES)


def gains(layers: int) -> str:
    """The result of each layer is used once, so that it is computed where it is used."""
    lines = [f'%x0 = texpr.data "x0" : {VECTOR}']
    for k in range(layers):
        lines.append(f'%w{k} = texpr.param "w{k}" : {VECTOR}')
        lines.append(f'%x{k + 1} = texpr.apply = mul(%w{k}, %x{k}) logic "." : {VECTOR}')
    return routine([*lines, f"texpr.forward %x{layers}"])
