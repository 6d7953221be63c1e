"""Types that few of many equal layers give are those that are inferred on all of them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.layered import MODELS, PARTS, Part, layer, product, residual, stack, step_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

import ocannl as oc
from ocannl import nn
from ocannl.lowering.few_layers import FewLayers
from ocannl.lowering.pipelines import module_text, parse_text, passes_until, run_passes
from ocannl.passes.texpr.infer_precisions import InferPrecisionsPass
from ocannl.program.module.extract import extract
from ocannl.runtime import compile
from ocannl.runtime.cache.inference_cache import tensors_of

INFERENCE = passes_until("cpu", InferPrecisionsPass.name)
WIDTH = 8


def built(code: oc.Code) -> ModuleOp:
    return extract(code.statements, "step").module


def infer(module: ModuleOp) -> None:
    run_passes(module, INFERENCE)


def few_of(module: ModuleOp) -> FewLayers:
    few = FewLayers.of(module)
    assert few is not None
    return few


def inferred(module: ModuleOp) -> tuple[str, Sequence[Attribute]]:
    """A program with types and origins, and the types of its tensors as built."""
    tensors = tensors_of(module)
    infer(module)
    return module_text(module, origins=True), [tensor.type for tensor in tensors]


def inferred_on_few(module: ModuleOp) -> tuple[str, Sequence[Attribute]]:
    tensors, few = tensors_of(module), few_of(module)
    assert few.infer(infer)
    return module_text(module, origins=True), [tensor.type for tensor in tensors]


def chain(one: Callable[[oc.Tensor, int], oc.Tensor], layers: int = 9) -> oc.Code:
    x = oc.data(np.ones((3, WIDTH), np.float32), label="x", axes="bo")
    for number in range(layers):
        x = one(x, number)
    return oc.forward(x)


def weight(number: int) -> oc.Tensor:
    return oc.param(f"w{number}", output=WIDTH)


def mean(x: oc.Tensor) -> oc.Tensor:
    size = oc.Dim("size")
    return oc.einsum("...|a => ...|0", x, a=size) / size


CHAINS: dict[str, Callable[[], oc.Code]] = {
    "hidden sizes": lambda: chain(lambda x, k: oc.relu(oc.param(f"w{k}", output=16) @ x + oc.param(f"b{k}"))),
    "open parameters": lambda: chain(lambda x, k: oc.param(f"g{k}") * x),
    "sizes as numbers": lambda: chain(lambda x, k: nn.layer_norm()(weight(k) @ x)),
    "captured sizes": lambda: chain(lambda x, k: oc.relu(weight(k) @ x) - mean(x)),
    "whole numbers": lambda: chain(lambda x, k: oc.where(x > k * 0 + 1, x * 2, 1)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_have_the_types_of_all(name: str):
    code = CHAINS[name]()
    assert inferred_on_few(built(code)) == inferred(built(code))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", MODELS)
def test_models_have_the_types_of_all(model: str):
    code = step_of(MODELS[model], 9)[1]
    assert inferred_on_few(built(code)) == inferred(built(code))


@settings(max_examples=10)
@given(st.lists(st.sampled_from(PARTS), max_size=4), st.booleans(), st.integers(8, 10))
def test_layers_of_any_parts_have_the_types_of_all(parts: list[Part], is_residual: bool, layers: int):
    made = residual if is_residual else layer
    code = step_of(stack(made([product, *parts])), layers)[1]
    if FewLayers.of(built(code)) is not None:
        assert inferred_on_few(built(code)) == inferred(built(code))


def test_more_layers_are_no_more_to_infer():
    def operations(layers: int) -> int:
        seen: list[int] = []
        few_of(built(step_of(MODELS["decoder"], layers)[1])).infer(
            lambda module: seen.append(sum(1 for _ in module.walk()))
        )
        return seen[0]

    assert operations(8) == operations(12)


def test_the_text_says_how_many_layers_there_are_and_what_they_are_called():
    code = CHAINS["hidden sizes"]
    texts = [
        few_of(built(made)).text() for made in (code(), code(), chain(lambda x, k: oc.param(f"v{k}") * x))
    ]
    longer = few_of(built(chain(lambda x, k: oc.param(f"v{k}") * x, 10))).text()
    assert texts[0] == texts[1]
    assert len({*texts, longer}) == 3


WIDER = """
  %w{k} = texpr.param "w{k}" : !texpr.tensor<2, f32>
  %x{next} = texpr.apply = mul(%w{k}, %x{k}) logic "a; ... => ..., a" : !texpr.tensor<...o{k}>"""


def test_layers_that_come_out_different_give_no_types():
    """Each has one axis more than the one before it."""
    layers = "".join(WIDER.format(k=k, next=k + 1) for k in range(9))
    data = '%x0 = texpr.data "x0" : !texpr.tensor<8, f32>'
    module = parse_text(f"texpr.routine @f {{\n  {data}{layers}\n  texpr.forward %x9\n}}")
    few, before = few_of(module), module_text(module)
    assert not few.infer(infer)
    assert module_text(module) == before


GAIN = """
  %g{k} = texpr.param "g{k}" : !texpr.tensor<...o{k}>
  %x{next} = texpr.apply = mul(%g{k}, %x{k}) logic "." : !texpr.tensor<8, f32>"""
APART = """
  %apart = texpr.param "apart" : !texpr.tensor<...o{shared}>
  %four = texpr.data "four" : !texpr.tensor<4, f32>
  %y = texpr.apply = mul(%apart, %four) logic "." : !texpr.tensor<4, f32>"""


@pytest.mark.parametrize(("shared", "gives"), [(4, False), (9, True)])
def test_one_variable_stands_for_one_thing(shared: int, gives: bool):
    """The gain of a layer that is left out has the shape of another parameter, as layers that stay do not
    tell.
    """
    gains = "".join(GAIN.format(k=k, next=k + 1) for k in range(9))
    data = '%x0 = texpr.data "x0" : !texpr.tensor<8, f32>'
    ends = "texpr.forward %x9\n  texpr.forward %y"
    module = parse_text(f"texpr.routine @f {{\n  {data}{gains}{APART.format(shared=shared)}\n  {ends}\n}}")
    few = few_of(module)
    assert few.infer(infer) is gives


@pytest.mark.parametrize("large", [0, 10**6])
def test_types_come_from_the_cache(large: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Only in large programs layers are looked for before the cache is."""
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compile, "LARGE", large)
    found: list[tuple[bytes, str]] = []
    for is_cold in (True, False):
        loss, code = step_of(MODELS["perceptron"], 9)
        context = oc.Context.cpu(1)
        step = context.compile(code)
        seconds = step.compile_seconds
        assert ("infer-shapes" in seconds, "few layers" in seconds) == (is_cold, is_cold or large == 0)
        context.init_params(loss)
        step()
        values = [context[value].tobytes() for value in oc.params(loss).values()]
        found.append((b"".join(values), step.ir("llvm")))
    assert found[0] == found[1]


def test_an_error_is_that_of_all_layers():
    code = chain(lambda x, k: oc.param(f"w{k}") @ x)
    with pytest.raises(oc.ShapeError) as of_all:
        code.ir("loops")
    with pytest.raises(oc.ShapeError) as compiled:
        oc.Context.cpu(1).compile(code)
    assert str(compiled.value) == str(of_all.value)
