"""Small gathers that share an exchange: how many, that they give what each alone gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.partitioned import at, points_of
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, Operation, SSAValue

import ocannl as oc
from ocannl import train
from ocannl.dialects import assign
from ocannl.dialects.index.linear import Linear
from ocannl.dialects.index.memref import array_type, memref_shape
from ocannl.dialects.scalar.combination import Combination
from ocannl.dialects.scalar.terms import Arg
from ocannl.lowering.buckets import Joining, SmallSum
from ocannl.lowering.collectives import CollectiveSteps
from ocannl.lowering.gather_buckets import Gathering, SmallGather

RANKS = 2
POINTS = np.random.default_rng(3).normal(size=(9, 6))


def node(name: str, _: Attribute = f64, sizes: tuple[int, ...] = (2, 3), *__: object) -> SSAValue:
    found = assign.NodeOp(name, "local", "", array_type(f64, sizes)).result
    found.name_hint = name
    return found


def copied(target: SSAValue, source: SSAValue) -> list[Operation]:
    """A copy of a window of a source, which may be larger."""
    i, j = Linear.var("i"), Linear.var("j")
    shift = [own > 2 + k for k, own in enumerate(memref_shape(source))]
    read = (i + Linear((), int(shift[0])), j + Linear((), 2 * int(shift[1])))
    return [assign.AccumOp(target, (i, j), Combination(Arg(0), (source,), (read,)), (("i", 2), ("j", 3)))]


def collective(kind: str, target: SSAValue, source: SSAValue, axis: int) -> list[Operation]:
    steps = CollectiveSteps("data", RANKS, (), lambda suffix, sizes: node(suffix, f64, sizes))
    if kind == "gather":
        steps.all_gather(target, source, axis)
    else:
        steps.reduce_scatter(target, source, "add", axis)
    return steps.steps


class Memory:
    """The nodes of all ranks, each with other numbers in the beginning."""

    def __init__(self) -> None:
        self.arrays: dict[SSAValue, NDArray[Any]] = {}

    def of(self, node: SSAValue) -> NDArray[Any]:
        if node not in self.arrays:
            sizes = (RANKS, *memref_shape(node))
            self.arrays[node] = np.arange(np.prod(sizes), dtype=np.float64).reshape(sizes) + sum(
                map(ord, node.name_hint or "")
            )
        return self.arrays[node]

    def run(self, steps: Sequence[Operation]) -> None:
        for op in steps:
            if isinstance(op, assign.CollectiveOp):
                target, source = (self.of(own) for own in op.arrays)
                found = source.copy().reshape(RANKS, -1)
                for rank in range(RANKS):
                    parts = (
                        found.reshape(RANKS, RANKS, -1)[:, rank] if op.kind.data == "all_to_all" else found
                    )
                    target[rank] = parts.reshape(target[rank].shape)
                continue
            assert isinstance(op, assign.AccumOp)
            points = points_of(op.space.data)
            for rank in range(RANKS):
                values = self.of(op.rhs[0])[rank][at(op.maps[0], points)]
                place, target = at(op.lhs_map.data, points), self.of(op.lhs)[rank]
                if op.accum is None:
                    target[place] = values
                else:
                    target[...] = 0
                    np.add.at(target, place, values)


STEPS = st.tuples(
    st.sampled_from(["copy", "copy of whole", "gather", "gather", "scatter", "message"]),
    *(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)),
)


@given(st.lists(STEPS, max_size=16))
@example([("gather", 0, 0, 0), ("copy of whole", 1, 0, 0), ("gather", 1, 1, 0)])
@example([("gather", 0, 0, 0), ("copy", 0, 1, 0), ("gather", 1, 0, 0)])
def test_results_are_those_of_steps_in_order(code: list[tuple[str, int, int, int]]) -> None:
    parts = [node(f"n{k}") for k in range(4)]
    wholes = [
        [node(f"w{axis}{k}", f64, sizes) for k in range(4)] for axis, sizes in enumerate([(4, 3), (2, 6)])
    ]
    steps, gathers, sums = list[Operation](), list[SmallGather](), list[SmallSum]()
    for number, (kind, to, of, axis) in enumerate(code):
        match kind:
            case "copy" if to != of:
                steps += copied(parts[to], parts[of])
            case "copy of whole":
                steps += copied(parts[to], wholes[axis][of])
            case "gather":
                made = collective("gather", wholes[axis][to], parts[of], axis)
                gathers += SmallGather.of(made)
                steps += made
            case "scatter":
                made = collective("scatter", parts[to], wholes[axis][of], axis)
                sums += SmallSum.of(made)
                steps += made
            case "message":
                steps.append(assign.CollectiveOp("send", [parts[of]], "stage", (number, 1)))
            case _:
                pass
    computing = [op for op in steps if not (isinstance(op, assign.CollectiveOp) and op.message is not None)]
    expected, found = Memory(), Memory()
    expected.run(computing)
    order = Joining(node, frozenset()).run(Gathering(node, frozenset()).run(steps, gathers), sums)
    found.run([op for op in order if not (isinstance(op, assign.CollectiveOp) and op.message is not None)])
    for own in [*parts, *wholes[0], *wholes[1]]:
        np.testing.assert_array_equal(found.of(own), expected.of(own))


def trained(ranks: int, compute: str | None) -> tuple[oc.Code, Mapping[str, NDArray[Any]]]:
    """Adam on layers whose parameters are divided, weights along their inputs, biases along their axis."""
    shards: list[Any] = [{"batch": "data"}, {"input": "data"}, {"output": "data"}] if ranks else [None] * 3
    h = oc.data(POINTS, label="x", shard=shards[0])
    with oc.precision("float64", compute=compute):
        for k in range(3):
            weight, bias = (
                oc.param(f"{name}{k}", output=7, shard=own)
                for name, own in zip("wb", shards[1:], strict=True)
            )
            h = oc.tanh(weight @ h + bias)
        loss = (h**2).sum().named("loss")
        code = train.grad_update(loss) + train.adam_update(loss, learning_rate=0.01)
    ctx = oc.Context.cpu(1, mesh=oc.Mesh({"data": ranks}, engine="threads", timeout=30) if ranks else None)
    step = ctx.compile(code, name="step")
    ctx.init_params(loss)
    losses = step.run_loop(epochs=4, record=[loss])[loss]
    return code, {"losses": losses} | {name: ctx[param] for name, param in oc.params(loss).items()}


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("ranks", [2, 3])
def test_divided_layers_have_one_gather_and_one_scatter(ranks: int) -> None:
    """Also where backward reads parameters again."""
    _, expected = trained(0, None)
    code, found = trained(ranks, None)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)
    plan = oc.plan(code, oc.Mesh({"data": ranks}))
    kinds = [(each.kind, each.operand.partition(" ")[2]) for each in plan.collectives]
    assert kinds == [("all_gather", "and 5 more"), ("all_reduce", ""), ("reduce_scatter", "and 5 more")]


@pytest.mark.exhaustive
def test_parameters_in_another_precision_are_gathered_in_it() -> None:
    """They are converted where the bucket is packed, before the first of them is used."""
    code, _ = trained(2, "float32")
    gathers = [each for each in oc.plan(code, oc.Mesh({"data": 2})).collectives if each.kind == "all_gather"]
    assert [(each.operand.partition(" ")[2], each.bytes) for each in gathers] == [("and 5 more", 4 * 178)]
