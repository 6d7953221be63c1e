"""Pages of programs: their data, the ways to ask for one, and what a browser makes of one."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import BROWSER, NEEDS_BROWSER, browser

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.ir.errors import OcannlError
from ocannl.tools.view import main


def data_of(path: Path) -> dict[str, Any]:
    packed = re.search(r'type="application/octet-stream">([^<]+)<', path.read_text("utf-8"))
    assert packed is not None
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))


def compiled() -> oc.Routine:
    x, y = oc.data(np.ones((64, 3), np.float32)), oc.data(np.ones((64, 1), np.float32))
    errors = nn.mlp(hid_dims=[40], out_dim=1)(x) - y
    loss = (errors**2).einsum("...|... => 0").named("loss")
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss)
    return step


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> tuple[oc.Routine, dict[str, Any]]:
    """A routine, and the data of its page."""
    step = compiled()
    return step, data_of(step.view(tmp_path_factory.mktemp("viewed") / "step.html"))


def test_a_routine(viewed: tuple[oc.Routine, dict[str, Any]]):
    step, data = viewed
    names = [stage["name"] for stage in data["stages"]]
    assert names[0] == "as built"
    assert names[-2:] == ["llvm", "machine code"]
    for name in ("differentiate", "schedule"):
        stage = next(stage for stage in data["stages"] if stage["name"] == name)
        assert "\n".join(data["texts"][n] for n in stage["lines"][::2]) + "\n" == step.ir(name)
    assert "\n".join(data["texts"][n] for n in data["stages"][-2]["lines"][::2]) + "\n" == step.ir("llvm")
    assert [kernel["seconds"] for kernel in data["steps"]] == [None] * len(data["steps"])
    labels = {node["label"]: node for node in data["memory"]}
    assert labels["mlp.layer1.w"]["bytes"] == 40 * 3 * 4
    assert {node["block"] for node in data["graph"] if node["name"] == "relu"} == {"mlp.layer1"}
    (source,) = data["files"]
    assert source["name"] == __file__
    assert source["lines"][0] == [1, Path(__file__).read_text("utf-8").splitlines()[0]]
    assert step.ir("loops") == step.ir("plan-memory")


def test_reasons_are_those_that_a_routine_gives(viewed: tuple[oc.Routine, dict[str, Any]]):
    step, data = viewed
    files, texts = [file["name"] for file in data["files"]], data["texts"]
    labels = [row.split()[0] for row in step.memory().splitlines()[1:-1]]
    assert [reason["label"] for reason in data["reasons"]] == labels
    for reason in data["reasons"]:
        told, numbers = step.why(reason["label"]), reason["lines"]
        assert texts[reason["answer"]] == told.answer
        lines = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        found = [(f"{files[file]}:{line}", texts[text]) for file, line, text in lines]
        own = [(line.place, line.text) for line in told.lines if " tile, " not in line.text]
        assert found == own
    nests = [nest for kernel in data["steps"] for nest in kernel["nests"]]
    tiled = [nest for nest in nests if nest["tiles"]]
    assert tiled
    for nest in tiled:
        assert [own for *_, own in nest["tiles"]].count(True) <= 1
        costs = [cycles for _, cycles, _, own in nest["tiles"] if not own]
        assert costs == sorted(costs)
    (label,) = (nest["label"] for nest in nests if nest["label"].endswith("w.grad .. mlp.layer1.w"))
    told = [line.text for line in step.why("mlp.layer1.w.grad").lines if " tile, " in line.text]
    (nest,) = (nest for nest in nests if nest["label"] == label)
    assert [re.findall("tile, (.*): about", text)[0] for text in told] == [name for name, *_ in nest["tiles"]]


@pytest.mark.exhaustive
def test_proofs_are_those_that_a_tensor_gives(tmp_path: Path):
    x = oc.data(np.ones((64, 3), np.float32), label="x")
    y = (nn.mlp(hid_dims=[40], out_dim=1)(x) ** 2).sum().named("y")
    code = train.grad_update(y) + train.sgd_update(y, learning_rate=0.1)
    data = data_of(oc.Context.cpu(1).compile(code, name="step").view(tmp_path / "step.html"))
    texts, lines = data["texts"], data["proof_lines"]
    proofs = {
        texts[proof["answer"]]: [texts[lines[3 * k + 2]] for k in proof["lines"]] for proof in data["proofs"]
    }
    for value in [x, *oc.params(y).values(), y]:
        told = oc.why(value.shape)
        assert sorted(proofs[told.answer]) == sorted(line.text for line in told.lines)
    name, _, shape = oc.why(oc.params(y)["mlp.layer1.w"].shape).answer.partition("` ")
    assert proofs[f"{name}.grad` {shape}"] == proofs[f"{name}` {shape}"]
    assert {data["files"][file]["name"] for file in lines[::3]} == {__file__}


def graph_of(code: oc.Code, folder: Path) -> list[dict[str, Any]]:
    return data_of(code.view(folder / "step.html"))["graph"]


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a decoder whose weights of the embedding are those of the scores."""
    ids = oc.data(np.zeros((2, 5), np.int32), axes="bb", label="ids")
    embed, decode = nn.embedding(num=7, dim=8), nn.decoder_only(2, 2, 4, 4, 16)
    loss = nn.cross_entropy(embed.w @ decode(embed(ids)), ids).named("loss")
    return oc.forward(loss).view(tmp_path_factory.mktemp("tied") / "step.html")


