"""The page for readers who use the keyboard, a screen reader, dark colours, or want nothing to move.

Source: WCAG 2.2 (contrast 1.4.3 and 1.4.11, keyboard 2.1, focus 2.4.3 and 2.4.7, names and roles 4.1.2).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import NEEDS_BROWSER, Page, browser
from support.layering import SUPPORT

import ocannl as oc
from ocannl import nn, train

SCRIPTS = SUPPORT / "page_scripts"
VIEWS = ("code", "graph", "schedule", "memory", "time")
# Contrast of text, and of what else has to be told apart.
TEXT, SHAPES = 4.5, 3.0
SYNTAX = ("text", "quiet", "name", "string", "number", "op", "comment")
ROWS = ("back", "strong", "weak", "now", "new")


def luminance(colour: str) -> float:
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(colour: str, other: str) -> float:
    dark, light = sorted(map(luminance, (colour, other)))
    return (light + 0.05) / (dark + 0.05)


def colours() -> dict[str, dict[str, str]]:
    """The colours of both themes by name."""
    css = (files("ocannl.viewer") / "assets" / "page.css").read_text("utf-8")
    rules = re.findall(r":root(\[data-theme=\"dark\"\])? \{(.*?)\}", css, re.S)
    return {
        "dark" if dark else "light": dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", body))
        for dark, body in rules
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_told_apart(theme: str):
    known = colours()[theme]
    for text, back in product(SYNTAX, ROWS):
        assert contrast(known[text], known[back]) >= TEXT, f"{text} on {back}"
    for text, back in product(("text", "quiet", "accent"), ("back", "panel", "now")):
        assert contrast(known[text], known[back]) >= TEXT, f"{text} on {back}"
    for mark, back in product(("accent", "edge"), ("back", "panel")):
        assert contrast(known[mark], known[back]) >= SHAPES, f"{mark} on {back}"


# The text of each view with its contrast, computed as it is shown.
CONTRASTS = (SCRIPTS / "contrasts.js").read_text("utf-8")
# What stands in the bars above the views: its text, left, right, top and bottom.
PLACES = """[...document.querySelectorAll("header :is(button, span, h1)")].map((one) => {
  const { left, right, top, bottom } = one.getBoundingClientRect();
  return [one.textContent, left, right, top, bottom];
})"""
# The element that has the focus: what it is, where it is, and whether one sees that it has it.
FOCUSED = (SCRIPTS / "focused.js").read_text("utf-8")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x, y = oc.data(np.ones((64, 30), np.float32)), oc.data(np.ones((64, 1), np.float32))
    errors = nn.mlp(hid_dims=[40, 20], out_dim=1)(x) - y
    loss = (errors**2).einsum("...|... => 0").named("loss")
    ctx = oc.Context.cpu(1)
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss)
    step.profile(runs=2)
    return step.view(tmp_path_factory.mktemp("page") / "step.html")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Generator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        page.size(1600, 900)
        yield page


@pytest.fixture
def page(chromium: Page, path: Path) -> Generator[Page]:
    """The page as it is when it has been opened."""
    chromium.errors.clear()
    chromium.open(path)
    yield chromium
    assert chromium.errors == []


def held(page: Page) -> None:
    """Holds the line of the loss."""
    page.run("""(() => {
      const pane = document.querySelector(".pane"), find = pane.querySelector("input");
      find.value = 'named("loss")';
      find.dispatchEvent(new Event("input"));
      pane.querySelector(".scroll").focus();
    })()""")
    page.press("Enter")
    assert page.run('document.getElementById("status").textContent').startswith("held: ")


@pytest.mark.sampled(3)
@NEEDS_BROWSER
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_contrast(page: Page, path: Path, theme: str):
    page.prefer(color_scheme=theme)
    page.open(path)
    assert page.run("document.documentElement.dataset.theme") == theme
    held(page)
    for number, view in enumerate(VIEWS, 1):
        page.press(str(number))
        found = page.run(CONTRASTS)
        assert len(found) > 20, view
        assert [one for one in found if one[1] < TEXT] == [], view
    page.prefer(color_scheme="light")


@NEEDS_BROWSER
@pytest.mark.parametrize("view", VIEWS)
def test_everything_has_a_name_and_a_role(page: Page, view: str):
    held(page)
    page.press(str(VIEWS.index(view) + 1))
    nodes = page.accessible()
    focusable = [node for node in nodes if node.get("focusable") and node["role"] != "RootWebArea"]
    assert focusable
    for node in focusable:
        assert node["role"] not in ("generic", "none", ""), node
        assert node["name"], node
    roles = [node["role"] for node in nodes]
    assert roles.count("tab") == len(VIEWS)
    (panel,) = (node for node in nodes if node["role"] == "tabpanel")
    assert panel["name"] == view
    assert page.run("""[...document.querySelectorAll("[id]")].map((one) => one.id)
      .filter((id, k, all) => all.indexOf(id) !== k)""") == []  # fmt: skip


@NEEDS_BROWSER
@pytest.mark.parametrize("view", VIEWS)
def test_tab_goes_through_all_in_order_and_is_seen(page: Page, view: str):
    """Each stop is seen, they are in the order of the page, few, and none keeps the focus."""
    page.press(str(VIEWS.index(view) + 1))
    stops: list[Mapping[str, Any]] = []
    for _ in range(60):
        page.press("Tab")
        stop = page.run(FOCUSED)
        if stop["tag"] == "BODY" or (stops and stop["place"] == stops[0]["place"]):
            break
        stops.append(stop)
    else:
        raise AssertionError(f"more than 60 stops: {stops[-1]}")
    assert len(stops) > 4
    for stop in stops:
        assert stop["seen"], stop
        assert stop["inside"], stop
    places = [stop["place"] for stop in stops]
    assert places == sorted(set(places))
    page.press("shift Tab", "Tab", "Tab")
    assert page.run(FOCUSED)["place"] in places


def tab_to(page: Page, script: str) -> None:
    """Presses Tab until an element has the focus."""
    for _ in range(60):
        page.press("Tab")
        if page.run(f"document.activeElement === {script}"):
            return
    raise AssertionError(f"no way by Tab to {script}")


@NEEDS_BROWSER
def test_a_line_is_held_and_its_reasons_are_read_by_keys_alone(page: Page):
    tab_to(page, 'document.querySelector(".pane input")')
    page.press(*'named("loss")', "Escape", "Enter")
    scroller = 'document.querySelector(".pane .scroll")'
    assert page.run(f"document.activeElement === {scroller}")
    active = page.run(
        f'document.getElementById({scroller}.getAttribute("aria-activedescendant")).textContent'
    )
    assert 'named("loss")' in active
    assert page.run('document.getElementById("status").textContent').startswith("held: ")
    answers = page.run('[...document.querySelectorAll("#why h2")].map((one) => one.textContent)')
    assert "`loss` has memory that stays between runs: computed by forward" in answers
    tab_to(page, 'document.querySelector("#why button.place")')
    page.press("3", "Enter")
    assert page.run('document.querySelector("[aria-selected=true][role=tab]").textContent') == "code"
    assert page.run("document.activeElement.className") == "place"
    page.press("w")
    assert page.run('document.getElementById("why").hidden')
    page.press("w", "Escape")
    assert page.run('document.getElementById("why").hidden')
    assert page.run('document.querySelectorAll(".row.strong, .row.weak").length') == 0


@NEEDS_BROWSER
def test_arrows_move_between_views_nests_marks_and_tiles(page: Page):
    tab_to(page, 'document.getElementById("tab-code")')
    page.press("ArrowRight", "ArrowRight", "Enter")
    assert not page.run('document.getElementById("view-schedule").hidden')
    tab_to(page, 'document.querySelector(".list button")')
    tiles = page.run('document.querySelector(".stage tbody")?.rows.length')
    page.press("End", "Enter")
    assert page.run('document.querySelector(".list button[aria-current=true]").nextSibling') is None
    assert not page.run('document.getElementById("why").hidden')
    assert tiles is None or tiles > 0
    tab_to(page, 'document.querySelector("svg.array")')
    tile = 'document.querySelector("svg.array").lastElementChild.getAttribute("y")'
    before = page.run(tile)
    page.press("ArrowDown")
    assert page.run(tile) != before
    page.press("4")
    page.run('document.querySelector("#view-memory svg .mark[tabindex=\\"0\\"]").focus()')
    first = page.run(FOCUSED)["words"]
    page.press("ArrowRight")
    assert page.run(FOCUSED)["words"] != first


@NEEDS_BROWSER
@pytest.mark.parametrize("width", [360, 420, 800])
def test_a_narrow_window_has_all_buttons(page: Page, path: Path, width: int):
    """None of them is outside of the window or behind another."""
    page.size(width, 900)
    page.open(path)
    try:
        found = page.run(PLACES)
        assert len(found) >= 9
        for name, left, right, *_ in found:
            assert 0 <= left <= right <= width, name
        for k, (name, left, right, top, bottom) in enumerate(found):
            for other, left2, right2, top2, bottom2 in found[:k]:
                apart = right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top
                assert apart, f"{name} and {other}"
    finally:
        page.size(1600, 900)


@NEEDS_BROWSER
def test_nothing_moves(page: Page, path: Path):
    page.prefer(reduced_motion="reduce")
    page.open(path)
    held(page)
    for number in range(1, 6):
        page.press(str(number))
        assert page.run("document.getAnimations().length") == 0
        assert page.run("""[...document.querySelectorAll("*")].filter((one) => {
          const style = getComputedStyle(one);
          return style.transitionDuration !== "0s" || style.animationName !== "none";
        }).length""") == 0  # fmt: skip
    page.prefer(reduced_motion="no-preference")
