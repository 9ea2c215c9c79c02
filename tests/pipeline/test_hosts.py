"""Host scores: three kinds of table, URLs of every shape, and files that are refused."""

import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.hosts import HostScores, host_of


def hosts(folder: Path, kind: str, text: str) -> HostScores:
    (folder / "hosts.txt").write_text(text, encoding="utf-8")
    return HostScores.model_validate({"kind": kind, "file": "hosts.txt"}, context={"near": folder})


def test_allow_list(tmp_path: Path) -> None:
    table = hosts(tmp_path, "allow_list", "# ours\ngov\nhelp.example.com  # manuals\n\nbücher.de\n")
    assert table.of("https://www.cia.gov/factbook") == (1, None)
    assert table.of("http://help.example.com:8080/a?b") == (1, None)
    assert table.of("https://EN.HELP.Example.com./") == (1, None)
    assert table.of("https://xn--bcher-kva.de") == table.of("https://bücher.de") == (1, None)
    assert table.of("https://example.com") == (0, None)
    assert table.of("https://nogov/") == table.of("https://gov.example.org") == (0, None)


def test_priors_and_the_longest_entry_counts(tmp_path: Path) -> None:
    table = hosts(tmp_path, "priors", "host,score,note\nexample.com,.25,x\nhelp.example.com,0.5,y\n")
    assert table.of("https://a.help.example.com") == (0.5, None)
    assert table.of("https://blog.example.com") == (0.25, None)


def test_log_frequency(tmp_path: Path) -> None:
    table = hosts(tmp_path, "log_frequency", "host,documents\na.org,99\nb.org,9\nc.org,0\n")
    assert table.of("https://a.org") == (1, None)
    assert table.of("https://b.org")[0] == pytest.approx(math.log(10) / math.log(100)) == pytest.approx(0.5)
    assert table.of("https://c.org") == (0, None)


def test_no_table() -> None:
    assert HostScores().of("https://a.org") == (0, None)


@pytest.mark.parametrize("url", [None, "", "  "])
def test_a_missing_url_has_0(url: str | None, tmp_path: Path) -> None:
    assert hosts(tmp_path, "allow_list", "org").of(url) == (0, "missing")


@pytest.mark.parametrize(
    "url",
    ["a.org", "org", "https://", "https:///a", "ftp://a.org", "https://a b.org", "http://[::1", "http://a..org",
     "https://a.org:port/", "javascript:alert(1)", "https://" + "a" * 64 + ".org"],
)  # fmt: skip
def test_a_malformed_url_has_0(url: str, tmp_path: Path) -> None:
    assert hosts(tmp_path, "allow_list", "org").of(url) == (0, "malformed")


@given(st.text(max_size=40))
def test_no_url_raises(text: str) -> None:
    for url in (text, f"https://{text}"):
        assert host_of(url) is None or host_of(url) != ""
        assert HostScores().of(url)[0] == 0


def test_the_table_travels_and_its_file_is_held_to_its_hash(tmp_path: Path) -> None:
    table = hosts(tmp_path, "allow_list", "gov")
    dumped = table.model_dump(mode="json")
    assert len(dumped["sha256"]) == 64
    (tmp_path / "hosts.txt").write_text("edu")
    assert pickle.loads(pickle.dumps(table)).of("https://www.cia.gov") == (1, None)
    with pytest.raises(InputError, match=r"hosts.txt has changed: its sha256 is .*, not "):
        HostScores.model_validate(dumped, context={"near": tmp_path})


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("allow_list", "https://a.org/x\n", "line 1: .*wants a host without scheme or path"),
        ("priors", "host,score\na.org,high\n", "line 2: 'a.org', 'high': wants a host"),
        ("priors", "host,score\na.org,1.5\n", "line 2: 1.5 is not within 0 and 1"),
        ("priors", "host,score\na.org,nan\n", "line 2: nan is not within"),
        ("priors", "host,score\na.org,.1\nA.org,.2\n", "line 3: A.org is there twice"),
        ("priors", "a.org,.1\n", r"wants the columns host,score; it has a.org, .1"),
        ("priors", "", "it has nothing"),
        ("log_frequency", "host,documents\na.org,-1\n", "line 2: -1 is not a count"),
        ("log_frequency", "host,documents\na.org\n", "line 2: 'a.org', '': wants"),
    ],
)
def test_a_table_that_is_refused(kind: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        hosts(tmp_path, kind, text)


def test_a_file_that_is_not_there_or_not_named(tmp_path: Path) -> None:
    def made(**settings: Any) -> HostScores:
        return HostScores.model_validate(settings, context={"near": tmp_path})

    with pytest.raises(InputError, match=r"no host file 'nowhere.csv' in .*configs/hosts"):
        made(kind="priors", file="nowhere.csv")
    with pytest.raises(ValueError, match="kind priors needs a file"):
        made(kind="priors")
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    with pytest.raises(InputError, match="is not UTF-8"):
        made(kind="allow_list", file="latin.txt")
    assert made(kind="allow_list", file="trusted.txt").of("https://www.cia.gov")[0] == 1  # of configs/hosts
