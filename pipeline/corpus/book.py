"""The demo's book: the CIA World Factbook (public domain) as one long text, a chapter a page.

What overlap search over a single document is shown on: more than a million words with no structure but chapters,
paragraphs and sentences.
"""

import os
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from pipeline.corpus.factbook import PACKAGE, Page, field_lines, source_pages

QUESTIONS = Path(__file__).parents[2] / "configs" / "questions" / "book.jsonl"


@cache
def book_text() -> str:
    """The book: chapters in the order of their titles, one paragraph a field, a blank line between paragraphs.

    A chapter opens with `CHAPTER 12. ICELAND`; a paragraph with the page's title, as in `Iceland, Elevation: ...`,
    so that it can be understood, and found, alone. InputError where the package is missing.
    """
    pages = sorted((title, page) for _, title, page in source_pages() if page)
    chapters = ("\n\n".join(_chapter(number, *page)) for number, page in enumerate(pages, 1))
    return "\n\n\n".join(chapters) + "\n"


def book_version() -> str:
    """What the text depends on: the package and its version."""
    return f"{PACKAGE} {version(PACKAGE)}"


def write_book(path: Path) -> Path:
    """Writes the book as a UTF-8 text file; it appears under its name complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.write_text(book_text(), encoding="utf-8")
    os.replace(draft, path)
    return path


def _chapter(number: int, title: str, page: Page) -> Iterator[str]:
    yield f"CHAPTER {number}. {title.upper()}"
    for fields in page.values():
        for name, field in fields.items():
            if lines := [line for text in field_lines(name, field) for line in text.splitlines()]:
                yield f"{title}, {_one_line(lines)}"


def _one_line(lines: list[str]) -> str:
    """`Elevation: highest point: ...; lowest point: ...`, closed by a full stop."""
    text = lines[0]
    for line in lines[1:]:
        text += (" " if text[-1] in ".:;!?" else "; ") + line
    return text if text[-1] in ".!?" else text + "."
