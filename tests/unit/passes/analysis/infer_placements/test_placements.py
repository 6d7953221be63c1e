"""The solver of placements as mathematics: what follows, what costs least, and that nothing else matters."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocannl.passes.analysis.infer_placements.costs import Machine
from ocannl.passes.analysis.infer_placements.problem import (
    PARTIAL,
    WHOLE,
    PlacedValue,
    Placements,
    Problem,
    Split,
    Step,
    Way,
)
from ocannl.passes.analysis.infer_placements.propagation import Propagation
from ocannl.passes.analysis.infer_placements.solver import ImpossiblePlacement, solve

RANKS = 4


def tensor(
    given: Split | None = None, *, axes: int = 2, bytes: int = 4096, partial: bool = True
) -> PlacedValue:
    return PlacedValue(bytes, tuple(range(axes)), partial, given)


def product(left: int, right: int, result: int) -> Step:
    """`result[i, j] += left[i, k] * right[k, j]`."""
    ways = (
        Way("", (WHOLE, WHOLE), (WHOLE,), 64),
        Way("i", (0, WHOLE), (0,), 16),
        Way("j", (WHOLE, 1), (1,), 16),
        Way("k", (1, 0), (PARTIAL,), 16),
    )
    return Step((left, right), (result,), ways)


def pointwise(operands: tuple[int, ...], result: int, *, adds: bool = False) -> Step:
    ways = [
        Way("", (WHOLE,) * len(operands), (WHOLE,), 16),
        *(Way(f"a{axis}", (axis,) * len(operands), (axis,), 4) for axis in range(2)),
    ]
    if adds:
        ways.append(Way("sum", (PARTIAL,) * len(operands), (PARTIAL,), 16))
    return Step(operands, (result,), tuple(ways))


def store(value: int, memory: int) -> Step:
    ways = tuple(Way(str(split), (split,), (split,), 1) for split in (WHOLE, 0, 1))
    return Step((value,), (memory,), ways, frozenset([1]))


def test_nothing_is_divided_without_placements():
    found = solve(Problem(RANKS, [tensor(), tensor(), tensor()], [product(0, 1, 2)]))
    assert found.splits == (WHOLE,) * 3
    assert found.ways[0].along == ""


def test_rows_of_a_product_follow_those_of_its_operand():
    """Data parallel: a weight is whole, its gradient the sum of what ranks have."""
    x, w, y, g = tensor(0), tensor(partial=False), tensor(), tensor()
    gradient = Step((2, 0), (3,), (Way("", (WHOLE, WHOLE), (WHOLE,)), Way("b", (0, 0), (PARTIAL,))))
    kept = tensor(partial=False)
    found = solve(Problem(RANKS, [x, w, y, g, kept], [product(0, 1, 2), gradient, store(3, 4)], [(1, 4)]))
    assert found.splits == (0, WHOLE, 0, WHOLE, WHOLE)
    assert [way.along for way in found.ways] == ["i", "b", "-1"]


def test_the_second_of_two_products_sums():
    """Tensor parallel: columns of the first weight are rows of the second, which follows."""
    values = [tensor(), tensor(1), tensor(), tensor(), tensor(partial=False), tensor()]
    steps = [product(0, 1, 2), pointwise((2,), 3), product(3, 4, 5)]
    found = solve(Problem(RANKS, values, steps))
    assert found.splits == (WHOLE, 1, 1, 1, 0, WHOLE)
    assert [way.along for way in found.ways] == ["j", "a1", "k"]
    assert found.ways[2].gives == (PARTIAL,)


def test_parts_of_sums_are_added_before_they_move():
    values = [tensor(1), tensor(0), tensor(1), tensor(0), tensor(), tensor(), tensor()]
    steps = [product(0, 1, 4), product(2, 3, 5), pointwise((4, 5), 6, adds=True)]
    found = solve(Problem(RANKS, values, steps))
    assert found.splits[4:] == (PARTIAL, PARTIAL, WHOLE)
    assert found.ways[2].along == "sum"


def test_a_sum_that_is_stored_in_parts_is_scattered():
    """A gradient follows its parameter, unless another placement is given."""
    values = [tensor(1), tensor(0), tensor(), tensor(0, partial=False), tensor(partial=False)]
    steps = [product(0, 1, 2), store(2, 4)]
    assert solve(Problem(RANKS, values, steps, [(3, 4)])).splits == (1, 0, 0, 0, 0)
    told = [*values[:4], tensor(WHOLE, partial=False)]
    assert solve(Problem(RANKS, told, steps, [(3, 4)])).splits == (1, 0, WHOLE, 0, WHOLE)


def test_what_does_not_fit_is_decided_by_cost():
    """One operand is split by rows and one by columns: that which is cheaper to move does."""
    large, small = tensor(0, bytes=2**30), tensor(1, bytes=2**20)
    found = solve(Problem(RANKS, [large, small, tensor(bytes=2**30)], [pointwise((0, 1), 2)]))
    assert found.ways[0].along == "a0"


def test_data_decide_where_weights_are_held_in_parts():
    """Whatever moving costs; rows of what follows are those of the data, too."""
    weight = replace(tensor(0, bytes=2**30, partial=False), is_weight=True)
    steps = [product(0, 1, 2), pointwise((2,), 3), product(3, 1, 4)]
    found = solve(Problem(RANKS, [tensor(0, bytes=64), weight, tensor(), tensor(), tensor()], steps))
    assert found.splits == (0,) * 5
    assert [way.along for way in found.ways] == ["i", "a0", "i"]


def test_data_decide_where_they_come_later_than_weights():
    """As where tokens are added to positions, which a table in parts gives."""
    table = replace(tensor(1, partial=False), is_weight=True)
    steps = [product(0, 1, 2), pointwise((3, 2), 4), product(4, 1, 5)]
    found = solve(Problem(RANKS, [tensor(), table, tensor(), tensor(0), tensor(), tensor()], steps))
    assert [way.along for way in found.ways] == ["j", "a0", "i"]


def sum_over_columns(left: int, right: int, result: int) -> Step:
    """`result[i, k] += left[i, j] * right[k, j]`, as backwards through `product`."""
    ways = (
        Way("", (WHOLE, WHOLE), (WHOLE,), 64),
        Way("i", (0, WHOLE), (0,), 16),
        Way("k", (WHOLE, 0), (1,), 16),
        Way("j", (1, 1), (PARTIAL,), 16),
    )
    return Step((left, right), (result,), ways)


def test_gradients_of_a_sum_in_parts_are_divided_as_it_is():
    """Between rows in parts: columns of a whole input, whose sum is scattered. Backwards rows are gathered,
    and what goes through both weights is scattered again: what reads the last gradient follows.
    """
    first, second = (replace(tensor(given, partial=False), is_weight=True) for given in (1, None))
    values = [tensor(WHOLE), first, tensor(), second, tensor(), tensor(0), tensor(0), *(tensor(),) * 4]
    forward = [product(0, 1, 2), product(2, 3, 4), pointwise((4, 5), 7, adds=True)]
    backward = [sum_over_columns(6, 3, 8), sum_over_columns(8, 1, 9), pointwise((9, 5), 10)]
    found = solve(Problem(RANKS, values, [*forward, *backward]))
    assert [way.along for way in found.ways] == ["j", "k", "a0", "k", "j", "a0"]
    assert (found.splits[3], found.splits[4], found.splits[8], found.splits[9]) == (0, 0, 1, 0)


def test_of_weights_alone_cost_decides():
    """Both by columns: what is between them is gathered, or the second weight is."""
    first, second = (replace(tensor(1, bytes=2**20, partial=False), is_weight=True) for _ in range(2))
    for bytes, along in ((2**10, "j"), (2**30, "k")):
        values = [tensor(bytes=bytes), first, tensor(bytes=bytes), second, tensor(bytes=2**10)]
        found = solve(Problem(RANKS, values, [product(0, 1, 2), product(2, 3, 4)]))
        assert found.ways[1].along == along


def test_weights_decide_where_data_say_nothing():
    weight = replace(tensor(1, partial=False), is_weight=True)
    found = solve(Problem(RANKS, [tensor(), weight, tensor()], [product(0, 1, 2)]))
    assert found.ways[0].along == "j"


def test_memory_that_cannot_be_written_as_it_is_split():
    scattered = Step((0,), (1,), (Way("", (WHOLE,), (WHOLE,)),), frozenset([1]))
    with pytest.raises(ImpossiblePlacement) as error:
        solve(Problem(RANKS, [tensor(), tensor(0, partial=False)], [scattered]))
    assert error.value.step == 0


@pytest.mark.parametrize("at", [0, -1])
def test_steps_of_a_chain_are_looked_at_so_often_as_there_are(at: int, monkeypatch: pytest.MonkeyPatch):
    """Also where only the placement at the end is given, which goes backward step by step."""
    looks: list[int] = []
    decide = Propagation._decide
    monkeypatch.setattr(Propagation, "_decide", lambda self, *args: looks.append(1) or decide(self, *args))

    def looks_at(length: int) -> int:
        looks.clear()
        values = [tensor() for _ in range(length + 1)]
        values[at] = tensor(0)
        steps = [pointwise((number,), number + 1) for number in range(length)]
        assert solve(Problem(RANKS, values, steps)).splits == (0,) * (length + 1)
        return len(looks)

    few, more, many = map(looks_at, (10, 20, 30))
    assert many - more == more - few > 0


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Programs of products, pointwise steps and stores, with some placements given."""
    given_splits = st.sampled_from([None, None, WHOLE, 0, 1])
    values = [tensor(draw(given_splits), bytes=2 ** draw(st.integers(6, 30))) for _ in range(3)]
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 8))):
        operand = st.integers(0, len(values) - 1)
        made = len(values)
        kind = draw(st.sampled_from(["product", "add", "one", "store"]))
        if kind == "product":
            steps.append(product(draw(operand), draw(operand), made))
        elif kind == "store":
            steps.append(store(draw(operand), made))
        else:
            operands = (draw(operand), draw(operand))[: 1 if kind == "one" else 2]
            steps.append(pointwise(operands, made, adds=kind == "add"))
        values.append(tensor(draw(given_splits) if kind == "store" else None, partial=kind != "store"))
    return Problem(draw(st.sampled_from([2, 4])), values, steps)


