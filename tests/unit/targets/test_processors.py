"""All operators, in code for each kind of processor: natively where this one has the instructions, AArch64 in
an emulated process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operators import FLOAT_OPERATORS, check, operators_on
from support.targets.columns import PROCESSORS


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_at_special_values(name: str, dtype: type[np.floating[Any]]):
    with PROCESSORS[name].running() as ctx:
        found = operators_on(ctx, dtype)
    for operator, op in FLOAT_OPERATORS.items():
        check(operator, found.inputs[: op.arity], found.results[operator])
