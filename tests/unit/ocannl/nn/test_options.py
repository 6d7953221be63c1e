"""Numbers that make no sense for a block are refused where it is configured: most gave NaN when it ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

NAN = float("nan")
NN: Any = nn
SIZES: Any = {"num_heads": 2, "d_k": 4, "d_v": 4}


def loss(name: str, **how: Any) -> None:
    rows = [oc.data(np.ones((2, 3))) for _ in range(3 if name == "triplet" else 2)]
    getattr(nn, name)(*rows, **how)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: nn.batch_norm1d(epsilon=-1e-5), "epsilon is not negative"),
    (lambda: nn.batch_norm2d(epsilon=NAN), "epsilon is not negative, found nan"),
    (lambda: nn.layer_norm(epsilon=NAN), "epsilon is not negative, found nan"),
    (lambda: NN.layer_norm(epsilon="small"), "epsilon is a number, found 'small'"),
    (lambda: nn.rms_norm(epsilon=-1.0), "epsilon is not negative"),
    (lambda: nn.group_norm(num_groups=2, epsilon=-1.0), "epsilon is not negative"),
    (lambda: nn.instance_norm(epsilon=-1.0), "epsilon is not negative"),
    (lambda: nn.batch_norm2d(momentum=1.1), "momentum is at most 1, found 1.1"),
    (lambda: nn.batch_norm1d(momentum=-0.1), "momentum is not negative"),
    (lambda: nn.softmax(temperature=0), "a temperature is more than 0, found 0"),
    (lambda: nn.softmax(temperature=NAN), "a temperature is not negative, found nan"),
    (lambda: nn.multi_head_attention(**SIZES, temperature=0.0), "a temperature is more than 0"),
    (lambda: NN.multi_head_attention(**{**SIZES, "d_k": 0}), "d_k is at least 1, found 0"),
    (lambda: NN.cross_attention(**{**SIZES, "d_v": 0}), "d_v is at least 1, found 0"),
    (lambda: nn.transformer_encoder(-1, 2, 4, 4, 8), "num_layers is at least 0, found -1"),
    (lambda: nn.rotary(base=0.0), "base is more than 0"),
    (lambda: nn.sinusoidal_positions(base=-1.0), "base is not negative"),
    (lambda: nn.smooth_max_pool2d(beta=0.0), "beta is more than 0"),
    (lambda: nn.interpolate(scale=float("inf")), "scale is a positive number"),
    (lambda: nn.interpolate(size=[]), "has one number for each axis, found none"),
    (lambda: nn.interpolate(scale=(1, 0.3))(oc.zeros((1, 3, 3, 2))), "nothing is left of 3 cells of "),
    (lambda: nn.kv_cache(length=4, dtype=np.int32), "keys and values are of a floating dtype, found int32"),
    (lambda: loss("huber", delta=0.0), "delta is more than 0"),
    (lambda: loss("smooth_l1", beta=-1.0), "beta is not negative"),
    (lambda: loss("triplet", p=0), "p is more than 0"),
    (lambda: oc.init.normal(std=-1.0), "std is not negative"),
    (lambda: oc.init.normal(std=NAN), "std is not negative, found nan"),
    (lambda: oc.init.uniform("low"), "low is a number, found 'low'"),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_makes_no_sense_is_refused(number: int):
    make, message = WRONG[number]
    with pytest.raises(oc.OcannlError, match=message) as caught:
        make()
    assert str(caught.value).startswith(__file__)


def test_a_temperature_may_be_learned():
    temperature, x = oc.param("temperature", 2.0, output=[]), np.array([[1.0, 3.0]])
    ctx = oc.Context.cpu(threads=1)
    y = NN.softmax(temperature=temperature)(oc.data(x))
    ctx.init_params(y)
    np.testing.assert_allclose(ctx[y], np.exp(x / 2) / np.exp(x / 2).sum(), rtol=1e-6)


@pytest.mark.parametrize("padding", [2, [0, (0, 2)], [(5, 0), 1]])
def test_no_window_is_padding_alone(padding: Any):
    """It had negative infinity as its maximum, and NaN as its mean."""
    how: Any = {"window_size": 2, "stride": 1, "padding": padding}
    makes: list[Any] = [
        nn.max_pool2d,
        nn.smooth_max_pool2d,
        lambda **how: nn.avg_pool2d(count_include_pad=False, **how),
    ]
    for make in makes:
        with pytest.raises(oc.ArgumentError, match="cells of padding, a window over 2 is padding alone"):
            make(**how)
    x = oc.data(np.ones((1, 3, 3, 1)), axes="bbbo")
    assert np.isfinite(oc.Context.cpu()[nn.avg_pool2d(**how)(x)]).all()
