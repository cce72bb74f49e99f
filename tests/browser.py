"""A headless Chromium for tests, driven by the W3C WebDriver protocol over HTTP, without a package
for it.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element, by the protocol
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def missing() -> str:
    """Why there is no browser on this machine, or nothing."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return (
        f"there is no {' and no '.join(lacking)} on this machine: apt-get install chromium-driver"
        if lacking
        else ""
    )


class Browser:
    """A page in a browser."""

    def __init__(self, address: str) -> None:
        self._address = address
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": _FLAGS, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self._session = f"{address}/session/{self._send('POST', '/session', capabilities)}"

    def _send(self, method: str, path: str, capabilities: dict[str, Any]) -> str:
        content = {"capabilities": {"alwaysMatch": capabilities}}
        return str(_request(method, self._address + path, content)["sessionId"])

    def call(self, path: str, **content: Any) -> Any:
        return _request("POST", f"{self._session}/{path}", content)

    def close(self) -> None:
        _request("DELETE", self._session)

    def open(self, file: Path) -> None:
        self.call("url", url=file.resolve().as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.call("execute/sync", script=script, args=list(arguments))

    def wait(self, script: str, *arguments: Any, seconds: float = 20.0) -> None:
        """Until a script returns true."""
        end = time.monotonic() + seconds
        while not self.run(script, *arguments):
            if time.monotonic() > end:
                raise TimeoutError(f"still not true after {seconds} s: {script}")
            time.sleep(0.05)

    def find(self, selector: str) -> dict[str, str]:
        found: dict[str, str] = self.call("element", using="css selector", value=selector)
        return found

    def click(self, selector: str) -> None:
        self.call(f"element/{self.find(selector)[_ELEMENT]}/click")

    def type(self, selector: str, keys: str) -> None:
        self.call(f"element/{self.find(selector)[_ELEMENT]}/value", text=keys)

    def point(
        self, selector: str, x: float, y: float, press: bool = False, kind: str = "mouse"
    ) -> None:
        """Move the pointer to a place of an element, from its middle, and press it there."""
        move = {
            "type": "pointerMove",
            "origin": self.find(selector),
            "x": round(x),
            "y": round(y),
            "duration": 0,
        }
        buttons = (
            [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
            if press
            else []
        )
        pointer = {
            "type": "pointer",
            "id": kind,
            "parameters": {"pointerType": kind},
            "actions": [move, *buttons],
        }
        self.call("actions", actions=[pointer])

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)

    def scheme(self, name: str) -> None:
        """Prefer a colour scheme, light or dark."""
        self.devtools(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self.call("goog/cdp/execute", cmd=command, params=parameters)

    def screenshot(self, file: Path, whole: bool = False) -> None:
        content = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(content))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("print", background=True))

    def log(self, kind: str) -> list[dict[str, Any]]:
        """The lines of the console (kind browser), or what the browser did (performance), since the
        last call.
        """
        lines: list[dict[str, Any]] = self.call("se/log", type=kind)
        return lines

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last call."""
        messages = [json.loads(line["message"])["message"] for line in self.log("performance")]
        sent = [message for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [message["params"]["request"]["url"] for message in sent]


def _request(method: str, address: str, content: Any = None) -> Any:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(
        address, data, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(json.load(error)["value"]["message"]) from None


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser that ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(
        ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for attempt in range(100):
            try:
                _request("GET", f"http://127.0.0.1:{port}/status")
                break
            except OSError:
                if attempt == 99:
                    raise
                time.sleep(0.1)
        browser = Browser(f"http://127.0.0.1:{port}")
        try:
            yield browser
        finally:
            browser.close()
    finally:
        driver.terminate()
        driver.wait(timeout=20)
