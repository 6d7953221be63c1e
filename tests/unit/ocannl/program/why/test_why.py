"""Answers to why: the lines that are listed prove the answer, and no part of them does."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.nests import parse_module

import ocannl as oc
from ocannl import nn, train
from ocannl.passes.analysis.equality.canonical_text import canonical_text
from ocannl.passes.analysis.fusion.fusion_legality import NestSummary, why_apart
from ocannl.passes.analysis.nests import nests
from ocannl.passes.analysis.schedules.schedule_candidates import Choices, Chooser
from ocannl.program import graph
from ocannl.program.module.extract import extract
from ocannl.program.why.shape_proofs import proof, shape_by
from ocannl.reasons.tile_reasons import nests_before_schedule, tile_lines
from ocannl.runtime.cache.tunings import with_tunings
from ocannl.runtime.interface import the_func


def model() -> dict[str, oc.Tensor]:
    x = oc.data(np.zeros((10, 3), np.float32), label="x")
    with oc.scope("layer"):
        w = oc.param("w", output=16)
    b = oc.param("b")
    h = oc.relu(w @ x + b)
    y = oc.param("v", output=2) @ h
    loss = (y * y).sum()
    oc.infer(loss)
    return {"x": x, "w": w, "b": b, "h": h, "y": y, "loss": loss}


def places(reasons: Any) -> list[int]:
    """The lines of this file, counted from that of `x` in `model`."""
    first = model.__code__.co_firstlineno + 1
    found = [line.place for line in reasons.lines]
    assert all(re.fullmatch(rf"{re.escape(__file__)}:\d+", place) for place in found)
    return [int(place.rpartition(":")[2]) - first for place in found]


def test_shapes():
    tensors = model()
    reasons = oc.why(tensors["w"].shape)
    assert reasons.answer == "`layer.w` has the shape 3->16"
    texts = [line.text for line in reasons.lines]
    assert texts == ["parameter `layer.w`: ...->16", "`layer.w @ x`", "data `x`: 10|3"]
    assert places(reasons) == [2, 4, 0]
    assert places(oc.why(tensors["b"])) == [4, 4, 2]
    assert places(oc.why(tensors["h"].shape)) == [4, 4, 4, 2, 0]
    assert places(oc.why(tensors["h"], "output", 0)) == [4, 4, 4, 2]
    assert places(oc.why(tensors["h"], "batch")) == [4, 4, 4, 0]
    assert places(oc.why(tensors["w"], "input", -1)) == [4, 0]
    assert oc.why(tensors["h"], "output", 0).answer == "axis 0 of the output row of `relu` is 16"
    assert str(oc.why(tensors["loss"].shape)).count("\n") == 1
    assert "<pre>" in oc.why(tensors["x"])._repr_html_()


def test_what_is_open_stays_open():
    w = oc.param("w", output=16)
    reasons = oc.why(w.shape)
    assert reasons.answer == "`w` has the shape ...->16 so far"
    y = w @ oc.data(np.zeros((10, 3)), label="x")
    assert oc.why(w.shape).answer == "`w` has the shape ...,3->16 so far"
    assert not w.shape.is_final
    assert oc.why(y, "output").answer == "`(w @ x)` has the output row 16"


def test_dtypes_and_names():
    tensors = model()
    x = oc.data(np.zeros((10, 3)), label="double")
    y = oc.relu(x * tensors["w"].sum())
    assert [line.text for line in oc.why(y, "dtype").lines][-1] == "data `double`: float64"
    assert oc.why(x > 1.0, "dtype").answer == "`(1 < double)` has the dtype bool"
    assert "`w`, in `layer`" in oc.why(tensors["w"], "name").lines[0].text
    assert oc.why((x + 1.0).named("more"), "name").answer == "`more` has the name that it was given"


def test_the_use_of_a_product_that_also_reduces_it():
    """The rows of the weight, of the product, and of its maximum are one variable, that of the weight."""
    w = oc.param("w")
    y = w @ oc.data(np.zeros((6, 3)), label="x")
    loss = oc.data(np.zeros((6, 10)), label="t") * (y - oc.einmax("...|...d => ...|...0", y))
    oc.infer(loss)
    assert oc.why(w.shape).answer == "`w` has the shape 3->10"
    assert [line.text for line in oc.why(w.shape).lines][-1] == "data `t`: 6|10"


def test_expressions_that_are_gone():
    w = oc.param("w", output=2)
    y = w @ oc.data(np.zeros((10, 3)), label="x")
    assert len(oc.why(w, "input", -1).lines) == 2
    del y
    assert "expressions that are gone" in oc.why(w, "input", -1).answer


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda t: oc.why(t, "size"), oc.ArgumentError),
        (lambda t: oc.why(t.ir_value), oc.ArgumentError),
        (lambda t: oc.why(t, "shape", 0), oc.ArgumentError),
        (lambda t: oc.why(t, "output", 1), IndexError),
        (lambda t: oc.why(oc.param("w"), "output", 0), IndexError),
    ],
)
def test_other_questions(ask: Any, error: type[Exception]):
    with pytest.raises(error):
        ask(oc.data(np.zeros((2, 3)), label="x"))


def operations(x: oc.Tensor) -> dict[str, Any]:
    return {
        "relu": oc.relu,
        "bias": lambda t: t + oc.param("b"),
        "layer": lambda t: oc.param("w", output=3) @ t,
        "hidden": lambda t: oc.param("v", output=4) @ oc.relu(oc.param("w", output=3) @ t),
        "sum": lambda t: t + (oc.param("u", output=3) @ x),
        "norm": nn.layer_norm(label="norm"),
        "swap": lambda t: oc.einsum("b | o => o | b", t),
        "cut": lambda t: t[1:],
        "joined": lambda t: oc.concat("b | ...; c | ... => b^c | ...", t, t),
        "mean": lambda t: t - oc.mean(t, "output", keep=True),
    }


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from([*operations(oc.constant(0.0))]), min_size=1, max_size=3))
def test_the_lines_prove_the_shape_and_no_part_does(names: list[str]):
    x = oc.data(np.zeros((6, 3)), label="x")
    known = operations(x)
    try:
        y = x
        for name in names:
            y = known[name](y)
        loss = (y * y).sum()
        oc.infer(loss)
    except oc.ShapeError:
        return
    for tensor in [y, *oc.params(loss).values()]:
        value = tensor.ir_value
        wanted = graph.known_shape(value)
        lines = proof(value, lambda shape: shape, wanted)
        assert lines is not None
        assert shape_by(value, lines) == wanted
        sizes = range(len(lines)) if len(lines) <= 5 else [len(lines) - 1]
        parts = (part for size in sizes for part in combinations(lines, size))
        if len(lines) > 1:
            assert not any(shape_by(value, part) == wanted for part in parts)


def test_nodes_of_a_routine():
    tensors, ctx = model(), oc.Context.cpu(1)
    loss = tensors["loss"]
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
    reasons = step.why(tensors["h"])
    assert reasons.answer.endswith("of the arena: intermediate value")
    assert reasons.lines[0].text.startswith("computed in the nest 'relu' over b=10 o=16, ")
    assert set(places(reasons)) <= {4, 5, 6}
    assert step.why("relu").lines == reasons.lines
    assert step.why(tensors["w"]).answer == "`layer.w` has memory that stays between runs: parameter"
    assert len(step.why(tensors["w"]).lines) >= 2
    virtual = next(row.split()[0] for row in step.memory().splitlines() if " virtual " in row)
    assert step.why(virtual).answer.startswith(
        f"`{virtual}` (layer.w @ x) has no memory: computed where it is used: "
    )
    assert all(line.text.startswith("its expression is part of the nest") for line in step.why(virtual).lines)
    with pytest.raises(oc.OcannlError, match="no node `other`; there are"):
        step.why("other")
    with pytest.raises(oc.OcannlError, match="does not compute"):
        step.why(oc.data(np.zeros(3)) + 1.0)


def test_tiles_and_neighbours():
    x = oc.data(np.ones((64, 30), np.float32), label="x")
    h = oc.relu(oc.param("w", output=160) @ x).named("h")
    code = oc.forward((oc.param("v", output=100) @ h).named("y"))
    ctx = oc.Context.cpu(1)
    step = ctx.compile(code, "step")
    texts = [line.text for line in step.why(h).lines]
    assert any(re.match(r"'h' is not one with '.*' (before|after) it, since their spaces", t) for t in texts)
    tiles = [text for text in texts if " tile, " in text]
    assert tiles[0].startswith("its tile, ")
    assert len(tiles) == 5
    costs = [float(re.findall(r"about ([\d,]+) cycles", text)[0].replace(",", "")) for text in tiles]
    assert costs[1:] == sorted(costs[1:])
    assert all(text.startswith("another tile, ") for text in tiles[1:])
    taken = re.findall(r"its tile, (.*): about", tiles[0])[0]
    assert all(part in texts[0] for part in taken.split(", "))

    target = step.context.device.target
    nest = nests_before_schedule(extract(code.statements, "step").module, target)[0]
    choices = Chooser.of(nest, target).ranked()  # pyright: ignore[reportOptionalMemberAccess]
    ticks: dict[Choices, float] = {(None,): 30.0, (choices[1],): 20.0}
    tunings = with_tunings(None, {}, {canonical_text(nest): ticks})
    told = [line.text for line in tile_lines(nest, choices[1].schedule, target, tunings)]
    assert told[0].endswith("measured 1.00 times the fastest")
    assert told[1].endswith("measured 1.50 times the fastest")
    assert told[2].endswith("cycles")


def test_why_one_node_waits_for_another():
    x = oc.data(np.ones((64, 30), np.float32), label="x")
    w, v = oc.param("w", output=160), oc.param("v", output=100)
    h = oc.relu(w @ x).named("h")
    total = (v @ h).named("n").sum().named("total")
    step = oc.Context.cpu(1).compile(train.grad_update(total), name="step")
    waits = step.why(h, total)
    assert waits.answer.startswith("`total` waits for `h`; ")
    told = [line.text.rpartition(") ")[2] for line in waits.lines]
    assert told == ["stores `h`", "reads `h`", "reads `n`"]
    assert step.why(total, h).lines == waits.lines
    assert step.why(total, total.grad).answer.startswith("`total` and `total.grad` are computed at once")
    assert step.why(w, h).answer == "no nest stores `w`: nothing waits for it"
    with pytest.raises(oc.OcannlError, match="has no node `nothing`"):
        step.why(h, "nothing")


def test_why_two_nests_are_not_one():
    """The reasons of fusion, in words."""

    def reason(first: str, second: str, space: str = "(i = 64)") -> str | None:
        text = f"""