def check(problem: Problem, found: Placements) -> None:
    """Given placements stay, each step has one of its ways, and all can be moved to where it is needed."""
    machine = Machine()
    for value, split in zip(problem.values, found.splits, strict=True):
        assert value.given in (None, split)
        assert split != PARTIAL or value.may_be_partial
    for step, way in zip(problem.steps, found.ways, strict=True):
        assert way in step.ways
        for value, need in zip(step.operands, way.needs, strict=True):
            assert machine.moving(8, found.splits[value], need, problem.ranks) is not None
        for place, (value, gives) in enumerate(zip(step.results, way.gives, strict=True)):
            assert machine.moving(8, gives, found.splits[value], problem.ranks) is not None
            if place + len(step.operands) in step.in_place:
                assert gives == found.splits[value]


@settings(max_examples=60, deadline=None)
@given(problems())
def test_answers_are_placements_and_always_the_same(problem: Problem):
    found = solve(problem)
    check(problem, found)
    again = Problem(problem.ranks, [*problem.values], [*problem.steps])
    assert solve(again) == found


@settings(max_examples=40, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_the_numbers_of_leaves_do_not_matter(problem: Problem, random: random.Random):
    """Leaves that the program declares in another order have the same placements."""
    order = [0, 1, 2]
    random.shuffle(order)
    numbers = [order.index(value) if value < 3 else value for value in range(len(problem.values))]
    steps = [
        Step(
            tuple(numbers[v] for v in step.operands),
            tuple(numbers[v] for v in step.results),
            step.ways,
            step.in_place,
        )
        for step in problem.steps
    ]
    values = [*(problem.values[value] for value in order), *problem.values[3:]]
    found = solve(Problem(problem.ranks, values, steps))
    assert [found.splits[number] for number in numbers] == [*solve(problem).splits]
