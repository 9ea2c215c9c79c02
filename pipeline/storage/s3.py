"""A home on S3 or a server that speaks it: conditional creates for commits, multipart uploads with checksums, and a
verified copy per node of what is read.

Credentials, region and endpoint come from where boto3 looks for them (AWS_ENDPOINT_URL_S3 names another server).
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, UnfinishedError
from pipeline.storage.cache import cached_folder, node_folder
from pipeline.storage.home import Home, Record

PART_MIB = 16  # of a multipart upload: larger files go up in such parts
ATTEMPTS = 8  # at a request, with growing pauses, where the server throttles, fails or does not answer
ABSENT = {"404", "NoSuchKey", "NotFound"}
REFUSED = {"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket"}
HELD = {"412", "PreconditionFailed"}
RACED = {"409", "ConditionalRequestConflict"}  # two conditional requests at once: the loser may ask again


class S3Home(Home):
    """`place` is `s3://bucket/prefix`. Raises InputError at once, naming bucket and key, for what is refused (403) or
    absent (404); UnfinishedError for what still fails after several tries."""

    def __init__(self, place: str) -> None:
        bucket, _, prefix = place.removeprefix("s3://").strip("/").partition("/")
        if not bucket or not prefix:
            raise InputError(f"{place}: an index on S3 needs a bucket and a prefix, s3://BUCKET/PREFIX")
        super().__init__(f"s3://{bucket}/{prefix}")
        self.bucket, self.prefix = bucket, prefix

    def read(self, name: str) -> bytes:
        with self._telling(name):
            return _client().get_object(Bucket=self.bucket, Key=self._key(name))["Body"].read()

    def write(self, name: str, data: bytes) -> None:
        with self._telling(name):
            _client().put_object(Bucket=self.bucket, Key=self._key(name), Body=data)

    def create(self, name: str, data: bytes) -> bool:
        """A request that is repeated after the server had already obeyed it finds its own object, and says True."""
        from botocore.exceptions import ClientError

        for _ in range(ATTEMPTS):
            with self._telling(name):
                try:
                    _client().put_object(Bucket=self.bucket, Key=self._key(name), Body=data, IfNoneMatch="*")
                    return True
                except ClientError as problem:
                    if _code(problem) in HELD:
                        return self.read(name) == data
                    if _code(problem) not in RACED:
                        raise
        raise UnfinishedError(f"{self}/{name}: others kept writing it at the same time; run the command again")

    def remove(self, name: str) -> None:
        with self._telling(name):
            _client().delete_object(Bucket=self.bucket, Key=self._key(name))

    def exists(self, name: str) -> bool:
        return self._size(name) is not None

    def entries(self, folder: str = "") -> list[str]:
        prefix = self._key(folder).rstrip("/") + "/"
        names = set()
        with self._telling(folder):
            for page in (
                _client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, Delimiter="/")
            ):
                names |= {item["Key"].removeprefix(prefix) for item in page.get("Contents", [])}
                names |= {item["Prefix"].removeprefix(prefix).rstrip("/") for item in page.get("CommonPrefixes", [])}
        return sorted(names - {""})

    @contextmanager
    def attempt(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="attempt-", dir=node_folder("attempts")))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, folder: Path, target: str, files: Mapping[str, Mapping[str, Any]]) -> None:
        """Objects appear whole, and only the commit makes them count: a killed upload leaves nothing that is read."""
        from boto3.s3.transfer import TransferConfig

        size = PART_MIB << 20
        settings = TransferConfig(multipart_threshold=size, multipart_chunksize=size, max_concurrency=4)
        for file, facts in files.items():
            name = f"{target}/{file}"
            if "in" in facts or self._size(name) == facts["bytes"]:
                continue
            with self._telling(name):
                _client().upload_file(
                    str(folder / file),
                    self.bucket,
                    self._key(name),
                    ExtraArgs={"ChecksumAlgorithm": "SHA256"},
                    Config=settings,
                )
            if (size_there := self._size(name)) != facts["bytes"]:
                raise UnfinishedError(
                    f"{self}/{name} has {size_there} bytes after its upload, not {facts['bytes']}; run the command "
                    "again"
                )

    def fetch(self, record: Record, only: Collection[str] | None = None) -> Path:
        """Downloaded once per node, each file checked against its sha256."""

        def download(file: str, path: Path) -> None:
            name = f"{record['files'][file].get('in', record['folder'])}/{file}"
            with self._telling(name):
                _client().download_file(self.bucket, self._key(name), str(path))

        files = {name: facts for name, facts in record["files"].items() if only is None or name in only}
        part = "" if only is None else "#" + ",".join(sorted(only))
        return cached_folder(f"{self}/{record['folder']}{part}", files, download)

    def refers(self) -> bool:
        return True

    def damage(self, record: Record) -> list[str]:
        problems = []
        for file, facts in record["files"].items():
            name = f"{facts.get('in', record['folder'])}/{file}"
            if (size := self._size(name)) is None:
                problems.append(f"{self}/{name} is missing")
            elif size != facts["bytes"]:
                problems.append(f"{self}/{name} has {size} bytes, its commit says {facts['bytes']}")
        return problems

    def discard(self, folder: str) -> None:
        prefix = self._key(folder).rstrip("/") + "/"
        with self._telling(folder):
            for page in _client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
                for item in page.get("Contents", []):
                    _client().delete_object(Bucket=self.bucket, Key=item["Key"])

    def scratch(self) -> Path:
        return node_folder("scratch") / sha256(self.place.encode()).hexdigest()[:16]

    def clean(self) -> None:
        """Parts of uploads that were killed stay until the bucket's own rule for incomplete uploads removes them."""
        shutil.rmtree(self.scratch(), ignore_errors=True)

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}".rstrip("/")

    def _size(self, name: str) -> int | None:
        try:
            with self._telling(name):
                return _client().head_object(Bucket=self.bucket, Key=self._key(name))["ContentLength"]
        except FileNotFoundError:
            return None

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        """botocore's errors as Tartan's own, with bucket and key."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        place = f"s3://{self.bucket}/{self._key(name)}"
        try:
            yield
        except NoCredentialsError as problem:
            raise InputError(
                f"{place}: no S3 credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            ) from problem
        except (ClientError, Boto3Error, BotoCoreError) as problem:
            code = _code(problem)
            if code in REFUSED:
                raise InputError(
                    f"{place}: S3 refuses ({code}); check the bucket's name and these credentials' rights"
                ) from problem
            if code in ABSENT:
                raise FileNotFoundError(f"{place} does not exist") from problem
            raise UnfinishedError(
                f"{place}: S3 failed {ATTEMPTS} times ({_line(problem)}); nothing is lost; run the command again"
            ) from problem


def _code(problem: Exception) -> str:
    """S3's error code, looked for in what a transfer wraps, too; '' where there is none."""
    from botocore.exceptions import ClientError

    seen: BaseException | None = problem
    while seen is not None:
        if isinstance(seen, ClientError):
            return str(seen.response.get("Error", {}).get("Code", ""))
        seen = seen.__cause__ or seen.__context__
    return ""


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:300]


def _client() -> Any:
    """boto3's client of this process: clients do not survive a fork."""
    return _client_of(os.getpid())


@lru_cache(maxsize=1)
def _client_of(process: int) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.session.Session().client(
        "s3",
        config=Config(
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            connect_timeout=10,
            read_timeout=60,
            user_agent_extra=f"tartan/{uuid.uuid4().hex[:8]}",
        ),
    )
