"""The passage store of a shard: one Arrow IPC file `passages.arrow`, memory-mapped, text by passage in O(1).

Columns: doc_id string, url string, text string, start int64 (first character in the document), chunk int32 (number of
the passage in its document); and, of a corpus with `corpus.title`, title string. Record batches hold BATCH passages,
the last one fewer: passage n is row n % BATCH of batch n // BATCH.

A title belongs to what is searched, not to what is read: the encoder and BM25 get title, line break and text (`piece`),
while `text` stays document[start : start + len(text)], so that offsets, snippets and citations never meet the title.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from pipeline.corpus.document import BadFile, BadFileError, Document, is_blank
from pipeline.corpus.ids import IdWriter
from pipeline.corpus.plan import ShardPlan, Slice
from pipeline.corpus.read import read_rows
from pipeline.corpus.split import Splitter, TokenSplitter
from pipeline.errors import InputError
from pipeline.plaid.config import CorpusConfig
from pipeline.storage import Home

T = TypeVar("T")
BATCH = 1024
_CHARACTERS = 8 << 20  # of documents split together
NAMED = 20  # ids listed by name in a report, of each kind of problem
SCHEMA = pa.schema(
    [("doc_id", pa.string()), ("url", pa.string()), ("text", pa.string()), ("start", pa.int64()), ("chunk", pa.int32())]
)


def write_passages(shard: ShardPlan, corpus: CorpusConfig, splitter: Splitter, folder: Path) -> dict[str, Any]:
    """Reads, splits and stores a shard's documents, and their ids for `duplicate_ids`. Returns counts: documents,
    passages, `problems`: kind -> {count, ids (the first NAMED)}, and `bad_files`: a BadFile as a dict for each damage
    met in reading, where `corpus.on_bad_file` is skip: the rest of the slice is left out, `documents` says how many.

    - empty text: null, white space, or characters without width alone: no passage
    - no id: the document is called `file:row group:row`
    - not Unicode: lone surrogates or bytes that are not UTF-8, each replaced by U+FFFD
    - title cut: to its first `corpus.title_tokens` tokens
    """
    problems = _Problems()
    documents = passages = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal documents
        for group in _groups(_documents(shard, corpus, problems)):
            texts = ["" if is_blank(document.text) else document.text for _, document in group]
            splits = splitter.split_batch(texts)
            for (name, document), spans in zip(group, splits, strict=True):
                documents += 1
                ids.add(name)
                title = _title(document, corpus, splitter)
                if not spans:
                    problems.add("empty text", name)
                if document.repaired:
                    problems.add("not Unicode", name)
                if spans and len(title or "") < len((document.title or "").strip()):
                    problems.add("title cut", name)
                for chunk, (start, stop) in enumerate(spans):
                    yield {
                        "doc_id": name,
                        "url": document.url,
                        "text": document.text[start:stop],
                        "start": start,
                        "chunk": chunk,
                        "title": title,
                    }

    schema = SCHEMA if corpus.title is None else SCHEMA.append(pa.field("title", pa.string()))
    with (
        IdWriter(folder) as ids,
        pa.OSFile(str(folder / "passages.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for batch in _batches(rows()):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))
            passages += len(batch)
    bad = [asdict(file) for file in problems.bad_files]
    return {"documents": documents, "passages": passages, "problems": problems.report(), "bad_files": bad}


class PassageStore:
    """Reads a shard's passages by number, without loading the file."""

    def __init__(self, path: Path) -> None:
        """Raises InputError, with path and size, where the file is absent or damaged."""
        try:
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        except FileNotFoundError as problem:
            raise InputError(
                f"{path}: not there, so the index is not whole; restore it or build the index anew"
            ) from problem
        except (pa.ArrowInvalid, OSError) as problem:
            size = path.stat().st_size
            raise InputError(
                f"{path}: {size} bytes that are no passage store; restore it or build the index anew"
            ) from problem

    def __len__(self) -> int:
        count = self._reader.num_record_batches
        return 0 if count == 0 else (count - 1) * BATCH + self._reader.get_batch(count - 1).num_rows

    def rows(self, numbers: Iterable[int]) -> list[dict[str, Any]]:
        """The passages of these numbers, in their order, as dicts of doc_id, url, text, start, chunk."""
        return [self._reader.get_batch(n // BATCH).slice(n % BATCH, 1).to_pylist()[0] for n in numbers]

    @property
    def pieces(self) -> int:
        """Number of pieces: runs of BATCH passages, the last one shorter."""
        return self._reader.num_record_batches

    def piece(self, number: int) -> list[str]:
        """The texts of one piece as they are searched, in order: titles, where there are any, before the passages."""
        batch = self._reader.get_batch(number)
        texts = batch["text"].to_pylist()
        if "title" not in batch.schema.names:
            return texts
        return [
            f"{title}\n{text}" if title else text for title, text in zip(batch["title"].to_pylist(), texts, strict=True)
        ]

    def urls(self) -> Iterator[str | None]:
        """Each document's URL, of the documents that have a passage, in order."""
        for number in range(self.pieces):
            batch = self._reader.get_batch(number).select(["url", "chunk"])
            yield from (row["url"] for row in batch.to_pylist() if row["chunk"] == 0)


def open_passages(home: Home, shard: str) -> PassageStore:
    """A shard's committed passages. Raises UnfinishedError where they are not written."""
    return PassageStore(home.folder(f"passages/{shard}") / "passages.arrow")


class _Problems:
    def __init__(self) -> None:
        self._count: Counter[str] = Counter()
        self._ids: dict[str, list[str]] = {}
        self.bad_files: list[BadFile] = []

    def add(self, kind: str, document_id: str) -> None:
        self._count[kind] += 1
        if self._count[kind] <= NAMED:
            self._ids.setdefault(kind, []).append(document_id)

    def report(self) -> dict[str, Any]:
        return {kind: {"count": self._count[kind], "ids": self._ids[kind]} for kind in sorted(self._count)}


def _batches(items: Iterator[T]) -> Iterator[list[T]]:
    while group := list(islice(items, BATCH)):
        yield group


def _groups(documents: Iterator[tuple[str, Document]]) -> Iterator[list[tuple[str, Document]]]:
    """Documents to split together: BATCH of them, or fewer long ones."""
    group: list[tuple[str, Document]] = []
    characters = 0
    for item in documents:
        group.append(item)
        characters += len(item[1].text)
        if len(group) == BATCH or characters >= _CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _title(document: Document, corpus: CorpusConfig, splitter: Splitter) -> str | None:
    if not document.title or not isinstance(splitter, TokenSplitter):
        return None
    return splitter.head(document.title, corpus.title_tokens) or None


def _documents(shard: ShardPlan, corpus: CorpusConfig, problems: _Problems) -> Iterator[tuple[str, Document]]:
    """(name, document): a document's name is its id, or its place where it has none."""
    for part in shard.slices:
        for row, document in enumerate(_rows(part, corpus, problems), part.start):
            if document.id is None or not document.id.strip():
                place = f"{Path(part.path).name}:{part.row_group}:{row}"
                problems.add("no id", place)
                yield place, document
            else:
                yield document.id, document


def _rows(part: Slice, corpus: CorpusConfig, problems: _Problems) -> Iterator[Document]:
    left = part.stop - part.start
    try:
        for document in read_rows(part.path, part.row_group, part.start, part.stop, corpus.columns, part.offset):
            yield document
            left -= 1
    except BadFileError as problem:
        if corpus.on_bad_file == "error":
            raise
        problems.bad_files.append(replace(problem.bad_file, documents=left))
