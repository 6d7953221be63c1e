"""Links between the levels of a program: from every operation up to Python, and down to machine code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from support.links import FRAME
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl import Code, nn, train
from ocannl.dialects.ir.text_printer import op_lines, op_text
from ocannl.lowering.pipelines import PIPELINES, for_target
from ocannl.passes.analysis.targets.processors import processor
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET, TargetDescription
from ocannl.program.module.extract import extract
from ocannl.viewer.levels import Levels, read_levels

HERE = __file__


def dense() -> oc.Code:
    x, y = oc.data(np.ones((4, 3), np.float32)), oc.data(np.ones((4, 1), np.float32))
    loss = (nn.mlp(hid_dims=[8], out_dim=1)(x) - y).einsum("...|... => 0")
    return train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)


def convolutions() -> oc.Code:
    x, y = oc.data(np.ones((2, 12, 12, 1), np.float32), axes="bbbo"), oc.data(np.ones(2, np.int32), axes="b")
    loss = nn.cross_entropy(nn.conv2d(out_channels=4, kernel_size=3)(x).einsum("b, h, w | c => b | c"), y)
    return train.grad_update(loss) + train.adam_update(loss, learning_rate=0.1)


def layers() -> oc.Code:
    ids = oc.data(np.ones((2, 4), np.int32), axes="bb")
    hidden = nn.decoder_only(4, 1, 4, 4, 8)(nn.embedding(num=7, dim=8)(ids))
    return train.grad_update(nn.cross_entropy(nn.linear(out_dim=7)(hidden), ids))


@cache
def read(made: Callable[[], oc.Code], target: TargetDescription = DEFAULT_TARGET) -> Levels:
    texts: list[str] = []

    def watch(name: str, module: ModuleOp, levels: Levels) -> None:
        texts.append(op_text(module))

    module = extract(made().statements, "step").module
    passes = for_target(PIPELINES["cpu"], target)
    levels = read_levels(module, passes, target, watch, to_machine_code=True)
    by_number = list(levels.texts)
    for stage, text in zip(levels.stages, texts, strict=False):
        assert "\n".join(by_number[number] for number in stage.lines[::2]) == text
    return levels


@pytest.mark.sampled(3)
@pytest.mark.parametrize("code", [dense, convolutions, layers])
def test_every_line_has_its_way_up_to_python(code: Callable[[], oc.Code]):
    levels = read(code)
    texts, sets = list(levels.texts), list(levels.sets)
    files, origins = list(levels.files), list(levels.origins)
    for stage in levels.stages:
        for number, linked in zip(stage.lines[::2], stage.lines[1::2], strict=True):
            text = texts[number].strip()
            if text and not text.startswith(FRAME[stage.level]):
                assert sets[linked], f"{stage.name}: {text}"
    assert {files[file] for _, file, _ in origins} == {HERE}


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("code", [dense, layers, convolutions])
@pytest.mark.parametrize("target", [DEFAULT_TARGET, processor("apple-m2")], ids=["here", "macOS"])
def test_every_computed_expression_has_its_way_down_to_machine_code(
    code: Callable[[], oc.Code], target: TargetDescription
):
    levels = read(code, target)
    sets, (*_, loops, llvm, machine) = list(levels.sets), levels.stages
    assert (loops.name, llvm.level, machine.level) == ("plan-memory", "llvm", "machine code")
    texts = list(levels.texts)
    stored = {
        origin
        for number, linked in zip(loops.lines[::2], loops.lines[1::2], strict=True)
        if "loops.store" in texts[number]
        for origin in sets[linked]
    }
    for stage in (llvm, machine):
        assert stored <= {origin for linked in stage.lines[1::2] for origin in sets[linked]}


def test_instructions_are_those_of_their_operations():
    """In a fused nest, those of one expression are told from those of another."""
    a, b = oc.data(np.ones((8, 16), np.float32), label="a"), oc.data(np.ones((8, 16), np.float32), label="b")
    root = oc.sqrt(a).named("root")
    both = (root / b).named("both")
    module = extract(oc.forward(both).statements, "step").module
    passes = for_target(PIPELINES["cpu"], DEFAULT_TARGET)
    levels = read_levels(module, passes, DEFAULT_TARGET, lambda *_: None, to_machine_code=True)
    texts, sets, origins = list(levels.texts), list(levels.sets), list(levels.origins)
    for level, words in (("llvm", (".sqrt.", "fdiv")), ("machine code", ("vsqrtps", "vdivps"))):
        stage = next(stage for stage in levels.stages if stage.level == level)
        lines = [(texts[n], sets[s]) for n, s in zip(stage.lines[::2], stage.lines[1::2], strict=True)]
        for word, name in zip(words, ("root", "both"), strict=True):
            code = [own for text, own in lines if word in text and "declare" not in text]
            assert {origins[own[0]][0] for own in code} == {name}


def test_a_call_is_for_what_it_calls():
    """The function that runs a routine has lines for each kernel, constants those of their readers."""
    levels = read(dense)
    texts, sets, origins = list(levels.texts), list(levels.sets), list(levels.origins)
    calls = 0
    for stage, call in zip(levels.stages[-2:], ("call void", "callq"), strict=True):
        lines = [(texts[n], sets[s]) for n, s in zip(stage.lines[::2], stage.lines[1::2], strict=True)]
        for text, own in lines:
            if call in text and "step.relu" in text:
                calls += 1
                assert "relu" in {origins[n][0] for n in own}
    assert calls >= 2
    assembly = levels.stages[-1]
    constants = [
        s for n, s in zip(assembly.lines[::2], assembly.lines[1::2], strict=True) if ".long" in texts[n]
    ]
    assert constants
    assert all(sets[own] for own in constants)


def test_stores_past_the_caches_are_linked():
    """Their metadata stands beside that of places."""
    double = (oc.data(np.ones((4096, 4096), np.float32), label="x") * 2.0).named("double")
    module = extract(oc.forward(double).statements, "step").module
    passes = for_target(PIPELINES["cpu"], DEFAULT_TARGET)
    levels = read_levels(module, passes, DEFAULT_TARGET, lambda *_: None, to_machine_code=True)
    texts, sets = list(levels.texts), list(levels.sets)
    llvm = levels.stages[-2]
    lines = [(texts[n], sets[s]) for n, s in zip(llvm.lines[::2], llvm.lines[1::2], strict=True)]
    stores = [own for text, own in lines if text.endswith("!nontemporal !0")]
    assert stores
    assert all(stores)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("code", [dense, convolutions, layers])
def test_the_text_is_that_which_is_compiled(code: Callable[[], oc.Code]):
    levels, made = read(code), code()
    texts, llvm = list(levels.texts), levels.stages[-2]
    text = "\n".join(texts[number] for number in llvm.lines[::2])
    wanted = Code(made.statements, "step").ir("llvm", target=DEFAULT_TARGET.cpu)
    assert text.rstrip() == wanted.rstrip()


def test_a_line_is_of_the_operation_that_begins_there():
    module = extract(dense().statements, "step").module
    for text, op in op_lines(module):
        assert (op is None) == (text.strip() == "}")
        assert op is None or f"{op.name}" in text or "builtin.module" in text
