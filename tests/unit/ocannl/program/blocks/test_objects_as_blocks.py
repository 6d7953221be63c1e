"""Objects that are called, and functions that call themselves, as blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

X = oc.data(np.ones((4, 5)), label="x")


class Scaled:
    """A block as PyTorch's users write one: a method calls another."""

    def __init__(self) -> None:
        self.layers = [nn.linear(out_dim=5, label=f"l{k}") for k in range(2)]
        self.scale, self.unused = oc.param("scale", 1.0, output=[]), oc.param("unused", 1.0, output=[])

    def __call__(self, x: oc.Tensor) -> oc.Tensor:
        return self.hidden(x) * self.scale

    def hidden(self, x: oc.Tensor) -> oc.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


NAMES = ["l0.w", "l0.b", "l1.w", "l1.b", "scale"]


def trained(result: oc.Tensor) -> list[str]:
    return list(oc.params(nn.mean(result), trained=True))


def test_the_parts_of_an_object_are_its_attributes():
    net = Scaled()
    for block in (oc.Block(net), oc.Block(net.__call__), oc.Block(lambda x: net(x))):
        assert list(block.params) == list(oc.state(block)) == NAMES
    block = oc.Block(net)
    assert block.scale is net.scale
    assert repr(block).splitlines()[:2] == ["Scaled", "  layers[0]: linear(out_dim=5, label='l0')"]
    with pytest.raises(AttributeError, match=r"Scaled has no part `gone`; its parts are layers, scale"):
        _ = block.gone


def test_parts_of_objects_are_frozen_and_replaced():
    net = Scaled()
    for block in (oc.Block(net), oc.Block(net.__call__), oc.Block(lambda x: net(x))):
        assert trained(block.freeze()(X)) == []
    new = oc.Block(net).replace("layers[1]", nn.linear(out_dim=3, label="new"))
    assert {*trained(new(X))} == {"l0.w", "l0.b", "new.w", "new.b", "scale"}
    assert {*trained(net(X))} == {*NAMES}


def test_functions_that_call_themselves():
    layer = nn.linear(out_dim=5)

    def deep(x: Any, depth: int = 3) -> Any:
        return deep(layer(x), depth - 1) if depth else other(x)

    def other(x: Any) -> Any:
        return deep(x, 0) if x is None else x

    block = oc.Block(deep)
    assert list(block.params) == trained(block(X)) == ["linear.w", "linear.b"]
    with pytest.raises(oc.ArgumentError, match="`deep` calls itself: its parts are not changed"):
        block.freeze()
