import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.corpus.factbook import QUESTIONS, SCHEMA, page_text, plain, write_factbook
from pipeline.errors import InputError

DEMO_QUESTIONS = 24
DEMO_PAGES = 60


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("factbook")
    write_factbook(folder)
    return folder


@pytest.fixture(scope="module")
def pages(corpus: Path) -> dict[str, dict[str, Any]]:
    rows = [row for path in sorted(corpus.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return {row["id"]: row for row in rows}


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


def test_every_page_is_there_once_in_finewebs_columns(corpus: Path, pages: dict[str, dict[str, Any]]) -> None:
    paths = sorted(corpus.iterdir())
    assert [path.name for path in paths] == [f"factbook-{number:05d}.parquet" for number in range(4)]
    assert all(pq.read_schema(path).equals(SCHEMA) for path in paths)
    assert sum(pq.read_metadata(path).num_rows for path in paths) == len(pages) == 256
    assert pages["factbook:france"]["url"] == "https://www.cia.gov/the-world-factbook/countries/france/"
    for row in pages.values():
        assert re.fullmatch(r"factbook:[a-z]+(-[a-z]+)*", row["id"])
        assert row["language"] == "en"
        assert row["language_score"] is None
        assert row["token_count"] == len(row["text"].split()) > 100


def test_pages_hold_no_markup_and_no_json(pages: dict[str, dict[str, Any]]) -> None:
    residue = re.compile(r"&[A-Za-z]+;|&#|</?[A-Za-z!]|[{}]|\\[nu\"]|[\u00a0\u200b\t]|\n{3}| \n|  ")
    found = {key: residue.search(row["text"]) for key, row in pages.items()}
    assert [key for key, match in found.items() if match] == []


def test_a_page_reads_as_a_page(pages: dict[str, dict[str, Any]]) -> None:
    text = pages["factbook:france"]["text"]
    assert text.startswith("France\n\nIntroduction :: France\nBackground: France today is one of")
    assert "\n\nGeography :: France\nLocation: metropolitan France: Western Europe, bordering" in text
    assert "\nElevation:\nhighest point: Mont Blanc 4,810\nlowest point: Rhone River delta -2 m\n" in text
    assert "\nLanguages: French (official) 100%, declining regional dialects and languages (Provençal," in text
    assert "\nagricultural land: arable land: 31.4% (2023 est.)\n" in text


def test_page_text_leaves_out_what_is_empty() -> None:
    page = {
        "Geography": {"Area": {"total ": {"text": "5 sq km"}, "land": {"text": ""}, "note": "<b>note:</b> small"}},
        "Space": {"Agency": {"text": " "}},
    }
    assert page_text("Here", page) == "Here\n\nGeography :: Here\nArea:\ntotal: 5 sq km\nnote: small\n"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a<br><br>b", "a\nb"),
        ("<p style='x'>R&eacute;publique</p><p>two</p>", "République\ntwo"),
        ("Muslim &lt;1%, other&nbsp;2%<!--EndFragment -->", "Muslim <1%, other 2%"),
        ("", ""),
    ],
)
def test_plain(markup: str, text: str) -> None:
    assert plain(markup) == text


def test_a_slice_is_the_head_of_the_corpus_and_holds_the_demo_golds(
    tmp_path: Path, corpus: Path, questions: list[dict[str, Any]]
) -> None:
    whole = pa.concat_tables([pq.read_table(path) for path in sorted(corpus.glob("*.parquet"))])
    paths = write_factbook(tmp_path / "slice", pages=DEMO_PAGES)
    assert [pq.read_metadata(path).num_rows for path in paths] == [15] * 4
    part = pa.concat_tables([pq.read_table(path) for path in paths])
    assert part.equals(whole.slice(0, DEMO_PAGES))
    golds = {doc_id for line in questions[:DEMO_QUESTIONS] for doc_id in line["doc_ids"]}
    assert len(golds) <= 40
    assert golds <= set(part.column("id").to_pylist()[: len(golds)])


def test_writing_again_gives_the_same_bytes_and_touches_nothing(tmp_path: Path) -> None:
    first = write_factbook(tmp_path / "a", pages=5, files=2)
    again = write_factbook(tmp_path / "b", pages=5, files=2)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    before = [path.stat().st_mtime_ns for path in first]
    assert write_factbook(tmp_path / "a", pages=5, files=2) == first
    assert [path.stat().st_mtime_ns for path in first] == before
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [path.name for path in first]


def test_another_corpus_in_the_folder_is_not_overwritten(tmp_path: Path) -> None:
    write_factbook(tmp_path, pages=8, files=4)
    with pytest.raises(InputError, match=r"already holds factbook-00002\.parquet"):
        write_factbook(tmp_path, pages=8, files=2)
    with pytest.raises(InputError, match=r"factbook-00000\.parquet holds other rows"):
        write_factbook(tmp_path, pages=12, files=4)


@pytest.mark.parametrize(("pages", "files"), [(0, 1), (257, 4), (3, 4), (3, 0)])
def test_numbers_out_of_range_are_refused(tmp_path: Path, pages: int, files: int) -> None:
    with pytest.raises(InputError, match="give 1 to"):
        write_factbook(tmp_path / "never", pages=pages, files=files)
    assert not (tmp_path / "never").exists()


def test_every_gold_answer_stands_in_its_gold_page(
    pages: dict[str, dict[str, Any]], questions: list[dict[str, Any]]
) -> None:
    for line in questions:
        assert set(line["doc_ids"]) <= pages.keys(), line["id"]
        texts = [pages[doc_id]["text"].lower() for doc_id in line["doc_ids"]]
        for answer in line["answers"]:
            assert any(answer.lower() in text for text in texts), (line["id"], answer)
        for fact, text in zip(line.get("facts", []), texts, strict=True) if line["kind"] == "comparison" else []:
            assert fact.lower() in text, (line["id"], fact)


def test_questions_are_many_mixed_and_well_formed(questions: list[dict[str, Any]]) -> None:
    assert [line["id"] for line in questions] == [f"fb-{number:03d}" for number in range(1, len(questions) + 1)]
    assert len({line["question"] for line in questions}) == len(questions) >= 70
    kinds = Counter(line["kind"] for line in questions)
    assert kinds.keys() == {"single", "comparison", "search", "unanswerable"}
    assert kinds["single"] >= 40
    assert kinds["comparison"] >= 10
    assert kinds["search"] >= 10
    assert kinds["unanswerable"] >= 5
    demo = Counter(line["kind"] for line in questions[:DEMO_QUESTIONS])
    assert demo.keys() == kinds.keys()
    assert demo["unanswerable"] >= 2
    golds = {"single": 1, "search": 1, "comparison": 2, "unanswerable": 0}
    for line in questions:
        assert len(set(line["doc_ids"])) == len(line["doc_ids"]) == golds[line["kind"]], line["id"]
        assert bool(line["answers"]) == (line["kind"] != "unanswerable"), line["id"]
        assert ("facts" in line) == (line["kind"] == "comparison"), line["id"]
