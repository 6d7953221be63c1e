"""Every operation of every stage says from which tensor expressions, at which lines, it comes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from steps import PROBLEMS
from steps_ocannl import Runs
from support.targets.examples import EXAMPLES
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.origins import at, name_of, origins, without_origins
from ocannl.dialects.loops import LoadOp, NestOp
from ocannl.lowering.pipelines import PIPELINES, module_text, parse_text, run_passes
from ocannl.program.module.extract import extract


def check_all_stages(code: oc.Code, target: str) -> None:
    """Also that the text with origins is read back as it was."""
    module = extract(code.statements, "step").module
    for op in module.walk():
        assert all(name_of(origin) for origin in origins(op.location)), op
    is_read_back(module)
    last = PIPELINES[target][-1].name

    def observe(name: str, module: ModuleOp, seconds: float) -> None:
        assert without_origins(module) == [], name
        if name in ("lower-texpr-to-assign", last):
            is_read_back(module)

    run_passes(module, PIPELINES[target], observe=observe)


def is_read_back(module: ModuleOp) -> None:
    text = module_text(module, origins=True)
    assert module_text(parse_text(text), origins=True) == text


# The examples have steps like these, for the CPU.
ON_CPU = [pytest.param(name, "cpu", marks=pytest.mark.exhaustive) for name in PROBLEMS]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "target"), [*ON_CPU, ("lenet", "gpu")])
def test_benchmarked_steps(name: str, target: str):
    check_all_stages(Runs(PROBLEMS[name]()).code, target)


def loops() -> oc.Code:
    """A scan, a loop with a condition and a branch, with their derivatives."""
    x, w = oc.data(np.ones((2, 5, 3), np.float32), axes="bbo", label="x"), oc.param("w", input=3, output=3)
    _, state = oc.scan(lambda h, x_: (oc.tanh(w @ h + x_), None), oc.data(np.zeros((2, 3), np.float32)), x)
    total = (state * state).sum()
    grown = oc.while_loop(lambda v: v < 100, lambda v: v * v + total, total + 1, most=6)
    return train.grad_update(oc.cond(grown > 10, lambda v: v * 2, lambda v: v - total, grown))


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_loops(target: str):
    check_all_stages(loops(), target)


@pytest.mark.exhaustive
@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch):
    routines: list[oc.Routine] = []
    compile = oc.Context.compile

    def noted(self: oc.Context, *args: Any, **named: Any) -> oc.Routine:
        routines.append(compile(self, *args, **named))
        return routines[-1]

    monkeypatch.setattr(oc.Context, "compile", noted)
    EXAMPLES[name](oc.Context.cpu(), np.float32)
    for routine in {routine.ir(): routine for routine in routines}.values():
        assert without_origins(routine._executable.module) == []
        check_all_stages(routine.code, "cpu")


PROGRAM = """
x = oc.data(np.arange(6.0).reshape(2, 3), label="x")
w = oc.param("w", 0.5, output=4)
product = w @ x
y = oc.relu(product)
loss = (y * y).einsum("...|... => 0")
code = train.grad_update(loss)
routine = context.compile(code, name="step")
"""


def compiled(first_line: int) -> oc.Routine:
    """A program that begins at a line of its file."""
    names: dict[str, Any] = {"oc": oc, "np": np, "train": train, "context": oc.Context.cpu()}
    exec(compile("\n" * (first_line - 1) + PROGRAM, "model.py", "exec"), names)
    routine = names["routine"]
    assert isinstance(routine, oc.Routine)
    return routine


def lines(op: Operation) -> set[int]:
    places = [at(origin) for origin in origins(op.location)]
    return {place.line.data for place in places if place is not None and place.filename.data == "model.py"}


def nests_of(routine: oc.Routine) -> dict[str, NestOp]:
    return {op.label.data: op for op in routine._executable.module.walk() if isinstance(op, NestOp)}


def test_what_is_fused_comes_from_all_its_lines():
    nests = nests_of(compiled(first_line=1))
    forward = next(nest for nest in nests.values() if lines(nest) >= {4, 5})
    loaded = {op.node.name_hint: lines(op) for op in forward.walk() if isinstance(op, LoadOp)}
    assert loaded["w"] == {4}
    backward = next(nest for label, nest in nests.items() if "w.grad" in label)
    assert {4, 7} <= lines(backward)


def test_a_warm_start_has_the_lines_of_the_program_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))
    cold, warm = compiled(first_line=1), compiled(first_line=101)
    assert "schedule" not in warm.compile_seconds
    modules = [routine._executable.module for routine in (cold, warm)]
    for op, other in zip(*(module.walk() for module in modules), strict=True):
        assert {line + 100 for line in lines(op)} == lines(other)
        names = [[name_of(origin) for origin in origins(each.location)] for each in (op, other)]
        assert names[0] == names[1] != []


def decoder(layers: int) -> oc.Code:
    ids = oc.data(np.zeros((2, 4), np.int32), axes="bb", label="ids")
    model = nn.decoder_only(layers, 2, d_k=4, d_v=4, d_ff=16)
    logits = nn.linear(out_dim=11)(model(nn.embedding(num=11, dim=8)(ids)))
    loss = nn.cross_entropy(logits, ids)
    return train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)


@pytest.mark.exhaustive
def test_layers_that_were_left_out_have_their_own():
    code = decoder(6)
    folded, full = (extract(code.statements, "step").module for _ in range(2))
    passes = PIPELINES["cpu"]
    run_passes(folded, passes)
    run_passes(full, [each for each in passes if each.name not in ("fold-layers", "unfold-layers")])

    def found(module: ModuleOp, kind: type[Operation]) -> Counter[frozenset[str | None]]:
        ops = [op for op in module.walk() if isinstance(op, kind)]
        return Counter(frozenset(map(name_of, origins(op.location))) for op in ops)

    for kind in (NestOp, LoadOp):
        assert found(folded, kind) == found(full, kind)


class Forgetful(ModulePass):
    name = "forgetful"

    def apply(self, ctx: object, op: ModuleOp) -> None:
        last = list(op.walk())[-1]
        last.location = UNKNOWN_LOC


def test_a_pass_that_loses_origins_is_found_between_passes():
    module = extract(decoder(1).statements, "step").module
    run_passes(module, [Forgetful])
    module = extract(decoder(1).statements, "step").module
    with pytest.raises(VerifyException, match="lost"):
        run_passes(module, [Forgetful], verify=True)
