"""Long texts that questions are asked about: given as a file, or found by an earlier stage.

A file is JSONL, in which each question's id has a `document` of its own (a string, or a list of strings: its pages),
such as the question file itself; or a text in UTF-8 for all questions, whose pages, if any, form feeds separate.
`embedded:world-factbook` is the demo's book (corpus/book.py).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BeforeValidator, Field, PlainSerializer, PrivateAttr, model_validator

from pipeline.corpus.book import book_text, book_version
from pipeline.errors import InputError
from pipeline.evidence import kept
from pipeline.lexical.neighbours import headings
from pipeline.lexical.overlap import Sentences
from pipeline.schema import ITEM, STRINGS, one_of
from pipeline.stage import Stage

BOOK = "embedded:world-factbook"


@dataclass(frozen=True)
class Document:
    """A file of texts by its absolute path, or BOOK; `fingerprint` is of its contents, for the manifest."""

    name: str
    fingerprint: str


@dataclass(frozen=True)
class Text:
    """One question's text in parts: a document, its pages, or passages. `about`: doc_id, url, start of each part."""

    parts: Sequence[str]
    about: Sequence[Mapping[str, Any]]

    @cached_property
    def sentences(self) -> Sentences:
        return Sentences(self.parts)

    @cached_property
    def _headings(self) -> dict[str, list[int]]:
        return {}

    def headings(self, pattern: str) -> list[int]:
        """Numbers of the sentences whose beginning the pattern matches, ascending; read once."""
        if pattern not in self._headings:
            self._headings[pattern] = headings(self.sentences, pattern)
        return self._headings[pattern]

    def passage(self, first: int, last: int) -> dict[str, Any]:
        """Sentences first..last, of one part, as a passage without score; `pid` is the first one's number."""
        part, start, _ = self.sentences.place(first)
        stop = self.sentences.place(last)[2]
        about = self.about[part]
        return {"pid": first, **about, "text": self.parts[part][start:stop], "start": about["start"] + start}

    @classmethod
    def of_pages(cls, pages: Sequence[str], doc_id: str) -> "Text":
        """Pages of a document; a passage's `start` counts from the first page's first character."""
        starts = [0, *accumulate(map(len, pages))][: len(pages)]
        return cls(list(pages), [{"doc_id": doc_id, "url": None, "start": start} for start in starts])

    @classmethod
    def of_items(cls, items: list[dict[str, Any]], doc_id: str) -> "Text":
        """Passages or snippets, with what they say of where they are from."""
        about = [
            {"doc_id": item.get("doc_id") or doc_id, "url": item.get("url"), "start": item.get("start") or 0}
            for item in items
        ]
        return cls([item["text"] for item in items], about)


class TextStage(Stage):
    """A stage that reads a text for each question: a file's (`document`) or a column's (`source`)."""

    source: str | None = Field(None, description="column: a text, its pages, or passages that an earlier stage found")
    document: "DocumentField | None" = Field(None, description=f"text file, JSONL with documents by id, or {BOOK}")
    _texts: dict[str | None, Text] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_text(self) -> "TextStage":
        if (self.source is None) == (self.document is None):
            raise ValueError("one of source (a column) and document (a file) is needed, and not both")
        return self

    def reads(self) -> dict[str, pa.DataType]:
        text = {self.source: one_of(pa.string(), STRINGS, pa.list_(ITEM))} if self.source else {}
        return {"id": pa.string(), "question": pa.string(), **text}

    def text(self, row: Mapping[str, Any]) -> Text:
        """A row's text. InputError, the row's, where its file has none for it."""
        if self.source is not None:
            return _of_value(row[self.source], row["id"])
        assert self.document is not None  # _has_one_text
        if not self._texts:
            self._texts.update(_read(self.document))
        found = self._texts.get(row["id"]) or self._texts.get(None)
        if found is None:
            raise InputError(f"{self.document.name} has no document for the question '{row['id']}'.")
        return found


def _of_value(value: Any, doc_id: str) -> Text:
    if isinstance(value, str):
        return Text.of_pages([value], doc_id)
    if value and isinstance(value[0], dict):
        return Text.of_items(kept(value), doc_id)
    return Text.of_pages(value or [], doc_id)


def _read(document: Document) -> dict[str | None, Text]:
    """Texts by question id; under None the one for all. InputError, naming file and line, for what is no text."""
    if document.name == BOOK:
        return {None: Text.of_pages([book_text()], BOOK.partition(":")[2])}
    path = Path(document.name)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(f"document {path} is not UTF-8 text (byte {problem.start}); convert it.") from problem
    if path.suffix != ".jsonl":
        return {None: Text.of_pages(text.split("\f"), path.name)}
    texts: dict[str | None, Text] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            texts |= _line(line, f"{path}, line {number}")
    return texts


def _line(line: str, where: str) -> dict[str | None, Text]:
    try:
        row = json.loads(line)
        id, value = str(row["id"]), row["document"]
    except (ValueError, KeyError, TypeError) as problem:
        raise InputError(f"{where}: wants an object with 'id' and 'document' ({problem!r}).") from problem
    pages = [value] if isinstance(value, str) else value
    if not isinstance(pages, list) or not all(isinstance(page, str) for page in pages):
        raise InputError(f"{where}: 'document' wants a string or a list of strings, its pages.")
    return {id: Text.of_pages(pages, id)}


def _found(value: Any) -> Any:
    """The file that a config names, looked for now: a config is checked before anything runs."""
    if isinstance(value, dict) and set(value) == {"name", "fingerprint"}:  # a resolved config, read again
        again = _found(value["name"])
        if again.fingerprint != value["fingerprint"]:
            raise InputError(f"document {value['name']} has changed: {value['fingerprint']}, now {again.fingerprint}.")
        return again
    if not isinstance(value, str):
        return value
    if value.startswith("embedded:"):
        if value != BOOK:
            raise InputError(f"document '{value}': there is no embedded document of that name; there is {BOOK}.")
        return Document(BOOK, book_version())
    path = Path(value).expanduser().absolute()
    if not path.is_file():
        raise InputError(f"document {path} {'is a folder' if path.is_dir() else 'does not exist'}; give a file.")
    with path.open("rb") as file:
        found = Document(str(path), "sha256 " + hashlib.file_digest(file, "sha256").hexdigest())
    _read(found)  # for what is wrong with it
    return found


# A stage's document field: a path in YAML; from then on that path with a fingerprint of the file.
DocumentField = Annotated[
    Document,
    BeforeValidator(_found),
    PlainSerializer(lambda found: {"name": found.name, "fingerprint": found.fingerprint}, return_type=dict[str, str]),
]
TextStage.model_rebuild()
