"""An HTTP server on loopback that speaks as much of OpenAI's interface as the tests need, and misbehaves on demand."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny"
KEY = "sk-a-secret-of-ours"


@dataclass(frozen=True)
class Fault:
    """What is sent in place of an answer. `silent_s`: nothing for so long, first. `drip_s`: between single bytes."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    silent_s: float = 0.0
    drip_s: float = 0.0


class OpenAIServer(ThreadingHTTPServer):
    """Answers a chat with its last message reversed; `faults` are used up first, one a chat. `poison`: message -> the
    fault it always gets. `uncounted`: faults that counting tokens meets first. `seen`: the bodies of chats; `tries`:
    their times."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faults: list[Fault] = []
        self.uncounted: list[Fault] = []
        self.poison: dict[str, Fault] = {}
        self.seen: list[dict[str, Any]] = []
        self.tries: list[float] = []
        self.models: dict[str, Any] | Fault = {"data": [{"id": MODEL, "max_model_len": 100}]}
        self.tokenizes, self.logprobs, self.finish_reason = True, True, "stop"
        self.busy = self.busiest = 0
        self.slow_s = 0.0
        self.gone = False
        self.lock = threading.Lock()

    def stop(self) -> None:
        """Listens no more, and hangs up where somebody still holds a connection."""
        self.gone = True
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def openai_server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()


class _Handler(BaseHTTPRequestHandler):
    server: OpenAIServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Authorization") not in (None, f"Bearer {KEY}"):
            self._send(Fault(401, f'{{"error": {{"message": "no: {self.headers["Authorization"]}"}}}}'.encode()))
        elif isinstance(self.server.models, Fault):
            self._send(self.server.models)
        else:
            self._send(Fault(200, json.dumps(self.server.models).encode()))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.gone:
            self.close_connection = True
            return
        if self.path == "/tokenize":
            if self.server.uncounted:
                self._send(self.server.uncounted.pop(0))
                return
            count = sum(len(message["content"].split()) for message in body["messages"])
            missing = Fault(404, b'{"detail": "Not Found"}')
            self._send(Fault(200, json.dumps({"count": count}).encode()) if self.server.tokenizes else missing)
            return
        server, said = self.server, body["messages"][-1]["content"]
        with server.lock:
            server.seen.append(body)
            server.tries.append(time.monotonic())
            server.busy += 1
            server.busiest = max(server.busy, server.busiest)
            fault = server.poison.get(said) or (server.faults.pop(0) if server.faults else None)
        time.sleep(server.slow_s)
        try:
            self._send(fault or Fault(200, json.dumps(self._answer(body, said)).encode()))
        finally:
            with server.lock:
                server.busy -= 1

    def _answer(self, body: dict[str, Any], said: str) -> dict[str, Any]:
        choices = []
        for index in range(body["n"]):
            choice: dict[str, Any] = {"index": index, "message": {"role": "assistant", "content": said[::-1]}}
            choice["finish_reason"] = self.server.finish_reason
            if body.get("logprobs") and self.server.logprobs:
                choice["logprobs"] = {"content": [{"token": letter, "logprob": -0.5} for letter in said]}
            choices.append(choice)
        return {"choices": choices[::-1], "usage": {"prompt_tokens": len(said.split()), "completion_tokens": 4}}

    def _send(self, fault: Fault) -> None:
        time.sleep(fault.silent_s)
        try:
            self.send_response(fault.status)
            for name, value in ({"Content-Length": str(len(fault.body))} | fault.headers).items():
                self.send_header(name, value)
            self.end_headers()
            for start in range(0, len(fault.body), 1 if fault.drip_s else len(fault.body) or 1):
                self.wfile.write(fault.body[start : start + 1] if fault.drip_s else fault.body)
                self.wfile.flush()
                time.sleep(fault.drip_s)
        except OSError:  # the client has gone, which is what some tests want
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the tests' screen."""
