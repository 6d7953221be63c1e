"""The page of a training run, and what a probe sees of a model."""

from __future__ import annotations

import base64
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.train.probe import Probe, histogram
from ocannl.train.svg import line_chart

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)


class Run:
    """A model, how it is trained, and the loss of a few examples."""

    def __init__(self, lr: float | train.Schedule = 0.01) -> None:
        self.net, self.adam = nn.mlp(hid_dims=[8], out_dim=1), train.adamw(lr=lr)
        self.few = nn.mse(self.net(oc.data(X[:20])), oc.data(Y[:20]))

        @oc.function
        def step(x: oc.Tensor, y: oc.Tensor):
            loss = nn.mse(self.net(x), y)
            self.adam.step(loss)
            return {"loss": loss}

        self.step = step

    def fit(self, *logs: train.Log) -> list[dict[str, float]]:
        return train.fit(self.step, train.batches((X, Y), size=20), epochs=3, log=logs)


@pytest.mark.exhaustive
def test_a_page(tmp_path: Path):
    path, during = tmp_path / "run.html", list[str]()

    def samples() -> dict[str, Any]:
        during.append(path.read_text("utf-8") if path.exists() else "")
        return {"text": "a < b", "grey": np.arange(6).reshape(2, 3), "coloured": np.ones((2, 2, 3))}

    run = Run(lr=train.linear(0.02, total=9))
    history = run.fit(train.dashboard(path, watch=run.few, optimizer=run.adam, samples=samples, every=2))
    page = path.read_text("utf-8")
    sections = dict(re.findall(r"<h2>([^<]*)</h2>(.*?)</section>", page, re.S))
    assert list(sections) == [
        "By step", "By epoch", "Norms of gradients", "Weights", "Activations", "Samples"
    ]  # fmt: skip
    assert f"loss <b>{history[-1]['loss']:.4g}</b>" in sections["By epoch"]
    assert "learning rate <b>0.002222</b>" in sections["By step"]
    names = [*oc.params(run.few)]
    for title in ("Norms of gradients", "Weights"):
        assert re.findall(r"<figcaption>(\S+) <b>", sections[title]) == names
    assert "relu <b>mean " in sections["Activations"]
    assert "<pre>a &lt; b</pre>" in sections["Samples"]
    assert "epoch 3 of 3, step 9; training is over" in page
    assert 'http-equiv="refresh"' not in page
    assert all('http-equiv="refresh"' in text and "goes on" in text for text in during[1:])
    assert re.search(r"https?:|<script|<link|<!--", page) is None


def test_samples_of_a_model_begin_when_it_has_values(tmp_path: Path):
    path, run = tmp_path / "run.html", Run()
    run.fit(train.dashboard(path, samples=lambda: f"error {run.few.item():.3f}"))
    assert re.search(r"error \d\.\d{3}", path.read_text("utf-8"))
    other = Run()
    with pytest.raises(oc.UninitializedError):
        run.fit(train.dashboard(path, samples=lambda: f"error {other.few.item():.3f}"))


def test_pictures(tmp_path: Path):
    pixels = np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    page = tmp_path / "run.html"
    train.fit(lambda x: 0.5, train.batches(X), epochs=1, log=[train.dashboard(page, samples=lambda: pixels)])
    found = re.search(r'base64,([^"]+)"', page.read_text("utf-8"))
    assert found is not None
    png = base64.b64decode(found[1])
    start = png.index(b"IDAT")
    length = int.from_bytes(png[start - 4 : start], "big")
    rows = np.frombuffer(zlib.decompress(png[start + 4 : start + 4 + length]), np.uint8).reshape(2, 4)
    np.testing.assert_array_equal(rows, [[0, 0, 127, 255], [0, 255, 127, 0]])
    wrong = train.dashboard(page, samples=lambda: np.ones(3))
    with pytest.raises(oc.ArgumentError, match=r"a text or a picture .* found the shape \(3,\)"):
        wrong.begin(0, 1)


def test_who_looks_does_not_disturb(tmp_path: Path):
    histories = [
        run.fit(*([train.dashboard(tmp_path / "run.html", watch=run.few, every=1)] if looks else []))
        for looks in (False, True)
        for run in (Run(),)
    ]
    assert histories[0] == histories[1]


def test_what_a_probe_sees():
    ctx = oc.Context.cpu(1)
    w, v = oc.param("w", input=4, output=3), oc.param("v", input=3, output=1)
    hidden = oc.relu(w @ oc.data(X[:5], label="x")).named("hidden")
    loss = ((v @ hidden) * (v @ hidden)).sum()
    ctx[w] = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [-1, 0, 2, 0]])
    ctx[v] = np.array([[1, 2, 3]])
    seen = Probe(loss, ctx, train.sgd(lr=0.25))(7)
    values = np.maximum(X[:5] @ ctx[w].T, 0)
    np.testing.assert_allclose(seen.activations["hidden"], values, rtol=1e-6)
    assert seen.dead["hidden"] == pytest.approx(1 / 3)
    gradient = 2 * ((values @ ctx[v].T) * values).sum(0)
    assert seen.gradients["v"] == pytest.approx(np.linalg.norm(gradient), rel=1e-5)
    np.testing.assert_array_equal(seen.weights["w"], ctx[w])
    assert seen.rate == 0.25


def test_histograms_leave_out_what_is_not_finite():
    assert histogram(np.array([0.0, 1.0, 1.0, np.nan, np.inf]), 2) == (0.0, 1.0, [1, 2])
    assert histogram(np.array([np.nan]), 2) == (0.0, 0.0, [0, 0])


def test_lines_have_gaps():
    drawn = line_chart("a", [1, 2, 3, 4], [1.0, float("nan"), 2.0, 3.0])
    assert re.findall("[ML]", re.findall(r'class="line" d="([^"]*)"', drawn)[0]) == ["M", "M", "L"]
    assert 'aria-label="a: 3; 1 to 4, 1 to 3"' in drawn


def test_tensorboard_gets_what_a_probe_sees(tmp_path: Path):
    pytest.importorskip("tensorboardX")
    run = Run()
    run.fit(train.tensorboard(tmp_path, watch=run.few, optimizer=run.adam, every=3))
    (events,) = tmp_path.iterdir()
    for tag in (b"weights/mlp.layer1.w", b"activations/relu", b"gradient_norm/mlp.w_out", b"dead_units/relu"):
        assert tag in events.read_bytes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: train.dashboard("none/run.html"), "there is no folder none"),
        (lambda: train.dashboard("run.html", every=0), "the number of steps"),
        (lambda: train.dashboard("run.html", watch=oc.data(X).sum()), "computed without a parameter"),
        (lambda: train.dashboard("run.html", watch=3), "is watched, a tensor; found 3"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_errors(make: Any, message: str):
    with pytest.raises(oc.ArgumentError, match=message):
        make()