loops.func @f {{
  %x = assign.node "x" on_device : memref<64xf32>
  %y = assign.node "y" on_device : memref<64xf32>
  loops.nest "x" (i = 64) {{ {first} }}
  loops.nest "y" {space} {{ {second} }}
}}"""
        return why_apart(*(NestSummary.of(nest) for nest in nests(the_func(parse_module(text)))))

    store = "%a = loops.load %y[i] loops.store %a, %x[i]"
    assert reason(store, "%a = loops.load %x[i] loops.store %a, %y[i]") is None
    assert reason(store, "%a = loops.load %x[i] loops.store %a, %y[i]", "(i = 63)") == "their spaces differ"
    turned = reason(store, "%a = loops.load %x[-i + 63] loops.store %a, %y[i]")
    assert turned == "a point of one needs what other points of the other store"
    added = "%a = loops.load %x[i] %b = loops.load %y[0] %c = arith.addf %a, %b : f32 loops.store %c, %y[0]"
    assert reason(store, added) == "points that store to the same element run in turn"


@pytest.mark.exhaustive
def test_proofs_in_deep_programs_ask_little(monkeypatch: pytest.MonkeyPatch):
    """The causes of a shape are found in the whole program at once, not by leaving out each of its lines."""
    x = oc.data(np.zeros((10, 3), np.float32), label="x")
    h = oc.param("first", output=5) @ x
    others = [oc.relu(oc.param(f"other{k}", output=3) @ h) for k in range(16)]
    for _ in range(16):
        h = oc.relu(h + oc.param("b"))
    oc.infer(h)
    asked: list[int] = []

    def counted(value: Any, lines: Any) -> Any:
        asked.append(len(lines))
        return shape_by(value, lines)

    monkeypatch.setattr("ocannl.program.why.shape_proofs.shape_by", counted)
    reasons = oc.why(oc.param("w", output=1) @ h, "batch")
    assert reasons.lines[-1].text == "data `x`: 10|3"
    assert len(reasons.lines) > 30, "each sum and each relu of the way"
    assert len(others) == 16, "uses that decide nothing"
    assert max(asked) < 2 * len(reasons.lines)
    assert len(asked) < 4 * len(reasons.lines)
