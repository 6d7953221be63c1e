"""Half-moons in the browser: a training step, compiled to WebAssembly, goes on learning in a page."""

import argparse
import base64
import json
import re
import tempfile
from pathlib import Path

import numpy as np
from moons import half_moons

import ocannl as oc
from ocannl import nn, train

POINTS = 80
SIDES = (64, 48)
AREA = (-1.5, 2.5, -1.25, 1.75)
TEMPLATE = Path(__file__).with_suffix(".html")


def player() -> oc.Function:
    """A function that learns from points for one step, and gives the scores on a grid."""
    model = nn.mlp(hid_dims=[16, 16], out_dim=1)
    optimizer = train.adamw(lr=0.01)

    @oc.function
    def play(points: oc.Tensor, classes: oc.Tensor, grid: oc.Tensor):
        loss = oc.relu(1 - classes * model(points)).mean().named("loss")
        optimizer.step(loss)
        return loss, model(grid).named("scores")

    return play


def grid() -> np.ndarray:
    x0, x1, y0, y1 = AREA
    x, y = np.meshgrid(np.linspace(x0, x1, SIDES[0]), np.linspace(y0, y1, SIDES[1]))
    return np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)


def main(args: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?", default=Path("moons.html"))
    parser.add_argument("--steps", type=int, default=20, help="steps in Python, before the page goes on")
    o = parser.parse_args(args)
    points, classes = half_moons(POINTS, seed=1)
    play, loss = player(), np.inf
    for _ in range(o.steps):
        loss, _ = play(points, classes, grid())
    with tempfile.TemporaryDirectory() as folder:
        wasm = oc.export(play, Path(folder, "play.wasm"))
        struct = wasm.with_suffix(".h").read_text().partition("typedef struct play_memory {")[2]
        parts = {
            "@WASM@": base64.b64encode(wasm.read_bytes()).decode(),
            "@FIELDS@": json.dumps(re.findall(r"\*(\w+);", struct)),
            "@SIDES@": json.dumps(SIDES),
            "@POINTS@": str(POINTS),
            "@AREA@": json.dumps(AREA),
        }
    page = TEMPLATE.read_text("utf-8")
    for mark, part in parts.items():
        page = page.replace(mark, part)
    o.page.write_text(page, "utf-8")
    print(f"{o.page}: loss {loss:.4f} so far; open it in a browser")
    return float(loss)


if __name__ == "__main__":
    main()
