"""The heat equation by a network: derivatives of its output are nested Jacobian-vector products.

On a rod of length 1, u(x, t) changes by u_t = k u_xx; it begins as sin(pi x), and its ends stay at 0. Points
are drawn anew for each step, and nothing is known of the solution but the equation (Raissi et al., 2019).
"""

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

K = 0.3


def exact(points: NDArray[np.floating]) -> NDArray[np.floating]:
    x, t = points.T
    return np.exp(-K * np.pi**2 * t) * np.sin(np.pi * x)


@oc.configurable
def temperature(width: int) -> nn.Layer:
    """batch | x, t -> batch | 1: right at the beginning and at both ends, whatever the network says."""
    network = [nn.linear(out_dim=width, label="first"), nn.linear(out_dim=width, label="second")]
    out = nn.linear(out_dim=1, label="out")

    def apply(points: oc.Tensor) -> oc.Tensor:
        hidden = points
        for layer in network:
            hidden = oc.tanh(layer(hidden))
        x, t = points[:, :1], points[:, 1:]
        return oc.sin(np.pi * x) + t * x * (1 - x) * out(hidden)

    return apply


def heat_equation(u: nn.Layer, points: oc.Tensor) -> oc.Tensor:
    """u_t - k u_xx at each point, which is to be 0."""
    along_x, along_t = oc.tensor([1.0, 0.0]), oc.tensor([0.0, 1.0])
    value = u(points)
    u_t = oc.jvp(value, points, along_t)
    u_x = oc.jvp(value, points, along_x)
    return u_t - K * oc.jvp(u_x, points, along_x)


@dataclass
class Trained:
    losses: list[float]
    error: float
    """The greatest difference from the exact solution."""


def main(args: list[str] | None = None) -> Trained:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--points", type=int, default=128, help="drawn in each step")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args(args)

    oc.seed(o.seed)
    u, optimizer = temperature(o.width), train.adam(train.cosine(o.rate, total=o.steps))

    @oc.function
    def step(points):
        loss = oc.mean(heat_equation(u, points) ** 2)
        optimizer.step(loss)
        return loss

    rng = np.random.default_rng(o.seed)
    losses = [float(step(rng.random((o.points, 2), np.float32))) for _ in range(o.steps)]
    points = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 21)]), axis=-1).reshape(-1, 2).astype(np.float32)
    error = float(np.abs(oc.function(u)(points)[:, 0] - exact(points)).max())
    print(f"mean square of the equation: {losses[0]:.3g} at first, {np.mean(losses[-20:]):.3g} at last")
    print(f"greatest error of the temperature: {error:.5f}")
    return Trained(losses, error)


if __name__ == "__main__":
    main()
