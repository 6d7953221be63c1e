"""Random loops with a condition and branches, some inside of others: values and derivatives of first and
second order against JAX, in f64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.derivatives import data, values
from support.random_conditions import Function, Jax, Ours, random_function
from support.tensors import Array

import ocannl as oc

SIZE, NAMES = 3, ("a", "b")


@pytest.mark.sampled(30)
@pytest.mark.parametrize("seed", range(60))
def test_values_and_derivatives_of_both_orders(seed: int) -> None:
    chance = np.random.default_rng(seed)
    function = random_function(chance, 3)
    arrays, steps = (dict(zip(NAMES, chance.normal(size=(2, SIZE)), strict=True)) for _ in range(2))
    found, wanted = derivatives(function, arrays, steps), derivatives_by_jax(function, arrays, steps)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-10, atol=1e-10, err_msg=name)


def derivatives(
    function: Function, arrays: Mapping[str, Array], steps: Mapping[str, Array]
) -> dict[str, Array]:
    """The sum of a function, its gradients, how they change along steps in each mode over the other."""
    wrt = {name: data(array, name) for name, array in arrays.items()}
    along = {name: data(array, "along") for name, array in steps.items()}
    loss = oc.sum(oc.sin(function(Ours(), [*wrt.values()])) + sum(0.1 * x for x in wrt.values()))
    slopes = oc.grad(loss, wrt)
    change = oc.jvp(loss, wrt, along)
    total = sum((oc.sum(slopes[name] * along[name]) for name in wrt), oc.constant(0.0))
    kinds = {
        "gradient": slopes,
        "reverse over reverse": oc.grad(total, wrt),
        "forward over reverse": oc.jvp(slopes, wrt, along),
        "reverse over forward": oc.grad(change, wrt),
    }
    named = {"value": loss, "change": change, "change of the change": oc.jvp(change, wrt, along)}
    named |= {f"{kind} of {name}": tensor for kind, of in kinds.items() for name, tensor in of.items()}
    return dict(zip(named, values(*named.values()), strict=True))


def derivatives_by_jax(
    function: Function, arrays: Mapping[str, Array], steps: Mapping[str, Array]
) -> dict[str, Array]:
    jax = pytest.importorskip("jax")
    language = Jax()

    def loss(wrt: Mapping[str, Any]) -> Any:
        given = [*wrt.values()]
        return language.total(language.ops.sin(function(language, given)) + sum(0.1 * x for x in given))

    with jax.enable_x64(True):
        value, change = jax.jvp(loss, (arrays,), (steps,))
        slopes, second = jax.tree.map(np.asarray, jax.jvp(jax.grad(loss), (arrays,), (steps,)))
    orders = ("reverse over reverse", "forward over reverse", "reverse over forward")
    found = {"value": value, "change": change}
    found["change of the change"] = sum(np.sum(second[name] * steps[name]) for name in arrays)
    found |= {f"gradient of {name}": slopes[name] for name in arrays}
    found |= {f"{kind} of {name}": second[name] for kind in orders for name in arrays}
    return {name: np.asarray(array) for name, array in found.items()}
