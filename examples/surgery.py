"""A model from PyTorch, operated on: its weights are loaded, its body is frozen, its head is replaced, a part
of it is grafted onto another model, and the result goes back to PyTorch.
"""

import argparse
from collections import OrderedDict
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from digits import Floats, Ints, digits

import ocannl as oc
from ocannl import nn, train

TRAINED_ON = 1500


def torch_reader(torch: Any, classes: int) -> Any:
    """Convolution, pool, two linear layers; images are channels, height, width."""
    layers = torch.nn
    parts = {
        "conv": layers.Conv2d(1, 8, 3, padding=1),
        "relu": layers.ReLU(),
        "pool": layers.MaxPool2d(2),
        "flatten": layers.Flatten(),
        "hidden": layers.Linear(8 * 4 * 4, 32),
        "relu2": layers.ReLU(),
        "head": layers.Linear(32, classes),
    }
    return layers.Sequential(OrderedDict(parts))


def trained_in_torch(torch: Any, images: Floats, shown: Ints, steps: int) -> Any:
    model = torch_reader(torch, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        scores = model(torch.tensor(images).movedim(-1, 1))
        torch.nn.functional.cross_entropy(scores, torch.tensor(shown)).backward()
        optimizer.step()
    return model


@oc.configurable
def reader(classes: int, label: str = "reader") -> nn.Layer:
    """The same here: batch, height, width | channels -> batch | classes. Parts have PyTorch's names."""
    with oc.scope(label):
        conv, pool = nn.conv2d(out_channels=8, label="conv"), nn.max_pool2d()
        hidden, head = nn.linear(out_dim=32, label="hidden"), nn.linear(out_dim=classes, label="head")

    def apply(x: oc.Tensor) -> oc.Tensor:
        features = oc.rearrange(pool(oc.relu(conv(x))), "b h w c -> b (c h w)")
        return head(oc.relu(hidden(features)))

    return apply


def trained(model: nn.Layer, images: Floats, classes: Ints, steps: int) -> float:
    """Trains what is not frozen; the accuracy on images that were not trained on."""
    optimizer = train.adam(0.01)

    @oc.function(axes={"y": "b"})
    def step(x, y):
        loss = nn.cross_entropy(model(x), y)
        optimizer.step(loss)
        return loss

    for _ in range(steps):
        step(images[:TRAINED_ON], classes[:TRAINED_ON])
    return accuracy(model, images, classes)


def accuracy(model: nn.Layer, images: Floats, classes: Ints) -> float:
    guessed = oc.function(model)(images[TRAINED_ON:]).argmax(axis=-1)
    return float((guessed == classes[TRAINED_ON:]).mean())


@dataclass
class Operated:
    """Accuracies, and how far the models of both sides are apart, before and after."""

    loaded: float
    parity: float
    grafted: float
    difference: float
    difference_back: float


def main(args: list[str] | None = None) -> Operated | None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args(args)
    if find_spec("torch") is None:
        print("PyTorch is not installed, whose model this takes over: pip install torch")
        return None
    torch: Any = import_module("torch")
    torch.manual_seed(o.seed)
    oc.seed(o.seed)
    ctx = oc.default_context()
    rows, shown = digits(o.seed)
    images = rows.reshape(-1, 8, 8, 1)

    def difference(theirs: Any, ours: nn.Layer) -> float:
        with torch.no_grad():
            expected = theirs(torch.tensor(images).movedim(-1, 1)).numpy()
        return float(np.abs(oc.function(ours)(images) - expected).max())

    # Load: the layouts are converted, and names are those of the parts.
    theirs = trained_in_torch(torch, images[:TRAINED_ON], shown[:TRAINED_ON], o.steps)
    model = reader(10)
    oc.interop.from_torch(ctx, model, theirs.state_dict())
    loaded, apart = accuracy(model, images, shown), difference(theirs, model)
    print(f"loaded: accuracy {loaded:.3f}, at most {apart:.1e} from PyTorch's scores")

    # Freeze, and replace the head: is the digit odd?
    parity = model.freeze().replace("head", nn.linear(out_dim=2, label="parity"))
    odd = trained(parity, images, shown % 2, o.steps)
    print(f"a new head on the frozen body: accuracy {odd:.3f}")

    # Graft: the filters of one model in another, whose other parts are trained.
    student = reader(10, label="student").replace("conv", model.conv.freeze())
    grafted = trained(student, images, shown, o.steps)
    print(f"grafted filters: accuracy {grafted:.3f}")

    # Export: back to PyTorch, with the new head.
    back = torch_reader(torch, 2)
    back.load_state_dict(oc.interop.to_torch(ctx, parity))
    apart_back = difference(back, parity)
    print(f"exported: at most {apart_back:.1e} from PyTorch's scores")
    return Operated(loaded, odd, grafted, apart, apart_back)


if __name__ == "__main__":
    main()
