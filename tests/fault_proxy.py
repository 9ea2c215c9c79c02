"""An HTTP proxy in front of one server that spoils chosen requests; everything else passes through untouched."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FAULTS = ("500", "503", "429", "close", "lose", "garble")


@dataclass
class _Fault:
    method: str
    nth: int  # of the requests that match, from 1
    kind: str  # a status; close: no answer; lose: the server obeys, the answer is lost; garble: bytes changed
    containing: str
    matched: int = 0


@dataclass
class FaultProxy:
    """`fail("PUT", 2, "503")` spoils the second PUT from now on."""

    endpoint: str = ""
    failed: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    _faults: list[_Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, method: str, nth: int, kind: str, containing: str = "") -> None:
        assert kind in FAULTS
        with self._lock:
            self._faults.append(_Fault(method, nth, kind, containing))

    def seen(self, method: str, containing: str = "") -> int:
        return sum(one == method and containing in path for one, path in self.requests)

    def fault_for(self, method: str, path: str) -> str | None:
        with self._lock:
            self.requests.append((method, path))
            matching = [fault for fault in self._faults if fault.method == method and fault.containing in path]
            for fault in matching:
                fault.matched += 1
            due = [fault.kind for fault in matching if fault.matched == fault.nth]
            self.failed += len(due)
            return due[0] if due else None


@contextmanager
def fault_proxy(target: str) -> Iterator[FaultProxy]:
    place = urlsplit(target)
    proxy = FaultProxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            kind = proxy.fault_for(self.command, self.path)
            body = self._body()
            if kind == "close":
                self.close_connection = True
                self.connection.close()
                return
            if kind is not None and kind.isdecimal():
                self._answer(int(kind), {}, b"<Error><Code>SlowDown</Code></Error>" if kind == "503" else b"")
                return
            upstream = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
            try:
                # The Host header stays the client's: it is part of the signature.
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("connection", "expect", "transfer-encoding", "content-length"):
                        upstream.putheader(name, value)
                upstream.putheader("Content-Length", str(len(body)))
                upstream.endheaders(body)
                response = upstream.getresponse()
                answer = response.read()
                if kind == "lose":
                    self.close_connection = True
                    self.connection.close()
                    return
                if kind == "garble" and answer:
                    answer = bytes([answer[0] ^ 1]) + answer[1:]
                headers = dict(response.getheaders())
                if kind == "garble":
                    headers = {name: value for name, value in headers.items() if "checksum" not in name.lower()}
                self._answer(response.status, headers, answer)
            finally:
                upstream.close()

        def _body(self) -> bytes:
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.send_response_only(100)
                self.end_headers()
            if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError, ValueError, OSError):  # the client, or we ourselves, closed it
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
