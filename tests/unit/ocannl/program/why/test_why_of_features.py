"""Answers to why, and links between levels, of programs of each feature."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.links import files_of, levels_of, orphans
from support.model_folders import GPT2, gpt2_weights, write_model
from support.targets.columns import noted

import ocannl as oc
from ocannl import nn, train
from ocannl.passes.analysis.dataflow.memory import memory_report
from ocannl.program import graph
from ocannl.program.why.shape_proofs import proof, shape_by
from ocannl.reasons.node_reasons import NodeReasons

TARGET = "x86-64-v3"
RNG = np.random.default_rng(0)


def arrays(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def trained(loss: oc.Tensor, ctx: oc.Context | None = None) -> oc.Tensor:
    ctx = ctx or oc.Context.cpu(1, target=TARGET)
    ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    return loss


def decoder(layers: int = 2) -> oc.Tensor:
    """Residual connections, and attention that keeps no scores."""
    ids = oc.data(np.ones((2, 8), np.int32), axes="bb", label="ids")
    hidden = nn.decoder_only(layers, 2, 8, 8, 16, activation=nn.gelu)(nn.embedding(num=9, dim=16)(ids))
    return trained(nn.cross_entropy(nn.linear(out_dim=9)(hidden), ids))


def layer() -> oc.Tensor:
    """Answers about one take a fourth of the time of answers about two."""
    return decoder(1)


def scan() -> oc.Tensor:
    xs, w = oc.data(arrays(4, 6, 8), axes="bbo", label="xs"), oc.param("w", input=8)

    def cell(carry: oc.Tensor, x: oc.Tensor):
        after = oc.tanh(w @ carry + x)
        return after, 2.0 * after

    _, ys = oc.scan(cell, oc.data(np.zeros((4, 8), np.float32), axes="bo", label="h"), xs)
    return trained((ys * ys).sum())


def lstm() -> oc.Tensor:
    return trained((nn.lstm(hid_dim=5)(oc.data(arrays(3, 4, 6), axes="bbo", label="x")) ** 2).sum())


def condition() -> oc.Tensor:
    x, w = oc.data(arrays(4, 8), axes="bo", label="x"), oc.param("w", output=3)
    y = oc.cond(x.sum() > 0.0, lambda t: oc.relu(w @ t), lambda t: w @ t, x)
    return trained((y * y).sum())


def quantized() -> oc.Tensor:
    ctx = oc.Context.cpu(1, target=TARGET)
    layer = nn.linear(in_dim=64, out_dim=8)
    x = oc.data(arrays(2, 64), axes="bo", label="x")
    ctx.init_params(layer(x))
    y = nn.quantized(layer, "q8_0", ctx=ctx)(x)
    ctx.compile(y)
    return y


def sharded() -> oc.Tensor:
    mesh = oc.Mesh({"data": 2}, engine="threads")
    x = oc.data(arrays(4, 6), label="x", shard={"batch": "data"})
    return trained((nn.mlp(hid_dims=[8], out_dim=2)(x) ** 2).sum(), oc.Context.cpu(mesh=mesh, target=TARGET))


def generated(folder: Path) -> None:
    model = oc.models.load(write_model(folder, GPT2, gpt2_weights(GPT2)))
    oc.generate(model, RNG.integers(0, 31, (1, 5)), max_new=2, temperature=0)


WHOLE = pytest.param(decoder, marks=pytest.mark.exhaustive)
PROGRAMS = [scan, WHOLE, layer, lstm, condition, quantized, sharded]


@cache
def made(program: Callable[[], oc.Tensor]) -> tuple[oc.Tensor, list[oc.Routine]]:
    """The loss of a program, and the routines that it has compiled."""
    with noted() as routines:
        return program(), routines


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", [lstm, scan, layer, condition, sharded])
def test_the_lines_prove_the_shapes_of_parameters(program: Callable[[], oc.Tensor]):
    for name, parameter in oc.params(made(program)[0]).items():
        value = parameter.ir_value
        wanted = graph.known_shape(value)
        lines = proof(value, lambda shape: shape, wanted)
        assert lines is not None, name
        assert shape_by(value, lines) == wanted, name
        if len(lines) > 1:
            for line in lines:
                assert shape_by(value, [other for other in lines if other is not line]) != wanted, name


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", PROGRAMS)
def test_answers_about_parameters_end_in_lines_of_the_user(program: Callable[[], oc.Tensor]):
    for name, parameter in oc.params(made(program)[0]).items():
        for question in ("shape", "dtype", "name"):
            told = oc.why(parameter, question)
            assert all(str(line.place).startswith(__file__) for line in told.lines[-1:]), f"{name}: {told}"
            assert told.lines


def check(routines: list[oc.Routine]) -> None:
    assert routines
    for routine in {routine.name: routine for routine in routines}.values():
        func = routine._executable.func
        reasons = NodeReasons(func)
        for row in memory_report(func):
            told = reasons.of(row.label)
            assert told.lines, f"{routine.name}: {row.label}"
            assert str(told.lines[-1].place).startswith(__file__), f"{routine.name}: {told}"
        levels = levels_of(routine)
        assert orphans(levels) == []
        assert files_of(levels) <= {__file__, levels_of.__code__.co_filename}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("program", [program for program in PROGRAMS if program is not sharded])
def test_every_node_has_reasons_and_every_operation_its_line(program: Callable[[], oc.Tensor]):
    check(made(program)[1])


def test_nodes_of_a_mesh_have_reasons():
    for routine in made(sharded)[1]:
        func = routine._executable.func
        for row in memory_report(func):
            told = NodeReasons(func).of(row.label)
            assert str(told.lines[-1].place).startswith(__file__), f"{routine.name}: {told}"


@pytest.mark.exhaustive
def test_models_that_generate_have_reasons(tmp_path: Path):
    with noted() as routines:
        generated(tmp_path)
    check(routines)


def nested() -> tuple[oc.Tensor, ...]:
    h, w = oc.data(np.zeros(4, np.float32), label="h"), oc.param("w")
    xs = oc.data(arrays(5, 3), axes="bo", label="xs")

    def rows(carry: oc.Tensor, x: oc.Tensor):
        inner, last = oc.scan(lambda c, x: (oc.tanh(c + w @ x), 2.0 * c), carry, xs)
        return last, inner

    stacks, last = oc.scan(rows, h, xs)
    return w, stacks, last


def repeated() -> tuple[oc.Tensor, ...]:
    h, w = oc.data(np.zeros(4, np.float32), label="h"), oc.param("w")
    return w, oc.while_loop(lambda c: c.sum() < 3, lambda c: c + w @ c, h, most=4)


def found() -> tuple[oc.Tensor, ...]:
    h, w = oc.data(np.zeros(4, np.float32), label="h"), oc.param("w")
    return w, oc.fixed_point(lambda z: 0.5 * oc.tanh(w @ z) + h, h)


@pytest.mark.parametrize("program", [nested, repeated, found])
def test_cells_of_loops_prove_shapes(program: Callable[[], tuple[oc.Tensor, ...]]):
    tensors = program()
    for tensor in tensors:
        told = oc.why(tensor)
        assert "gone" not in told.answer, told
        assert {str(line.place).rpartition(":")[0] for line in told.lines} == {__file__}
    oc.infer(tensors[-1])
    told = oc.why(tensors[0])
    assert any("w @" in line.text for line in told.lines), told


def test_what_a_loop_computes_is_told():
    (step,) = made(scan)[1]
    texts = [line.text for node in ("w", "tanh_1", "step.tanh.arena") for line in step.why(node).lines]
    assert any(text.endswith("6 times by the loop @step.tanh") for text in texts)
    assert any(text.startswith("computed in the nest 'tanh_1 .. tanh'") for text in texts)
    assert "used by the loop @step.tanh in each of 6 iterations" in texts
