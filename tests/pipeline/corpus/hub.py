"""A small hub: the parts of huggingface.co's API that listing and reading a data set repository use."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

REPO = "tartan/docs"
SHA = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def hub(folder: Path) -> Iterator[str]:
    """Serves `folder` as the data set repository REPO; gives the endpoint. Only byte ranges asked for are sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if path == f"/api/datasets/{REPO}" or path.startswith(f"/api/datasets/{REPO}/revision/"):
                self._json({"id": REPO, "sha": SHA, "siblings": []})
            elif path.startswith(f"/api/datasets/{REPO}/tree/"):
                self._json([self._entry(file) for file in sorted((folder / "/".join(path.split("/")[7:])).rglob("*"))])
            elif path.startswith(f"/datasets/{REPO}/resolve/"):
                self._file(folder / "/".join(path.split("/")[6:]))
            else:
                self._json({"error": "Repository not found"}, 404)

        do_HEAD = do_GET

        def do_POST(self) -> None:
            body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._json([self._entry(folder / name) for name in body.get("paths", []) if (folder / name).exists()])

        def _entry(self, path: Path) -> dict[str, object]:
            name = str(path.relative_to(folder))
            if path.is_dir():
                return {"type": "directory", "path": name, "oid": "0" * 40}
            return {"type": "file", "path": name, "size": path.stat().st_size, "oid": "0" * 40}

        def _file(self, path: Path) -> None:
            if not path.is_file():
                self._json({"error": "Entry not found"}, 404)
                return
            data = path.read_bytes()
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last) + 1 if last else None]
            self._send(206 if "Range" in self.headers else 200, part, "application/octet-stream")

        def _json(self, value: object, status: int = 200) -> None:
            self._send(status, json.dumps(value).encode(), "application/json")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"0"')
            self.send_header("X-Repo-Commit", SHA)
            if status == 404:
                self.send_header("X-Error-Code", "RepoNotFound" if b"Repository" in body else "EntryNotFound")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
