import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.corpus.document import BadFileError
from pipeline.corpus.ids import HASHES, NAMES, duplicate_ids
from pipeline.corpus.plan import plan_shards
from pipeline.corpus.read import corpus_files
from pipeline.corpus.split import CharacterSplitter, Splitter, TokenSplitter, make_splitter
from pipeline.models.resolve import resolve_model
from pipeline.plaid.config import CorpusConfig
from pipeline.plaid.passages import PassageStore, write_passages

TOKENIZER = resolve_model("embedded:minilm-colbert")
TOKENS = TokenSplitter(TOKENIZER, 20)
SENTENCES = make_splitter("sentences", 20, 5, TOKENIZER)
SPLITTERS = [TOKENS, CharacterSplitter(30, 10), SENTENCES]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """JSONL, which can spell everything that a document can hold."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def store(
    corpus: Path, folder: Path, splitter: Splitter = TOKENS, **settings: Any
) -> tuple[dict[str, Any], list[dict[str, Any]], PassageStore]:
    """One shard's record, its passages, and its store."""
    config = CorpusConfig(path=str(corpus), **settings)
    files = corpus_files(str(corpus), config.columns, config.on_bad_file).files
    folder.mkdir(exist_ok=True)
    record = write_passages(plan_shards(files, 10**6)[0], config, splitter, folder)
    passages = PassageStore(folder / "passages.arrow")
    return record, passages.rows(range(len(passages))), passages


PIECES = st.sampled_from(
    ["word", "Iceland's", "e\u0301", "\x00", "\u200b", "北京。", "है।", "😀", "x" * 50, "\ud800", "!"]
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", "", "\n\n", ". "])), max_size=40).map(
    lambda parts: "".join(piece + gap for piece, gap in parts)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.sampled_from(SPLITTERS), st.booleans())
def test_offsets_lead_back_into_the_document(
    tmp_path: Path, texts: list[str], splitter: Splitter, titled: bool
) -> None:
    """text[start : start + len] is the passage, titles or not, and passages are numbered within their documents."""
    rows = [{"id": f"d{n}", "text": text, "title": f"title {n}"} for n, text in enumerate(texts)]
    path = write(tmp_path / "a.jsonl", rows)
    title = "title" if titled and not isinstance(splitter, CharacterSplitter) else None
    record, passages, _ = store(path, tmp_path / "out", splitter, title=title)
    whole = {f"d{n}": text.replace("\ud800", "\ufffd") for n, text in enumerate(texts)}
    assert record["documents"] == len(texts)
    assert record["passages"] == len(passages)
    numbers = dict.fromkeys(whole, 0)
    for passage in passages:
        doc_id, start = passage["doc_id"], passage["start"]
        assert whole[doc_id][start : start + len(passage["text"])] == passage["text"]
        assert passage["chunk"] == numbers[doc_id]
        numbers[doc_id] += 1
    empty = record["problems"].get("empty text", {"count": 0, "ids": []})
    assert empty["ids"] == [doc_id for doc_id, count in numbers.items() if count == 0]


def test_every_odd_document_is_counted_and_named_and_shifts_nothing(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "null", "text": None},
        {"id": "empty", "text": ""},
        {"id": "white", "text": " \t\n\u00a0\u3000"},
        {"id": "zero width", "text": "\u200b\u200c\ufeff \u2060\u00ad"},
        {"id": "NUL", "text": "before\u0000after"},
        {"id": "surrogate", "text": "half \ud83d emoji"},
        {"id": "one", "text": "word"},
        {"id": "one", "text": "again"},
        {"id": 7, "text": "seven"},
        {"id": None, "text": "nameless"},
        {"id": " ", "text": "blank name"},
        {"id": "007", "text": "\u200bJames Bond\u200b"},
    ]
    for splitter in SPLITTERS:
        record, passages, _ = store(write(tmp_path / "a.jsonl", rows), tmp_path / "out", splitter)
        assert record["documents"] == 12
        assert record["problems"] == {
            "empty text": {"count": 4, "ids": ["null", "empty", "white", "zero width"]},
            "not Unicode": {"count": 1, "ids": ["surrogate"]},
            "no id": {"count": 2, "ids": ["a.jsonl:0:9", "a.jsonl:0:10"]},
        }
        assert [(passage["doc_id"], passage["text"]) for passage in passages] == [
            ("NUL", "before\0after"),
            ("surrogate", "half \ufffd emoji"),
            ("one", "word"),
            ("one", "again"),
            ("7", "seven"),
            ("a.jsonl:0:9", "nameless"),
            ("a.jsonl:0:10", "blank name"),
            ("007", "\u200bJames Bond\u200b"),
        ]


def test_ids_lie_beside_the_passages(tmp_path: Path) -> None:
    one = write(
        tmp_path / "one" / "a.jsonl", [{"id": "x", "text": "a"}, {"id": "y", "text": ""}, {"id": "x", "text": "b"}]
    )
    two = write(tmp_path / "two" / "a.jsonl", [{"id": "z", "text": "c"}, {"id": "y", "text": "d"}])
    folders = [tmp_path / "1", tmp_path / "2"]
    for corpus, folder in zip((one, two), folders, strict=True):
        store(corpus, folder)
    names = [pa.ipc.open_file(str(folder / NAMES)).read_all()["id"].to_pylist() for folder in folders]
    assert names == [["x", "y", "x"], ["z", "y"]]
    assert duplicate_ids([folder / HASHES for folder in folders]) == {"count": 2, "ids": ["x", "y"]}


