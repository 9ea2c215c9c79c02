"""`tartan hosts`: documents, not passages, are counted; what it writes is what host scores read."""

from collections import Counter
from pathlib import Path

import pytest

from jobs.cli import main
from jobs.hosts import count_hosts
from pipeline.hosts import HostScores
from pipeline.storage import open_home
from tests.pipeline.plaid.small_index import build_index, documents_of, plan_of, write_corpus


def test_documents_by_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = documents_of(8)
    for document, url in zip(
        documents, ["https://A.org/1", "http://a.org:80/2", "https://b.org", None, "x"], strict=False
    ):
        document["url"] = url
    corpus = write_corpus(tmp_path / "corpus", [*documents, {"id": "empty", "url": "https://c.org", "text": ""}])
    build_index(plan_of(corpus, "lexical.bm25=false"), tmp_path / "index")
    with pytest.raises(SystemExit) as stopped:
        main(["hosts", str(tmp_path / "index"), "--out", str(tmp_path / "hosts.csv")])
    assert stopped.value.code in (0, None)
    assert (tmp_path / "hosts.csv").read_text() == "host,documents\nexample.org,3\na.org,2\nb.org,1\n"
    assert "3 hosts of 6 documents; 2 documents have no readable URL" in capsys.readouterr().out
    table = HostScores.model_validate({"kind": "log_frequency", "file": "hosts.csv"}, context={"near": tmp_path})
    assert table.of("https://example.org/5") == (1, None)
    assert 0 < table.of("https://b.org")[0] < table.of("https://a.org")[0] < 1


def test_an_index_on_s3_is_counted(tmp_path: Path, s3: str) -> None:
    build_index(plan_of(write_corpus(tmp_path / "corpus", documents_of(5))), open_home(s3))
    assert count_hosts(s3) == (Counter({"example.org": 5}), 0)
