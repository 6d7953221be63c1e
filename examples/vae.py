"""A variational autoencoder (Kingma and Welling, 2013) that draws handwritten digits."""

import argparse
from dataclasses import dataclass

import numpy as np
from digits import digits
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

Floats = NDArray[np.float32]


class Autoencoder:
    """Images as rows of 64 cells, and a few numbers that each is made from, with a normal distribution."""

    def __init__(self, hidden: int, latent: int) -> None:
        self.latent = latent
        self.encode = nn.mlp(hid_dims=[hidden], out_dim=hidden, label="encode")
        self.mean, self.log_variance = (
            nn.linear(out_dim=latent, label=name) for name in ("mean", "log_variance")
        )
        self.decode = nn.mlp(hid_dims=[hidden, hidden], out_dim=64, label="decode")

    def loss(self, images: oc.Tensor, counter: oc.Tensor) -> tuple[oc.Tensor, oc.Tensor]:
        """The loss of the images, and that of the numbers: their sum bounds -log p(image), in nats."""
        seen = oc.relu(self.encode(images))
        mean, log_variance = self.mean(seen), self.log_variance(seen)
        noise = oc.normal(counter, key="latent", like=mean)
        drawn = self.decode(mean + oc.exp(log_variance / 2) * noise)
        told = (mean**2 + oc.exp(log_variance) - log_variance - 1).sum("output") / 2
        return nn.bce_with_logits(drawn, images, reduction="batchmean"), oc.mean(told)


@dataclass
class Trained:
    losses: list[float]
    """The bound, of each epoch."""
    drawn: Floats


def main(args: list[str] | None = None) -> Trained:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--latent", type=int, default=8, help="numbers that an image is made from")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args(args)

    oc.seed(o.seed)
    images, _ = digits(o.seed)
    model, optimizer = Autoencoder(o.hidden, o.latent), train.adam(o.rate)

    @oc.function
    def step(x, counter):
        lost, told = model.loss(x, counter)
        optimizer.step(lost + told)
        return {"loss": lost + told, "lost": lost, "told": told}

    @oc.function
    def draw(z):
        return oc.sigmoid(model.decode(z))

    batches, history = (
        train.batches(images, size=50, shuffle=o.seed, drop_last=True),
        list[dict[str, float]](),
    )
    for epoch in range(o.epochs):
        found = [step(x, epoch * len(batches) + n) for n, x in enumerate(batches)]
        history.append({name: float(np.mean([each[name] for each in found])) for name in found[0]})
    print("nats an image: " + ", ".join(f"{name} {value:.2f}" for name, value in history[-1].items()))

    z = np.random.default_rng(o.seed).normal(size=(6, o.latent)).astype(np.float32)
    drawn = draw(z).reshape(-1, 8, 8)
    for row in np.concatenate(list(drawn), axis=1):
        print("".join(2 * " .:-=+*#%@"[int(9.99 * ink)] for ink in row))
    return Trained([epoch["loss"] for epoch in history], drawn)


if __name__ == "__main__":
    main()