@pytest.mark.exhaustive
def test_the_graph_has_a_loss_beside_blocks_and_masks_where_they_are_first_used(tied: Path):
    graph = data_of(tied)["graph"]
    of = {node["name"]: node for node in graph}
    assert of["loss"]["block"] == ""
    assert of["causal_mask"]["block"].startswith("decoder.layer1")
    assert not any(node["does"].startswith("min=") for node in graph), (
        "checks of ids are no part of the model"
    )
    for node in graph:
        layers = {graph[k]["block"][:14] for k in node["operands"]}
        assert "decoder.layer1" not in node["block"] or "decoder.layer2" not in layers


# The edges of the graph, by the heights at which they begin and end.
EDGES = """[...document.querySelectorAll("#view-graph path.edge")].map((edge) => {
  const [, from, to] = edge.getAttribute("d").match(/^M[^,]+,(\\S+) .*,(\\S+)$/);
  return [+from, +to];
})"""


# What is free to the left of the graph, and to its right.
SIDES = """(() => {
  const marks = [...document.querySelectorAll("#view-graph .mark")];
  const boxes = marks.map((mark) => mark.getBoundingClientRect());
  const left = Math.min(...boxes.map((box) => box.left)), right = Math.max(...boxes.map((box) => box.right));
  return [left, innerWidth - right];
})()"""


@pytest.mark.exhaustive
@NEEDS_BROWSER
def test_edges_of_the_graph_go_down_in_the_middle_where_weights_are_tied(tied: Path, tmp_path: Path):
    with browser(tmp_path) as page:
        page.size(1600, 900)
        page.open(tied, "#graph")
        edges = page.run(EDGES)
        sides = page.run(SIDES)
    assert len(edges) >= 5
    assert sides[0] == pytest.approx(sides[1], abs=40)
    assert all(start < end for start, end in edges)


def test_the_graph_links_all_results_of_a_loop(tmp_path: Path):
    xs, h0 = oc.data(np.ones((5, 4, 3)), axes="bbo", label="xs"), oc.data(np.zeros((5, 3)), label="h0")
    ys, last = oc.scan(lambda h, x: (h + x, h * x), h0, xs)
    either = oc.cond(ys.sum() > 0, lambda h: h * 2, lambda h: h * 3, h0)
    graph = graph_of(oc.forward((ys.sum() + last.sum() + either.sum()).named("total")), tmp_path)
    loop = next(k for k, node in enumerate(graph) if node["op"] == "scan")
    read = [shape for n in graph for k, shape in zip(n["operands"], n["given"], strict=True) if k == loop]
    assert set(read) == {"5,4|3", "5|3"}
    assert [node["does"] for node in graph if node["op"] == "scan"] == ["scan", "cond", "cond"]


def test_times_are_those_of_the_profile(tmp_path: Path):
    step = compiled()
    step.profile(runs=2)
    assert all(kernel["seconds"] > 0 for kernel in data_of(step.view(tmp_path / "step.html"))["steps"])


def test_everything_that_can_be_viewed(tmp_path: Path):
    @oc.function
    def double(x: oc.Tensor):
        return 2 * x

    t = oc.data(np.ones(3, np.float32), label="x") + 1
    with pytest.raises(OcannlError, match=r"double has not been called: `double\.lower"):
        double.view()
    double(np.ones(4, np.float32))
    viewed = [t, oc.forward(t), oc.Context.cpu(1).compile(oc.forward(t)), double, double.lower(np.ones(2))]
    for number, one in enumerate(viewed):
        assert data_of(oc.view(one, tmp_path / f"{number}.html"))["stages"]


