"""Host scores: how much a document's host speaks for it, in [0, 1]. (The paper that boosts by it, arXiv 2412.03736,
does not define it: these are the readings we offer.)

An entry of a table stands for its host and all below it, the longest one counting: `gov` for www.cia.gov, unless
`cia.gov` is there too. Hosts are compared in lower case and in IDNA's ASCII form.
"""

import csv
import hashlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator

from pipeline.errors import InputError

SHIPPED = Path(__file__).resolve().parent.parent / "configs" / "hosts"
COLUMNS = {"allow_list": None, "log_frequency": "documents", "priors": "score"}  # of a table, beside `host`
_HOST = re.compile(r"[^\s/?#@\\%<>\"]+")


class HostScores(BaseModel):
    """none: 0 for all. allow_list: 1 for the hosts of a file, one a line (# comments), else 0. log_frequency:
    log(1 + n) / log(1 + largest n) with n from a CSV `host,documents` (`tartan hosts` counts an index's). priors: from
    a CSV `host,score`. A host without an entry has 0.

    The table is read when the config is, and travels inside: no worker needs the file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    kind: Literal["none", "allow_list", "log_frequency", "priors"] = "none"
    file: str | None = Field(None, description="a path, beside the system file or in configs/hosts")
    sha256: str | None = Field(None, description="of the file; given: another content is refused")
    _scores: dict[str, float] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_hash(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, dict) or values.get("kind", "none") not in COLUMNS or not values.get("file"):
            return values
        path = _find(str(values["file"]), (info.context or {}).get("near"))
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if values.get("sha256") not in (None, found):
            raise InputError(f"host file {path} has changed: its sha256 is {found}, not {values['sha256']}")
        return {**values, "sha256": found}

    @model_validator(mode="after")
    def _read(self, info: ValidationInfo) -> "HostScores":
        if self.kind == "none":
            return self
        if not self.file:
            raise ValueError(f"kind {self.kind} needs a file")
        self._scores.update(_table(_find(self.file, (info.context or {}).get("near")), self.kind))
        return self

    def of(self, url: str | None) -> tuple[float, str | None]:
        """(score, None), or (0, what is wrong with the URL: "missing" or "malformed")."""
        if url is None or not url.strip():
            return 0.0, "missing"
        host = host_of(url)
        if host is None:
            return 0.0, "malformed"
        while host:
            if host in self._scores:
                return self._scores[host], None
            host = host.partition(".")[2]
        return 0.0, None


def host_of(url: str) -> str | None:
    """The host of an http(s) URL as tables name it, or None where there is none to be read."""
    try:
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        _ = parts.port  # raises where it is no number
        return _key(parts.hostname)
    except ValueError:  # UnicodeError, which IDNA raises, is one
        return None


def _key(host: str) -> str:
    """Raises ValueError for what cannot be a host."""
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is no host")
    return host.rstrip(".").encode("idna").decode().lower()


def _find(file: str, near: Path | None) -> Path:
    for folder in (near, SHIPPED):
        if folder is not None and (folder / file).is_file():
            return folder / file
    looked = " or ".join(str(folder) for folder in (near, SHIPPED) if folder is not None)
    raise InputError(f"no host file '{file}' in {looked}; give a path from there, or host.kind: none")


def _table(path: Path, kind: str) -> dict[str, float]:
    """host -> score. InputError, naming file and line, for anything that is not one."""
    values: dict[str, float] = {}
    for line, host, value in _lines(path, COLUMNS[kind]):
        where = f"{path}, line {line}"
        try:
            key, number = _key(host), float(value)
        except ValueError:
            raise InputError(
                f"{where}: {host!r}, {value!r}: wants a host without scheme or path, and a number"
            ) from None
        if not (0 <= number <= (math.inf if kind == "log_frequency" else 1)) or math.isinf(number):
            raise InputError(f"{where}: {value} is not {'a count' if kind == 'log_frequency' else 'within 0 and 1'}")
        if key in values:
            raise InputError(f"{where}: {host} is there twice; keep one of the two")
        values[key] = number
    if kind == "log_frequency":
        most = math.log1p(max(values.values(), default=0)) or 1.0
        return {host: math.log1p(count) / most for host, count in values.items()}
    return values


def _lines(path: Path, column: str | None) -> Iterator[tuple[int, str, str]]:
    """(line number, host, value as written) of a table; "1" for each host of a list (column None)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(f"host file {path} is not UTF-8 text (byte {problem.start})") from problem
    if column is None:
        for number, line in enumerate(text.splitlines(), 1):
            if host := line.partition("#")[0].strip():
                yield number, host, "1"
        return
    reader = csv.DictReader(text.splitlines())
    if not {"host", column} <= set(reader.fieldnames or ()):
        has = ", ".join(reader.fieldnames or ()) or "nothing"
        raise InputError(f"host file {path}: its first line wants the columns host,{column}; it has {has}")
    for row in reader:
        yield reader.line_num, row["host"] or "", row[column] or ""
