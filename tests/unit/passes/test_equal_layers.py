"""Equal layers become equal nests, however many there are."""

from collections import Counter

import pytest
from unit.passes.layered import MODELS, code_of

from ocannl.extract import extract
from ocannl.lowering.pipelines import PIPELINES, run_passes
from ocannl.passes.nests import functions, steps
from ocannl.passes.structure import structure


@pytest.mark.parametrize("model", MODELS)
def test_more_layers_need_no_other_nests(model: str):
    """Three more layers need three times the nests that one of them needs."""
    few, many = (Counter(structures(model, layers)) for layers in (4, 7))
    assert few.keys() == many.keys()
    more = many - few
    assert more.total() == many.total() - few.total()
    assert more
    assert all(count % 3 == 0 for count in more.values())


def structures(model: str, layers: int) -> list[object]:
    """What the steps of a training step are, before they are scheduled."""
    module = extract(code_of(model, layers), model).module
    passes = PIPELINES["cpu"]
    run_passes(module, passes[: [p.name for p in passes].index("schedule")])
    (func,) = functions(module)
    return [structure(step) for step in steps(func)]
