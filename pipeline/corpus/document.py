"""What a corpus consists of: files, their rows, and the documents that rows become. Shared by all formats."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pipeline.errors import InputError, some

ROWS_PER_BATCH = 128  # read at once: 128 MB of text where documents have 1 MB
_SURROGATE = re.compile("[\ud800-\udfff]")
# Format characters (Unicode's Cf) that show nothing: zero-width spaces and joiners, directions, byte order marks.
_BLANK = re.compile("[\\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]*")


@dataclass(frozen=True)
class Columns:
    """Names of the columns that make a document. `text` and `id` must be there; `url` and `title` may be absent."""

    text: str = "text"
    id: str = "id"
    url: str = "url"
    title: str | None = None

    @property
    def optional(self) -> dict[str, str]:
        """Setting -> column, of those that may be absent."""
        return {"url": self.url} | ({"title": self.title} if self.title else {})

    def there(self, names: list[str]) -> list[str]:
        """Of the columns wanted, those among `names`, each once."""
        return [name for name in dict.fromkeys([self.id, self.text, *self.optional.values()]) if name in names]


@dataclass(frozen=True)
class CorpusFile:
    """One file: absolute path or address, size in bytes, rows in all, rows of each row group, and the optional columns
    it has. `offsets`, where not empty, says at which byte of the (uncompressed) file each row group starts."""

    path: str
    size: int
    rows: int
    row_groups: list[int]
    offsets: tuple[int, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class BadFile:
    """A file that was left out of a corpus, and why."""

    path: str
    reason: str


NAMED = 8  # damaged files in one sentence


class BadFileError(InputError):
    """A file whose contents are damaged, which `on_bad_file: skip` leaves out."""

    def __init__(self, path: str, reason: str, others: Sequence[str] = ()) -> None:
        also = f" (damaged, too: {some(others, NAMED)})" if others else ""
        them = "them" if others else "it"
        super().__init__(
            f"corpus file {path} {reason}{also}; replace or remove {them}, or set corpus.on_bad_file=skip to leave "
            f"{them} out."
        )
        self.bad_file = BadFile(path, reason)

    def __reduce__(self) -> tuple[type["BadFileError"], tuple[str, str]]:
        return BadFileError, (self.bad_file.path, self.bad_file.reason)


@dataclass(frozen=True, slots=True)
class Document:
    """One row. `id` is verbatim as a string, None where null (the caller counts it); a null text is ''.

    `repaired`: id, url, title or text held what is not Unicode text, lone surrogates (JSON can spell them) or bytes
    that are not UTF-8. No file that follows can hold these, so each has become U+FFFD, and offsets count those.
    """

    id: str | None
    url: str | None
    text: str
    title: str | None = None
    repaired: bool = False

    @classmethod
    def of(cls, id: Any, url: Any, text: str | None, title: Any) -> "Document":
        values = [None if value is None else str(value) for value in (id, url, text, title)]
        whole = [value if value is None else _encodable(value) for value in values]
        return cls(whole[0], whole[1], whole[2] or "", whole[3], whole != values)


class Format(Protocol):
    """How files of one kind are described when a build is planned and how a range of one of their row groups is read.

    Both raise BadFileError where the contents are damaged and InputError where `text` or `id` is missing.
    """

    def describe(self, path: str, size: int, columns: Columns) -> CorpusFile: ...
    def rows(
        self, path: str, row_group: int, start: int, stop: int, columns: Columns, offset: int
    ) -> Iterator[Document]: ...


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def is_blank(text: str) -> bool:
    """Whether a text has nothing but white space and characters without width."""
    return _BLANK.fullmatch(text) is not None


def documents_of(batch: pa.RecordBatch | pa.Table, columns: Columns) -> Iterator[Document]:
    """The rows of a batch whose names may lack the optional columns."""

    def column(name: str | None) -> list[Any]:
        return _values(batch.column(name)) if name in batch.schema.names else [None] * batch.num_rows

    values = [column(name) for name in (columns.id, columns.url, columns.text, columns.title)]
    for id, url, text, title in zip(*values, strict=True):
        yield Document.of(id, url, text, title)


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        values = plain.cast(pa.large_binary()).to_pylist()
    return [value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value for value in values]


def check_columns(path: str, schema: pa.Schema, columns: Columns) -> None:
    """Raises InputError where `text` or `id` is not in the schema or has a type that cannot serve. A column of nulls
    alone serves: part files disagree on types where one of them holds no value."""
    for setting, name, accepted in (("text", columns.text, _is_string), ("id", columns.id, _is_id)):
        if name not in schema.names:
            raise missing_column(path, setting, name, schema.names)
        if not accepted(schema.field(name).type):
            raise InputError(
                f"corpus file {path}: column {name!r} holds {schema.field(name).type}, which cannot serve as "
                f"'{setting}'; set corpus.{setting} to a string column."
            )


def missing_column(path: str, setting: str, name: str, there: list[str]) -> InputError:
    return InputError(
        f"corpus file {path} has no column {name!r} for '{setting}'; its columns are {some(there, 20) or 'none'}. "
        f"Set corpus.{setting} to one of them."
    )


def _is_string(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,  # text written by engines that do not mark it as UTF-8
        pa.types.is_large_binary,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def _is_id(kind: pa.DataType) -> bool:
    return _is_string(kind) or pa.types.is_integer(kind)