def test_a_gpu_has_kernels(tmp_path: Path):
    t = oc.data(np.ones(3, np.float32), label="x") + 1
    data = data_of(oc.Context("emulated_gpu").compile(oc.forward(t)).view(tmp_path / "gpu.html"))
    assert data["stages"][-1]["level"] == "loops"
    assert any("kernel.launch" in data["texts"][n] for n in data["stages"][-1]["lines"][::2])


@pytest.mark.exhaustive
def test_a_model_of_12_layers_is_a_small_page(tmp_path: Path):
    """With the sizes of GPT-2, but for the ids."""
    ids = oc.data(np.zeros((1, 256), np.int32), axes="bb", label="ids")
    embed, decode = (
        nn.embedding(num=50257, dim=768),
        nn.decoder_only(12, 12, 64, 64, 3072, activation=nn.gelu),
    )
    loss = nn.cross_entropy(embed.w @ decode(embed(ids)), ids)
    code = train.grad_update(loss) + train.adam_update(loss, learning_rate=1e-3)
    path = oc.Context.cpu(1, target="x86-64-v3").compile(code).view(tmp_path / "gpt2.html")
    assert path.stat().st_size < 5e6


@pytest.mark.exhaustive
def test_looking_changes_nothing(tmp_path: Path):
    step = compiled()
    before = step.ir("llvm"), repr(step)
    step.view(tmp_path / "step.html")
    assert (step.ir("llvm"), repr(step)) == before


def test_without_a_path_it_is_opened(monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    path = oc.view((oc.data(np.ones(3, np.float32)) * 2).named("twice"))
    assert opened == [path.as_uri()]
    assert path.name.startswith("twice-")
    path.unlink()


def test_what_cannot_be_viewed(tmp_path: Path):
    t = oc.data(np.ones(3, np.float32))
    with pytest.raises(oc.ArgumentError, match=r"a routine or a function is viewed, found ndarray"):
        oc.view(np.ones(3), tmp_path / "x.html")  # pyright: ignore[reportArgumentType]
    with pytest.raises(oc.ArgumentError, match=r"found Block; oc\.function of it is one"):
        oc.view(nn.linear(out_dim=1), tmp_path / "x.html")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OcannlError, match="cannot write the page"):
        oc.view(t * 2, tmp_path / "none" / "x.html")
    with pytest.raises(OcannlError, match="cannot write the page"):
        oc.view(t * 2, "\0")
    with pytest.raises(oc.ArgumentError, match=r"test_page\.py:\d+: a page is written to a path, found 3\.5"):
        oc.view(t * 2, 3.5)  # pyright: ignore[reportArgumentType]
    for wrong in ((3, 1), (-1,)):
        with pytest.raises(oc.ArgumentError, match=r"for other axes, t\.reshape"):
            t.view(*wrong)  # pyright: ignore[reportArgumentType]


