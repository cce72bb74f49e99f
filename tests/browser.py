"""A headless Chromium for tests, driven by the W3C WebDriver protocol over HTTP."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element, by the protocol
_FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars"


def missing() -> str:
    """Why there is no browser on this machine, or nothing."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    listed = " and no ".join(lacking)
    return f"there is no {listed} here: apt-get install chromium-driver" if lacking else ""


class Browser:
    """A page in a browser."""

    def __init__(self, address: str) -> None:
        options = {"args": _FLAGS.split(), "binary": shutil.which("chromium")}
        always = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        begun = _request("POST", f"{address}/session", {"capabilities": {"alwaysMatch": always}})
        self._session = f"{address}/session/{begun['sessionId']}"

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
        place = {"origin": self.find(selector), "x": round(x), "y": round(y), "duration": 0}
        actions: list[dict[str, Any]] = [{"type": "pointerMove", **place}]
        if press:
            actions += [{"type": f"pointer{way}", "button": 0} for way in ("Down", "Up")]
        pointer = {"type": "pointer", "id": kind, "parameters": {"pointerType": kind}}
        self.call("actions", actions=[{**pointer, "actions": actions}])

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self.call("goog/cdp/execute", cmd=command, params=parameters)

    def pdf(self) -> bytes:
        return b64decode(self.call("print", background=True))

    def log(self, kind: str) -> list[dict[str, Any]]:
        """Since the last call: lines of the console (browser), or what was done (performance)."""
        lines: list[dict[str, Any]] = self.call("se/log", type=kind)
        return lines

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last call."""
        messages = [json.loads(line["message"])["message"] for line in self.log("performance")]
        sent = [message for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [message["params"]["request"]["url"] for message in sent]


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], **quiet)
    try:
        end = time.monotonic() + 10
        while True:
            try:
                _request("GET", f"http://127.0.0.1:{port}/status")
                break
            except OSError:
                if time.monotonic() > end:
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
