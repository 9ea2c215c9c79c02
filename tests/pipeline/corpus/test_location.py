import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.corpus import location
from pipeline.corpus.document import BadFileError, Document
from pipeline.corpus.location import find_files, is_damage, list_folder, open_file
from pipeline.corpus.read import corpus_files, read_rows
from pipeline.errors import InputError
from tests.pipeline.corpus.hub import REPO, hub
from tests.seaweedfs import S3Server


@pytest.fixture(scope="module")
def server(s3_endpoint: S3Server) -> S3Server:
    s3_endpoint.client().create_bucket(Bucket="docs")
    return s3_endpoint


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    location._filesystem.cache_clear()  # an earlier test's endpoint
    yield "docs"
    location._filesystem.cache_clear()


def parquet(rows: list[str]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": rows, "text": [f"text of {row}" for row in rows]}), sink)
    return sink.getvalue().to_pybytes()


def put(server: S3Server, key: str, data: bytes) -> None:
    server.client().put_object(Bucket="docs", Key=key, Body=data)


def test_files_of_a_bucket_are_found_and_read(server: S3Server, bucket: str) -> None:
    put(server, "web/b/1.parquet", parquet(["c", "d"]))
    put(server, "web/a/2.parquet", parquet(["a", "b"]))
    put(server, "web/_drafts/3.parquet", parquet(["x"]))
    put(server, "lines.jsonl", b'{"id": "j", "text": "x"}\n' * 3)
    addresses = ["s3://docs/web/a/2.parquet", "s3://docs/web/b/1.parquet"]
    for pattern in ("s3://docs/web", "s3://docs/web/", "s3://docs/web/[ab]/*.parquet", "s3://docs/**/?/*.parquet"):
        files = corpus_files(pattern).files
        assert [file.path for file in files] == addresses
        assert [file.size for file in files] == [len(parquet(["a", "b"]))] * 2
    assert [file.rows for file in corpus_files("s3://docs/lines.jsonl").files] == [3]
    assert list(read_rows("s3://docs/web/b/1.parquet", 0, 1, 2)) == [Document("d", None, "text of d")]
    assert [row.id for row in read_rows("s3://docs/lines.jsonl", 0, 1, 3)] == ["j", "j"]


def test_what_is_wrong_on_s3_is_named(server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for pattern in ("s3://docs/nothing", "s3://docs/*.parquet", "s3://nowhere/a.parquet"):
        with pytest.raises(InputError, match=rf"corpus '{pattern.replace('*', '.')}'.*no file matches"):
            corpus_files(pattern)
    put(server, "bad/a.parquet", parquet(["a"])[:-9])
    put(server, "bad/b.parquet", b"")
    with pytest.raises(BadFileError, match=r"s3://docs/bad/a\.parquet is damaged"):
        corpus_files("s3://docs/bad")
    with pytest.raises(InputError, match="its 0 files hold no rows and 2 are damaged"):
        corpus_files("s3://docs/bad", on_bad_file="skip")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    location._filesystem.cache_clear()
    with pytest.raises(InputError, match=r"'s3://docs/bad' cannot be listed \(.*(ACCESS_DENIED|SIGNATURE)"):
        corpus_files("s3://docs/bad", on_bad_file="skip")


def test_a_service_that_fails_is_no_damage(server: S3Server, bucket: str) -> None:
    with pytest.raises(OSError) as found:  # noqa: PT011 - which kind is the service's choice
        open_file("s3://docs/not-there").read()
    assert not is_damage(found.value)
    assert not is_damage(OSError("AWS Error SLOW_DOWN during GetObject"))
    assert not is_damage(PermissionError(13, "denied"))
    assert is_damage(OSError("Truncated compressed stream"))
    assert is_damage(pa.ArrowInvalid("magic bytes"))


def against_hub(script: str, endpoint: str, home: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own, because the hub's address is read when its library is imported."""
    environment = os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": str(home / "home"), "HF_HUB_OFFLINE": "0"}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_hub_that_does_not_answer(tmp_path: Path) -> None:
    script = "from pipeline.corpus.read import corpus_files; corpus_files('hf://datasets/a/b')"
    done = against_hub(script, "http://127.0.0.1:9", tmp_path)
    assert "InputError: corpus 'hf://datasets/a/b' cannot be listed (" in done.stderr.splitlines()[-1]


def test_a_repository_on_the_hub(tmp_path: Path) -> None:
    data = tmp_path / "repo" / "data"
    data.mkdir(parents=True)
    (data / "1.parquet").write_bytes(parquet(["a", "b", "c"]))
    (data / "0.parquet").write_bytes(parquet(["d"]))
    (tmp_path / "repo" / "README.md").write_text("docs")
    script = f"""
from pipeline.corpus.read import corpus_files, read_rows
from pipeline.errors import InputError
for pattern in ("hf://datasets/{REPO}/data/*.parquet", "hf://datasets/{REPO}", "hf://datasets/{REPO}/data/1.parquet"):
    files = corpus_files(pattern).files
    print([file.path for file in files], [row.text for file in files for row in read_rows(file.path, 0, 0, file.rows)])
try:
    corpus_files("hf://datasets/{REPO}/nothing/*.parquet")
except InputError as problem:
    print(problem)
"""
    with hub(tmp_path / "repo") as endpoint:
        done = against_hub(script, endpoint, tmp_path)
    assert done.returncode == 0, done.stderr
    both = [f"hf://datasets/{REPO}/data/{n}.parquet" for n in (0, 1)]
    texts = [f"text of {row}" for row in "dabc"]
    lines = done.stdout.splitlines()
    assert lines[:3] == [f"{both} {texts}", f"{both} {texts}", f"{both[1:]} {texts[1:]}"]
    assert "no file matches" in lines[3]


def test_other_schemes_are_refused() -> None:
    with pytest.raises(InputError, match="'gs://' is not known; give a local path, s3:// or hf://"):
        corpus_files("gs://bucket/docs")


def test_local_globs_leave_hidden_names_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/b/1.x", "a/.b/2.x", "a/3.x", ".4.x", "5.x", "a/b/c/6.y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("12")
    monkeypatch.chdir(tmp_path)

    def found(pattern: str) -> list[str]:
        return [str(Path(path).relative_to(tmp_path)) for path, size in find_files(pattern) if size == 2]

    assert found("*.x") == ["5.x"]
    assert found("**/*.x") == ["5.x", "a/3.x", "a/b/1.x"]
    assert found("a/**/[0-9].?") == ["a/3.x", "a/b/1.x", "a/b/c/6.y"]
    assert found(".*.x") == [".4.x"]
    assert found("a/.b/*") == ["a/.b/2.x"]
    assert found(f"{tmp_path}/*/*/1.x") == ["a/b/1.x"]
    assert found("nothing/*.x") == found("nothing") == found("a") == []
    assert list_folder(str(tmp_path / "a" / "b")) == [("1.x", 2), ("c/6.y", 2)]
    assert list_folder(str(tmp_path / "5.x")) is None
