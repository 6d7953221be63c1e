"""A headless Chromium that tests drive: keys as a person types them, the accessibility tree, pictures.

Source: the DevTools protocol, which Chromium speaks on two pipes, one JSON text up to a null byte a message.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDS_BROWSER = pytest.mark.skipif(
    BROWSER is None or sys.platform == "win32", reason="there is no Chromium, or no pipes to it"
)
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)
# The descriptors on which Chromium reads and writes.
READS, WRITES = 3, 4
# Characters that a key types, and codes of keys that type none.
CODES = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
SHIFT = 8


class Page:
    """A page in a browser."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = os.fdopen(to, "wb", 0), os.fdopen(back, "rb")
        self._count = 0
        self._session: str | None = None
        self._rest = b""
        (target,) = [one for one in self._call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.errors: list[str] = []
        """The errors that the page has thrown or logged."""
        self._call("Runtime.enable")
        self._call("Page.enable")

    def open(self, path: Path, fragment: str = "") -> float:
        """Opens a file of `oc.view`, or another that sets `ready` on its body; returns the milliseconds that
        this took the browser.
        """
        self._call("Page.navigate", url=path.as_uri() + fragment)
        return float(
            self.run("""new Promise((done) => {
          const look = () => document.body && document.body.dataset.ready ? done(document.body.dataset.ready)
            : setTimeout(look, 5);
          look();
        })""")
        )

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript, or of what it promises."""
        found = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        """Types keys by name, one after another: "Tab", "shift Tab", "/"."""
        for key in keys:
            name = key.removeprefix("shift ")
            own = {"key": name, "modifiers": SHIFT if name != key else 0}
            own |= {"windowsVirtualKeyCode": CODES[name]} if name in CODES else {"text": name}
            own |= {"text": "\r"} if name == "Enter" else {}
            self._call("Input.dispatchKeyEvent", type="keyDown", **own)
            self._call("Input.dispatchKeyEvent", type="keyUp", **own)

    def prefer(self, **features: str) -> None:
        """Sets preferences of the reader: `color_scheme="dark"`, `reduced_motion="reduce"`."""
        named = [{"name": f"prefers-{k.replace('_', '-')}", "value": v} for k, v in features.items()]
        self._call("Emulation.setEmulatedMedia", features=named)

    def size(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def accessible(self) -> list[Mapping[str, Any]]:
        """The nodes of the accessibility tree that are not ignored: role, name and properties of each."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        return [
            {
                "role": node.get("role", {}).get("value", ""),
                "name": node.get("name", {}).get("value", ""),
                **{one["name"]: one["value"].get("value") for one in node.get("properties", [])},
            }
            for node in nodes
            if not node["ignored"]
        ]

    def picture(self) -> bytes:
        """A picture of the page, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        self._session = None
        self._call("Browser.close")
        self._to.close()
        self._back.close()

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event: Mapping[str, Any]) -> None:
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(event["params"]["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if event["params"]["type"] == "error":
                self.errors.append(json.dumps(event["params"]["args"]))
            case _:
                pass

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = self._back.read1(1 << 20)
            if not more:
                raise AssertionError("the browser has gone")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


@contextmanager
def browser(folder: Path, options: Sequence[str] = ()) -> Generator[Page]:
    """A browser with an empty page, whose profile is in a folder."""
    from_test, to_test = os.pipe(), os.pipe()

    def give_pipes() -> None:
        # Copies are made first: one of the four may be a number that Chromium expects.
        reads, writes = os.dup(from_test[0]), os.dup(to_test[1])
        os.dup2(reads, READS)
        os.dup2(writes, WRITES)

    with open(folder / "browser.log", "wb") as log:
        process = subprocess.Popen(
            [str(BROWSER), *OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdout=log, stderr=log,
        )  # fmt: skip
    os.close(from_test[0])
    os.close(to_test[1])
    try:
        page = Page(from_test[1], to_test[0])
        yield page
        page.close()
        process.wait(60)
    finally:
        process.kill()
        process.wait()
