"""A headless Chromium for tests, driven by the W3C WebDriver protocol over HTTP."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars"


class Browser:
    """A page in a browser."""

    def __init__(self, address: str) -> None:
        options = {"args": _FLAGS.split(), "binary": shutil.which("chromium")}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        wanted["goog:loggingPrefs"] = {"browser": "ALL"}
        begun = _request("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"{address}/session/{begun['sessionId']}"

    def call(self, path: str, **content: Any) -> Any:
        return _request("POST", f"{self.session}/{path}", content)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.call("execute/sync", script=script, args=list(arguments))

    def wait(self, script: str, seconds: float = 20.0) -> None:
        """Until a script returns true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"still not true after {seconds} s: {script}"
            time.sleep(0.05)

    def find(self, selector: str) -> dict[str, str]:
        found: dict[str, str] = self.call("element", using="css selector", value=selector)
        return found

    def on(self, selector: str, action: str, **content: Any) -> None:
        """Do something with an element: ``click``, or ``value`` with the text of keys."""
        (element,) = self.find(selector).values()
        self.call(f"element/{element}/{action}", **content)

    def press(self, selector: str, x: float, y: float) -> None:
        """Move the pointer to a place of an element, from its middle, and press it there."""
        place = {"origin": self.find(selector), "x": round(x), "y": round(y), "duration": 0}
        actions: list[dict[str, Any]] = [{"type": "pointerMove", **place}]
        actions += [{"type": f"pointer{way}", "button": 0} for way in ("Down", "Up")]
        self.call("actions", actions=[{"type": "pointer", "id": "mouse", "actions": actions}])

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command = "Emulation.setDeviceMetricsOverride"
        self.call("goog/cdp/execute", cmd=command, params=size)

    def console(self) -> list[Any]:
        """Lines of the console since the last call; what a page may not fetch is one."""
        return list(self.call("se/log", type="browser"))


def _request(method: str, address: str, content: Any = None) -> Any:
    data = None if content is None else json.dumps(content).encode()
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, data, head, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(json.load(error)["value"]["message"]) from None


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser that ends with the block."""
    with subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True
    ) as driver:
        try:
            assert driver.stdout is not None
            said = (re.search(r"successfully on port (\d+)", line) for line in driver.stdout)
            browser = Browser(f"http://127.0.0.1:{next(found[1] for found in said if found)}")
            yield browser
            _request("DELETE", browser.session)
        finally:
            driver.terminate()