class TestTool:
    TEXT = """
texpr.routine @f {
  %x = texpr.data "x" : !texpr.tensor<8>
  %y = texpr.apply = relu(%x) logic "." : !texpr.tensor<...o1>
  texpr.forward %y
}
"""

    def test_a_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        file, page = tmp_path / "f.mlir", tmp_path / "f.html"
        file.write_text(self.TEXT)
        assert main([str(file), "-o", str(page)]) == 0
        assert capsys.readouterr().out.strip() == str(page)
        data = data_of(page)
        assert data["files"][0]["name"] == str(file)
        assert data["title"] == "f.mlir"

    @pytest.mark.parametrize(
        ("text", "message"),
        [("texpr.routine {", "f.mlir:1"), ("builtin.module {\n}", "no routine"), (None, "cannot read")],
    )
    def test_errors(self, text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        file = tmp_path / "f.mlir"
        if text is not None:
            file.write_text(text)
        assert main([str(file), "-o", str(tmp_path / "f.html")]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert message in error


# Goes through all views as a user does, and leaves what it saw in the body's attributes.
VISIT = """
<script>
const seen = document.body.dataset, press = (key, on = document.body) =>
  on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const wait = setInterval(() => {
  if (!seen.ready) return;
  clearInterval(wait);
  for (const box of document.querySelectorAll(".bar input[type=checkbox]")) if (!box.checked) box.click();
  const panes = [...document.querySelectorAll(".pane")], source = panes[0].querySelector(".scroll");
  const rows = [...source.querySelectorAll(".row")];
  rows.find((row) => row.textContent.includes("named(")).click();
  seen.status = document.getElementById("status").textContent;
  seen.why = document.getElementById("why").textContent.includes("has the shape");
  seen.lit = panes.map((pane) => pane.querySelectorAll(".row.strong, .row.weak").length).join();
  press("Escape");
  seen.hint = document.getElementById("status").textContent;
  seen.summary = document.getElementById("target").textContent;
  seen.left = document.querySelectorAll(".row.strong, .row.weak").length;
  const slider = document.querySelector("input[type=range]"), before = +slider.value;
  press("]");
  seen.moved = +slider.value - before;
  seen.changed = document.querySelector("output").textContent;
  const views = [];
  for (const key of ["2", "3", "4", "5", "1"]) {
    press(key);
    if (key === "3") seen.nest = document.querySelector(".list [aria-current=true] span").textContent;
    const view = [...document.querySelectorAll(".view")].find((one) => !one.hidden);
    views.push(view.querySelectorAll("svg .mark, svg rect, .row").length > 0);
  }
  seen.views = views.join();
  press("t");
  seen.shade = document.documentElement.dataset.theme;
  seen.done = true;
}, 20);
</script>
</body>
"""


# The colours of the page, when they are those of a scheme or after seconds.
THEME = """((wanted) => new Promise((done) => {
  const theme = document.documentElement.dataset, until = Date.now() + 10000;
  const look = () =>
    theme.theme === wanted || Date.now() > until ? done(theme.theme) : setTimeout(look, 5);
  look();
}))"""


# Holds the hidden layer in the graph.
HOLD_HIDDEN = """[...document.querySelectorAll("#view-graph .mark")]
  .find((mark) => mark.textContent.includes("relu"))
  .dispatchEvent(new MouseEvent("click", { bubbles: true }))"""
# Waits for what a frame draws.
FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
# The marked rows that are in sight in each pane that is shown.
IN_SIGHT = """[...document.querySelectorAll(".pane .scroll")].filter((one) => one.clientHeight).map((one) => {
  const { top, bottom } = one.getBoundingClientRect();
  return [...one.querySelectorAll(".row.strong, .row.weak")].map((row) => row.getBoundingClientRect())
    .filter((row) => row.bottom > top && row.top < bottom).length;
})"""


@NEEDS_BROWSER
@pytest.mark.parametrize("first", ["#code", "#graph"])
def test_views_opened_later_show_what_is_held(first: str, tmp_path: Path):
    """Whether they have been seen before or not."""
    path = compiled().view(tmp_path / "step.html")
    with browser(tmp_path) as page:
        page.size(1600, 400)
        page.open(path, first)
        page.press("2")
        page.run(HOLD_HIDDEN)
        assert page.run('document.getElementById("status").textContent').startswith("held: ")
        for key, view in (("4", "memory"), ("2", "graph")):
            page.press(key)
            assert page.run(f"document.querySelectorAll('#view-{view} .lit').length") > 0, view
        page.press("1")
        page.run(FRAME)
        found = page.run(IN_SIGHT)
        assert len(found) == 4
        assert all(found)
        assert page.errors == []


@NEEDS_BROWSER
def test_an_open_page_follows_the_colours_of_the_system(tied: Path, tmp_path: Path):
    with browser(tmp_path) as page:
        page.open(tied)
        for scheme in ("dark", "light"):
            page.prefer(color_scheme=scheme)
            assert page.run(f"{THEME}('{scheme}')") == scheme


@NEEDS_BROWSER
def test_in_a_browser(tmp_path: Path):
    step = compiled()
    step.profile(runs=2)
    path = step.view(tmp_path / "step.html")
    path.write_text(path.read_text("utf-8").replace("</body>", VISIT), "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,900"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    seen = dict[str, str]()
    # The clock of the page does not wait for the thread that unpacks its data, however loaded the machine is.
    for milliseconds in (10_000, 100_000, 1_000_000):
        command = [str(BROWSER), *options, f"--virtual-time-budget={milliseconds}", path.as_uri()]
        page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
        body = re.search(r"<body [^>]*>", page)
        assert body is not None
        seen = dict(re.findall(r'data-([\w-]+)="([^"]*)"', body[0]))
        if "done" in seen:
            break
    assert seen["done"] == "true"
    assert re.fullmatch(r"held: loss, .* at test_page\.py:\d+ \(Escape lets go\)", seen["status"])
    assert all(int(count) > 0 for count in seen["lit"].split(","))
    assert seen["why"] == "true"
    assert seen["left"] == "0"
    assert seen["hint"].startswith("One program at all levels.")
    assert re.fullmatch(r"\d+ kernels, [\d.]+ kB, [\d.]+ [mu]s, [\w-]+", seen["summary"])
    assert "n3" not in seen["nest"]
    assert seen["moved"] == "1"
    assert "lines changed" in seen["changed"] or "of" in seen["changed"]
    assert seen["views"] == ",".join(["true"] * 5)
    assert seen["shade"] == "dark"
