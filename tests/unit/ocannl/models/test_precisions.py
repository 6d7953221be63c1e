"""Open models whose parameters are used in a smaller float."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocannl as oc
from ocannl.models.llama import llama

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
}


def scores(ctx: oc.Context, compute: Any) -> tuple[str, NDArray[Any]]:
    """The program of a small Llama, and what it gives with the parameters of a seed."""
    with oc.precision(np.float32, compute=compute):
        model = llama(SIZES)
    result = model(np.arange(12).reshape(2, 6) % 40)
    routine = ctx.compile(oc.forward(result))
    ctx.init_params(result, seed=3)
    routine()
    return routine.ir("infer-precisions"), ctx[result].astype(np.float32)


@pytest.mark.exhaustive
def test_what_is_used_in_bf16_stays_in_bf16():
    """Rotary positions give bf16 as well, so that products are of bf16 in all layers."""
    text, found = scores(oc.Context.cpu(1), oc.bfloat16)
    products = [line for line in text.splitlines() if "add=" in line and "mul(" in line]
    assert products
    assert all(line.endswith("bf16>") for line in products)
    _, expected = scores(oc.Context.cpu(1), None)
    np.testing.assert_allclose(found, expected, atol=0.05)
