"""The demo's book and the questions about it: every gold count is counted again, every gold fact is looked up."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.corpus.book import QUESTIONS, book_text, write_book
from pipeline.documents import BOOK
from pipeline.lexical.overlap import Sentences
from pipeline.questions import read_questions
from pipeline.stages.count_mentions import CountMentions
from tests.stubs import StubEnv, StubLLM, questions, ready, said

ASKED: list[dict[str, Any]] = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
COUNTING = [row for row in ASKED if row["kind"] == "counting"]


def test_it_is_a_long_book_of_chapters_and_paragraphs() -> None:
    text = book_text()
    assert len(text.split()) >= 150_000
    chapters = re.findall(r"^CHAPTER (\d+)\. (.+)$", text, re.MULTILINE)
    assert [int(number) for number, _ in chapters] == list(range(1, len(chapters) + 1))
    assert len(chapters) == 256
    assert [title for _, title in chapters[:2]] == ["AFGHANISTAN", "AKROTIRI"]
    paragraphs = [part for part in re.split(r"\n\n+", text.strip()) if not part.startswith("CHAPTER ")]
    assert all("\n" not in part and part[-1] in ".!?" for part in paragraphs)
    assert "Iceland, Elevation: highest point: Hvannadalshnukur (at Vatnajokull Glacier) 2,110 m; lowest" in text


def test_a_paragraph_is_its_own_sentence_at_least() -> None:
    sentences = Sentences(book_text())
    (best,) = sentences.search("Mongolia elevation highest point", 1)
    assert sentences.text(best.sentence).startswith("Mongolia, Elevation: highest point: Nayramadlin Orgil")


def test_the_questions_are_a_question_file() -> None:
    assert read_questions(QUESTIONS).num_rows == len(ASKED) >= 12
    assert len(COUNTING) >= 4


@pytest.mark.parametrize("row", COUNTING, ids=lambda row: row["id"])
def test_gold_counts(row: dict[str, Any]) -> None:
    forms = "|".join(re.escape(form) for form in sorted(row["forms"], key=len, reverse=True))
    assert row["answers"] == [str(len(re.findall(rf"\b(?:{forms})\b", book_text(), re.IGNORECASE)))]


@pytest.mark.parametrize("row", [row for row in ASKED if row["kind"] == "single"], ids=lambda row: row["id"])
def test_gold_facts(row: dict[str, Any]) -> None:
    (paragraph,) = (part for part in book_text().split("\n\n") if part.startswith(row["paragraph"]))
    assert all(answer in paragraph for answer in row["answers"])


def test_a_model_that_names_the_forms_gets_every_count_right() -> None:
    def reply(request: Any) -> str:
        row = next((row for row in COUNTING if f'"{row["question"]}"' in said(request)), None)
        if "yes or no" in said(request):
            return "yes" if any(row["question"] in said(request) for row in COUNTING) else "no"
        if row is not None:
            return row["forms"][0]
        return json.dumps(next(row["forms"] for row in COUNTING if f'"{row["forms"][0]}"' in said(request)))

    config = {"llm": "c", "document": BOOK, "prompt": "is_counting", "keyword_prompt": "count_keyword"}
    stage = CountMentions.model_validate({**config, "forms_prompt": "count_forms"})
    table = questions(*(row["question"] for row in ASKED))
    after = ready(stage, StubEnv(llm=StubLLM(reply)))(table)
    counts = [mentions and str(mentions["count"]) for mentions in after["mentions"].to_pylist()]
    assert counts == [row["answers"][0] if row["kind"] == "counting" else None for row in ASKED]


def test_it_can_be_written_to_a_file(tmp_path: Path) -> None:
    path = write_book(tmp_path / "new" / "book.txt")
    assert path.read_text(encoding="utf-8") == book_text()
    assert [file.name for file in path.parent.iterdir()] == ["book.txt"]
