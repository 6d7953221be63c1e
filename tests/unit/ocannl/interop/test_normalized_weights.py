"""Weights that PyTorch's parametrizations and older hooks normalize: to a block, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn

torch: Any = pytest.importorskip("torch")
HOOKS, NEW = torch.nn.utils, torch.nn.utils.parametrizations
RNG = np.random.default_rng(1)
LINE, IMAGE = RNG.normal(size=(3, 6)), RNG.normal(size=(1, 4, 5, 6))


def linear() -> Any:
    return torch.nn.Linear(6, 6)


# The module, whether it is in training, the block, and what both are applied to.
CASES: dict[str, tuple[Callable[[], Any], bool, Callable[[], Any], Any]] = {
    "a norm for each output": (
        lambda: NEW.weight_norm(linear()),
        True,
        lambda: nn.weight_norm(nn.linear(out_dim=6)),
        LINE,
    ),
    "a norm for each channel of the input": (
        lambda: NEW.weight_norm(torch.nn.ConvTranspose2d(6, 6, (3, 2))),
        True,
        lambda: nn.weight_norm(
            nn.conv_transpose2d(kernel_size=(3, 2), padding=0, out_channels=6), per="channel"
        ),
        IMAGE,
    ),
    "a norm for all, by a hook": (
        lambda: HOOKS.weight_norm(linear(), dim=None),
        True,
        lambda: nn.weight_norm(nn.linear(out_dim=6), per="all"),
        LINE,
    ),
    "a step of power iteration": (
        lambda: NEW.spectral_norm(torch.nn.Conv2d(6, 4, (3, 2), groups=2)),
        True,
        lambda: nn.spectral_norm(nn.conv2d(kernel_size=(3, 2), use_padding=False, groups=2, out_channels=4)),
        IMAGE,
    ),
    "no step in evaluation, by a hook": (
        lambda: HOOKS.spectral_norm(torch.nn.ConvTranspose2d(6, 6, (3, 2))),
        False,
        lambda: nn.spectral_norm(nn.conv_transpose2d(kernel_size=(3, 2), padding=0, out_channels=6), steps=0),
        IMAGE,
    ),
}


HOOK_OF = {"original0": "_g", "original1": "_v", "original": "_orig", "0._u": "_u", "0._v": "_v"}
BY_HOOKS = {f"parametrizations.weight.{new}": f"weight{old}" for new, old in HOOK_OF.items()}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("name", CASES)
def test_normalized_weights_are_those_of_pytorch(name: str):
    make, training, make_block, array = CASES[name]
    torch.manual_seed(1)
    module = make().double().train(training)
    state = {key: value.clone() for key, value in module.state_dict().items()}
    x = torch.tensor(array, requires_grad=True)
    wanted = applied(module, x)
    (wanted**2).sum().backward()
    with oc.precision(np.float64), oc.Context.cpu(threads=1) as ctx:
        block, own = make_block(), oc.data(array)
        y = block(own)
        oc.interop.from_torch(ctx, block, state)
        gradient = oc.grad((y * y).sum(), own)
        ctx.compile(oc.forward(y) + oc.forward(gradient))()
        np.testing.assert_allclose(ctx[y.value], wanted.detach(), rtol=1e-10)
        np.testing.assert_allclose(ctx[gradient.value], x.grad, rtol=1e-9, atol=1e-12)
        back = oc.interop.to_torch(ctx, block, BY_HOOKS if "hook" in name else None)
    for key in state:
        # In training the vector of outputs is made of the other, which is kept.
        if not (training and key.endswith("_u")):
            np.testing.assert_array_equal(back[key], state[key])
    again = make().double().eval()
    again.load_state_dict(back)
    applied(again, x)


def applied(module: Any, x: Any) -> Any:
    """The module on channels that are last."""
    return module(x.movedim(-1, 1)).movedim(1, -1) if x.ndim > 2 else module(x)
