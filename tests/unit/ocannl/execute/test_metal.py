"""Whole programs as Metal text, compiled as C++, give what they give on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support import device_programs as programs
from support import operators
from support.metal_on_cpu import COMPILER, FakeDevice, install_metal
from support.operators import FLOAT_OPERATORS

import ocannl as oc
from ocannl import nn

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: install clang or g++")


@pytest.fixture(autouse=True)
def device() -> Iterator[FakeDevice]:
    with pytest.MonkeyPatch.context() as patch:
        found = FakeDevice()
        install_metal(patch, found)
        patch.setenv("OCANNL_CACHE", "off")
        yield found


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_at_special_values():
    found = operators.all_operators(np.float32, "metal")
    for name, op in FLOAT_OPERATORS.items():
        operators.check(name, found.inputs[: op.arity], found.results[name])


def test_moons_train_alike():
    wanted, found = programs.train_moons(oc.Context.cpu()), programs.train_moons(oc.Context.metal())
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.exhaustive
def test_a_decoder_trains_alike():
    wanted, found = programs.train_decoder(oc.Context.cpu()), programs.train_decoder(oc.Context.metal())
    for name, array in wanted.items():
        programs.close(found[name], array, 2e-5, name)


def test_random_numbers_are_the_same():
    x = oc.data(np.ones((16, 40), np.float32), axes="bo")
    dropped = nn.dropout(rate=0.3)(x, train_step=oc.index("step_n"))
    found: list[programs.Array] = []
    for ctx in (oc.Context.cpu(), oc.Context.metal()):
        ctx.compile(oc.forward(dropped), name="drop")(step_n=7)
        found.append(ctx[dropped])
    np.testing.assert_array_equal(found[0], found[1])
    assert 0 < np.count_nonzero(found[0]) < found[0].size