@pytest.mark.parametrize("splitter", SPLITTERS, ids=["tokens", "characters", "sentences"])
def test_a_document_of_5000_words_keeps_its_last_sentence(tmp_path: Path, splitter: Splitter) -> None:
    text = "Filler words stand here in rows. " * 833 + "The fact is last."
    rows = [{"id": "long", "text": text}, {"id": "short", "text": "Word"}]
    record, passages, _ = store(write(tmp_path / "a.jsonl", rows), tmp_path / "out", splitter)
    assert len(text.split()) > 5000
    assert passages[-2]["text"].endswith("is last.")
    assert passages[-1]["text"] == "Word"
    assert record["problems"] == {}


def test_any_language_is_kept(tmp_path: Path) -> None:
    texts = [
        "北京是中国的首都。",
        "مرحبا بالعالم",
        "नमस्ते दुनिया।",
        "שלום עולם",
        "Здравствуй, мир",
        "สวัสดีชาวโลก",
        "👩‍👩‍👧‍👦🏳️‍🌈",
    ]
    rows = [{"id": str(n), "text": text} for n, text in enumerate(texts)]
    for splitter in SPLITTERS:
        record, passages, _ = store(write(tmp_path / "a.jsonl", rows), tmp_path / "out", splitter)
        assert record["problems"] == {}
        assert [passage["text"] for passage in passages if passage["chunk"] == 0] == texts


def test_titles_are_searched_and_not_read(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "One two. " * 10, "title": "Reykjavik"},
        {"id": "b", "text": "No title.", "title": None},
        {"id": "c", "text": "A long one.", "title": "many " * 50},
        {"id": "d", "text": "", "title": "alone " * 50},
    ]
    path = write(tmp_path / "a.jsonl", rows)
    record, passages, titled = store(path, tmp_path / "out", SENTENCES, title="title", title_tokens=4)
    _, plain_passages, plain = store(path, tmp_path / "plain", SENTENCES)
    assert [{**passage, "title": None} for passage in passages] == [{**row, "title": None} for row in plain_passages]
    assert [passage["title"] for passage in passages if passage["chunk"] == 0] == [
        "Reykjavik",
        None,
        "many many many many",
    ]
    assert titled.piece(0)[0] == f"Reykjavik\n{passages[0]['text']}"
    assert titled.piece(0)[-2:] == ["No title.", "many many many many\nA long one."]
    assert plain.piece(0) == [passage["text"] for passage in passages]
    assert record["problems"] == {
        "title cut": {"count": 1, "ids": ["c"]},
        "empty text": {"count": 1, "ids": ["d"]},
    }
    longest = max(len(TOKENS._tokenizer.encode(text, add_special_tokens=False)) for text in titled.piece(0))
    assert longest <= 20 + 4 + 1


def test_a_file_found_damaged_when_read(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.jsonl", [{"id": f"a{n}", "text": "word"} for n in range(150)])
    with (tmp_path / "in" / "a.jsonl").open("a") as file:
        file.write('{"id": "broken" "text": "word"}\n{"id": "after", "text": "word"}\n')
    write(tmp_path / "in" / "b.jsonl", [{"id": "b", "text": "word"}])
    with pytest.raises(BadFileError, match=r"a\.jsonl line 151 is not a JSON object"):
        store(tmp_path / "in", tmp_path / "out")
    record, passages, _ = store(tmp_path / "in", tmp_path / "out", on_bad_file="skip")
    assert [passage["doc_id"] for passage in passages] == [*(f"a{n}" for n in range(150)), "b"]
    (bad,) = record["bad_files"]
    assert bad["path"] == str(tmp_path / "in" / "a.jsonl")
    assert bad["reason"].startswith("line 151 is not a JSON object")
    assert (bad["documents"], record["documents"], record["problems"]) == (2, 151, {})


def test_groups_of_long_documents_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": f"d{n}", "text": f"word{n} " * n} for n in range(40)]
    path = write(tmp_path / "a.jsonl", rows)
    store(path, tmp_path / "one")
    monkeypatch.setattr("pipeline.plaid.passages._CHARACTERS", 50)
    store(path, tmp_path / "many")
    for name in ("passages.arrow", HASHES, NAMES):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()


def test_ids_of_every_type_stay_in_step_with_their_texts(tmp_path: Path) -> None:
    for number, ids in enumerate(([1, 2], ["007", "1e5"], [None, 2**62], [None, None])):
        kind = pa.int64() if 2**62 in ids else None
        table = pa.table({"id": pa.array(ids, kind), "text": [f"text {number}0", f"text {number}1"]})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    _, passages, _ = store(tmp_path, tmp_path / "out")
    assert {passage["doc_id"]: passage["text"] for passage in passages} == {
        "1": "text 00",
        "2": "text 01",
        "007": "text 10",
        "1e5": "text 11",
        "2.parquet:0:0": "text 20",
        str(2**62): "text 21",
        "3.parquet:0:0": "text 30",
        "3.parquet:0:1": "text 31",
    }
