"""The operations that code needs: each once, operands first, and none behind what is settled."""

import numpy as np
import pytest

import ocannl as oc
from ocannl.dialects.texpr import MemoryOp, TensorOp
from ocannl.execute.inference import _is_settled as is_settled
from ocannl.program.code import computing
from ocannl.program.module.extract import extract, extract_part, part_of
from ocannl.program.module.needed import Needed, needed, needed_for
from ocannl.program.values import operation_of, values_of


def diamonds(count: int) -> list[oc.Tensor]:
    """Expressions of which each uses the one before twice."""
    found = [oc.data(np.ones(3, np.float32), label="x")]
    for _ in range(count):
        found.append(oc.tanh(found[-1]) * oc.exp(found[-1]))
    return found


def test_operands_come_first_and_nothing_twice():
    ops = needed_for([diamonds(40)[-1].ir_value])
    assert len(ops) == 1 + 3 * 40
    places = {op: place for place, op in enumerate(ops)}
    assert len(places) == len(ops)
    assert all(places[operation_of(operand)] < places[op] for op in ops for operand in values_of(op))


def test_one_statement_after_the_other_is_all_at_once():
    values = diamonds(6)
    statements = [computing(values[at].ir_value).statements[0] for at in (2, 1, 5, 5, 6)]
    found = Needed(lambda op: False)
    parts = [found.of([statement]) for statement in statements]
    assert [op for part in parts for op in part] == needed(statements)
    assert not parts[1]
    assert not parts[3]


def test_what_another_search_has_found_is_added_once():
    values = diamonds(6)
    statements = [computing(values[at].ir_value).statements for at in (2, 4, 6)]
    search, found = Needed(lambda op: False), Needed(lambda op: False)
    parts = [found.of(statements[0]), *(found.add(search.of(one)) for one in statements)]
    assert not parts[1]
    assert [op for part in parts for op in part] == needed([*statements[0], *statements[1], *statements[2]])
    assert not found.of(statements[2])


def test_nothing_is_needed_behind_ends():
    values = diamonds(6)
    end = values[3].ir_value.op
    looked_at: list[TensorOp] = []

    def ends(op: TensorOp) -> bool:
        looked_at.append(op)
        return op is end

    ops = needed_for([values[6].ir_value], ends)
    assert ops[0] is end
    assert not any(isinstance(op, MemoryOp) for op in looked_at)


@pytest.mark.parametrize("layers", [2, 12])
def test_what_is_settled_is_not_extracted_again(layers: int):
    """Neither it nor the checks of its ids: so that inference of one layer after the other takes as long."""
    ids = oc.data(np.zeros(4, np.int32), axes="b", label="ids")
    x = oc.gather("v | d; b | => b | d", oc.param("w", batch=[7], output=[3]), ids, at="v")
    for _ in range(layers):
        oc.infer(x)
        x = oc.tanh(x) + 1
    program = extract_part(part_of(computing(x.ir_value).statements, is_settled), "last")
    assert not program.checks
    assert len(program.values) == 3
    assert len(extract(computing(x.ir_value).statements, "all").checks) == 1
