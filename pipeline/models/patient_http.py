"""JSON over HTTP to a server that is at times busy, broken or silent: tried again, for a bounded time."""

import json
import math
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import count
from threading import Event
from typing import Any, TypeVar

BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 30.0  # waits double from the first to the second, halved at random at most
CONNECT_S = 10.0
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)  # what reading garbage raises
Answer = TypeVar("Answer")


class Refused(Exception):
    """The server will not do this, now or later: 4xx but 408 and 429; 501; a redirect."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class GaveUp(Exception):
    """Every try failed. `unreachable`: at last, nobody was there to talk to."""

    def __init__(self, message: str, unreachable: bool) -> None:
        super().__init__(message)
        self.unreachable = unreachable


class PatientHttp:
    """Safe to call from several threads. The key goes out in the Authorization header and nowhere else; where a server
    repeats it, messages have it masked. Redirects are not followed, so that no other host gets it."""

    def __init__(self, key: str | None, timeout_s: float, patience_s: float, connections: int) -> None:
        """`timeout_s`: of one try. `patience_s`: of all tries of a request and the waits between them."""
        import httpx

        self._key, self._timeout_s, self._patience_s = key, timeout_s, patience_s
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(headers=headers, limits=httpx.Limits(max_connections=connections))
        self._closed = Event()

    def send(
        self,
        method: str,
        url: str,
        read: Callable[[Any], Answer],
        body: dict[str, Any] | None = None,
        patience_s: float | None = None,
    ) -> tuple[Answer, float]:
        """`read` of the JSON that comes back, and the seconds before the try that brought it.

        Tried again: no connection, no answer in time, 408, 429, 5xx, and what is no JSON or what `read` does not
        understand (it raises one of UNREADABLE). A Retry-After is waited for. Raises Refused or GaveUp.
        """
        started = time.monotonic()
        end = started + (patience_s or self._patience_s)
        said = ""
        for tried in count():
            begun = time.monotonic()
            allowed = min(self._timeout_s, end - begun)
            try:
                found = self._try(method, url, body, begun + allowed)
            except _httpx_errors() as problem:
                if not (said and allowed < self._timeout_s and _no_answer(problem)):  # cut short says less than before
                    said = self._failure(problem, allowed)
                unreachable, least = _no_connection(problem), 0.0
            else:
                said, unreachable, least = self._fault(*found), False, _retry_after(found[1])
                if not said:
                    try:
                        return read(json.loads(found[2])), begun - started
                    except UNREADABLE:
                        said = f"an answer that makes no sense: {self._words(found[2], 80) or 'nothing'}"
            wait = max(least, min(BACKOFF_S * 2 ** min(tried, 10), LONGEST_BACKOFF_S) * random.uniform(0.5, 1))
            if time.monotonic() + wait >= end or self._closed.wait(wait):
                asked = f", and it asks to wait {least:g} s" if least else ""
                raise GaveUp(f"{said} (try {tried + 1}, {time.monotonic() - started:.1f} s{asked})", unreachable)
        raise AssertionError("count() does not end")

    def close(self) -> None:
        """Requests that wait for their next try give up; calling it again does nothing."""
        self._closed.set()
        self._client.close()

    def _try(self, method: str, url: str, body: dict[str, Any] | None, end: float) -> tuple[int, Any, bytes]:
        """(status, headers, content). The whole of it arrives by `end` (monotonic), however slowly it drips."""
        import httpx

        left = max(0.001, end - time.monotonic())
        limits = httpx.Timeout(left, connect=min(left, CONNECT_S))
        content = b""
        with self._client.stream(method, url, json=body, timeout=limits) as response:
            for chunk in response.iter_bytes():
                content += chunk
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("dripping")
            return response.status_code, response.headers, content

    def _fault(self, status: int, headers: Any, content: bytes) -> str:
        """What is wrong with an answer that may be better next time; empty where nothing is. Raises Refused."""
        if 200 <= status < 300:
            return ""
        said = f"HTTP {status}: {self._words(content)}".removesuffix(": ")
        if status in (408, 429) or (status >= 500 and status != 501):
            return said
        raise Refused(said, status)

    def _failure(self, problem: Exception, allowed_s: float) -> str:
        if _no_answer(problem):
            return f"no answer within {round(allowed_s, 1):g} s"
        return f"{type(problem).__name__}: {self._words(str(problem).encode())}".removesuffix(": ")

    def _words(self, content: bytes, most: int = 300) -> str:
        """An answer's own message, on one line, without the key."""
        text = content.decode(errors="replace")
        try:
            error = json.loads(text)["error"]
            text = error if isinstance(error, str) else str(error["message"])
        except UNREADABLE:
            pass  # not in OpenAI's form: as it is
        if self._key:
            text = text.replace(self._key, "***")
        return " ".join(text.split())[:most]


def _httpx_errors() -> tuple[type[Exception], ...]:
    import httpx

    return (httpx.RequestError,)


def _no_answer(problem: Exception) -> bool:
    import httpx

    return isinstance(problem, httpx.TimeoutException) and not isinstance(problem, httpx.ConnectTimeout)


def _no_connection(problem: Exception) -> bool:
    import httpx

    return isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout)


def _retry_after(headers: Any) -> float:
    """Seconds that a server asks to wait, given as a number or a date; 0 where it asks for nothing sensible."""
    given = headers.get("retry-after", "")
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0
