"""Training with state of every kind, on a mesh or none."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train

MESHES: list[Mapping[str, int]] = [{}, {"data": 1}, {"data": 2}, {"data": 4}, {"data": 2, "model": 2}]
POINTS = np.random.default_rng(3).normal(size=(24, 3))


class Training:
    """Two layers with dropout and Adam, in f64, on data by turns. Of 5 rows over 4 ranks, one has none.

    With an axis of stages, each layer is one, and a batch goes through them in two parts.
    """

    def __init__(self, axes: Mapping[str, int], *, engine: str = "threads", seed: int = 1) -> None:
        parts = 2 if "stage" in axes else 1
        mesh = oc.Mesh(axes, engine=engine, timeout=60, microbatches=parts) if axes else None
        self.ctx = oc.Context.cpu(1, mesh=mesh)
        rows = "model" if "model" in axes else "data"
        with oc.precision(np.float64):
            over = tuple(
                axis for axis in ("data", "microbatch") if axis in (*axes, *["microbatch"] * (parts - 1))
            )
            self.x = oc.data(np.zeros((6, 3)), label="x", shard={"batch": over} if over else {})
            step_n, draws = oc.index("step_n"), oc.node("draws", output=[], init=0.0)
            with oc.stage(0) if parts > 1 else nullcontext():
                hidden = oc.param("hidden", output=5, shard={"output": rows} if rows in axes else {})
                layer = nn.dropout(0.3)(oc.tanh(hidden @ self.x), train_step=draws)
            with oc.stage(1) if parts > 1 else nullcontext():
                self.loss = ((oc.param("out", output=2) @ layer) ** 2).sum()
            update = train.adam_update(self.loss, learning_rate=0.05 / (1 + step_n))
            with oc.code("count") as count:
                draws += 1
            code = train.grad_update(self.loss) + update + count
        self.step = self.ctx.compile(code, name="step")
        self.batches = train.batches(POINTS, size=6, shuffle=1)
        self.ctx.init_params(self.loss, seed=seed)

    @property
    def what(self) -> list[object]:
        return [self.step, self.batches]

    def run(self, epochs: int) -> list[float]:
        """The losses of some epochs."""
        losses: list[float] = []
        for _ in range(epochs):
            for batch in self.batches:
                self.ctx[self.x] = batch
                self.step()
                losses.append(float(self.ctx[self.loss]))
        return losses

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(self.ctx[entry]) for name, entry in oc.state(self.what).items()}

    def bits(self) -> dict[str, bytes]:
        return {name: array.tobytes() for name, array in self.arrays().items()}

    def save(self, path: Path) -> None:
        self.ctx.save(path, self.what, step=7)
