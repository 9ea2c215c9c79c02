"""Headless Chromium by its DevTools protocol over a pair of pipes: no driver, no port, no package."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe", "--hide-scrollbars", "--force-color-profile=srgb",
)  # fmt: skip


class Page:
    """The browser's one page; `events` are the protocol's, in the order they came."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive, self._buffer = send, receive, b""
        self._number, self._session = 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a protocol method. RuntimeError where the browser refuses."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._send, data) :]
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._receive, 1 << 20)
            if not more:
                raise RuntimeError("the browser has gone")
            self._buffer += more
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression, awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, file: Path, fragment: str = "") -> float:
        """Opens a report and waits until its questions are listed; seconds from the request to then."""
        self.call("Page.navigate", url="about:blank")
        started = time.perf_counter()
        self.call("Page.navigate", url=f"{file.resolve().as_uri()}{fragment}")
        self.wait("document.querySelector('#browser')?.dataset.ready === 'yes'")
        return time.perf_counter() - started

    def wait(self, condition: str, seconds: float = 30) -> None:
        """Until a JavaScript condition holds. TimeoutError where it does not."""
        until = time.perf_counter() + seconds
        while not self.evaluate(condition):
            if time.perf_counter() > until:
                raise TimeoutError(f"never: {condition}")
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """A key, as typed: a letter, or a name (Enter, ArrowDown, Escape)."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9}
        about: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def look(self, width: int, height: int, scheme: str = "light", media: str = "screen") -> None:
        """The window's size in pixels, the colour scheme, screen or print."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def screenshot(self, file: Path, whole: bool = True) -> None:
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A browser with an empty profile in that folder, ended afterwards."""
    assert BROWSER is not None
    to_browser, ours = os.pipe()
    mine, from_browser = os.pipe()

    def descriptors() -> None:  # the protocol is at file descriptors 3 and 4
        # Copied out of the way first, lest one lie where the other must go.
        read, write = os.dup(to_browser), os.dup(from_browser)
        high_read, high_write = 200, 201
        os.dup2(read, high_read), os.dup2(write, high_write)
        os.dup2(high_read, 3), os.dup2(high_write, 4)

    command = [BROWSER, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        command, preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(to_browser), os.close(from_browser)
    try:
        yield Page(ours, mine)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours), os.close(mine)
