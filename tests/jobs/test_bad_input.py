"""Bad input gets one clear sentence and exit code 2, before anything starts; nothing is written."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.jobs.conftest import Tartan
from tests.pipeline.plaid.small_index import build_index, documents_of, plan_of, write_corpus

QUESTION = {"id": "q1", "question": "What is it?"}
RETRIEVE = "- search: {index: plaid, k: 3, queries: question, into: passages}"
ANSWER = "- answer: {llm: answerer, prompt: report, evidence: passages, max_words: 50}"


def _questions(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _system(path: Path, *stages: str) -> Path:
    path.write_text("stages:\n" + "".join(f"  {stage}\n" for stage in stages))
    return path


def _index(folder: Path, *sets: str) -> Path:
    """A small one, finished."""
    build_index(plan_of(write_corpus(folder / "small", documents_of(3)), *sets), folder / "idx")
    return folder / "idx"


def _refused(outcome: tuple[int, str], *said: str) -> None:
    code, text = outcome
    assert code == 2
    assert "Traceback" not in text
    for words in said:
        assert words in text


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([RETRIEVE.replace("k: 3", "depth: 3"), ANSWER], ["stage 1 (search)", "depth", "index, k, queries, into"]),
        (["- serch: {index: plaid}"], ["serch", "Did you mean 'search'?"]),
        ([ANSWER], ["stage 1 (answer)", "reads 'passages'", "no earlier stage writes"]),
        ([RETRIEVE, ANSWER.replace("report", "no_slots")], ["no_slots", "context"]),
    ],
    ids=["unknown key", "unknown stage", "column nobody writes", "missing prompt slot"],
)
def test_a_bad_system(tartan: Tartan, tmp_path: Path, stages: list[str], said: list[str]) -> None:
    system = _system(tmp_path / "mine.yaml", *stages)
    (tmp_path / "no_slots.j2").write_text("Answer {{ question }} in {{ max_words }} words.")
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    for command in (["check", system], ["answer", system, "--questions", questions, "--out", tmp_path / "run"]):
        _refused(tartan(*command), "mine.yaml", *said)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (None, "does not exist"),
        ("", "empty"),
        ("What is it?\n", "line 1"),
        ('[{"id": 1, "question": "x"}', "JSON array"),
        ('{"id": "a", "text": "x"}\n', "question"),
        ('{"id": "a", "question": "x"}\n{"id": "a", "question": "y"}\n', "'a'"),
    ],
    ids=["missing", "empty", "not JSONL", "JSON array", "no question", "duplicate ids"],
)
def test_a_bad_question_file(tartan: Tartan, tmp_path: Path, contents: str | None, said: str) -> None:
    questions = tmp_path / "questions.jsonl"
    if contents is not None:
        questions.write_text(contents)
    outcome = tartan("answer", "closed-book", "--questions", questions, "--out", tmp_path / "run")
    _refused(outcome, "questions.jsonl", said)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pq.write_table(pa.table({"id": ["a"], "content": ["Some words."]}), folder / "part.parquet")
    return folder


def test_a_corpus_without_text_lists_its_columns(tartan: Tartan, corpus: Path, tmp_path: Path) -> None:
    _refused(tartan("index", "--corpus", corpus, "--out", tmp_path / "idx"), "part.parquet", "text", "id, content")
    assert not (tmp_path / "idx").exists()


def test_a_corpus_that_is_not_there(tartan: Tartan, tmp_path: Path) -> None:
    _refused(tartan("index", "--corpus", tmp_path / "*.parquet", "--out", tmp_path / "idx"), "no file matches")
    _refused(tartan("index", "--out", tmp_path / "idx"), "no corpus; give --corpus")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("codec.nbits=3", "nbits"),
        ("codec.nbit=2", "Did you mean 'nbits'?"),
        ("split.size=4000", "reads 509 of a passage"),
        ("encoder.role=answerer", "an index needs a late-interaction one"),
        ("encoder.role=nobody", "is not in profile embedded"),
        ("lexical.b=1.5", "lexical.b"),
        ("dense.role=answerer", "dense.role 'answerer' is a vllm model; an index needs a sentence-transformers one"),
        ("dense.role=nobody", "dense.role 'nobody' is not in profile embedded"),
        ("dense.index=annoy", "dense.index"),
    ],
)
def test_an_index_setting_that_cannot_work(
    tartan: Tartan, corpus: Path, tmp_path: Path, option: str, said: str
) -> None:
    options = ["--corpus", corpus, "--set", "corpus.text=content", "--set", option, "--out", tmp_path / "idx"]
    _refused(tartan("index", *options), said)
    assert not (tmp_path / "idx").exists()


@pytest.mark.parametrize("command", ["answer", "search"])
def test_what_is_no_index(tartan: Tartan, tmp_path: Path, command: str) -> None:
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    states = {"absent": "no such index", "notes": "is not an index", "begun": "unfinished"}
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("hello")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "plan.json").write_text("{}")
    for name, said in states.items():
        path = tmp_path / name
        if command == "search":
            _refused(tartan("search", path, "a query"), said)
        else:
            options = ["--questions", questions, "--index", path, "--out", tmp_path / "run"]
            _refused(tartan("answer", "rag", *options), said)
    assert not (tmp_path / "run").exists()


def test_an_index_of_another_checkpoint(tartan: Tartan, tmp_path: Path) -> None:
    index = _index(tmp_path)
    held = json.loads((index / "MANIFEST.json").read_text())
    held["checkpoint"] |= {"source": "other/model", "fingerprint": "0" * 64}
    (index / "MANIFEST.json").write_text(json.dumps(held))
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    options = ["--questions", questions, "--index", f"plaid={tmp_path / 'idx'}", "--out", tmp_path / "run"]
    _refused(tartan("answer", "rag", *options), "was built with the checkpoint other/model")
    _refused(tartan("search", tmp_path / "idx", "a query"), "was built with the checkpoint other/model")


def test_bm25_asked_of_an_index_without_it(tartan: Tartan, tmp_path: Path) -> None:
    _index(tmp_path, "lexical.bm25=false")
    system = _system(tmp_path / "mine.yaml", RETRIEVE.replace("k: 3", "k: 3, method: bm25"))
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    options = ["--questions", questions, "--index", f"plaid={tmp_path / 'idx'}", "--out", tmp_path / "run"]
    said = "has no BM25 (it was built with lexical.bm25=false, or before BM25 was there); search it with method: plaid"
    _refused(tartan("answer", system, *options), said)
    _refused(tartan("search", tmp_path / "idx", "a query", "--method", "bm25"), said)
    assert not (tmp_path / "run").exists()


def test_dense_vectors_asked_of_an_index_without_them(tartan: Tartan, tmp_path: Path) -> None:
    _index(tmp_path, "lexical.bm25=false")
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    options = ["--questions", questions, "--index", f"plaid={tmp_path / 'idx'}", "--out", tmp_path / "run"]
    system = _system(tmp_path / "mine.yaml", RETRIEVE.replace("k: 3", "k: 3, method: dense"), ANSWER)
    said = "has no dense vectors; search it with method: plaid or bm25, or build an index in another --out with --set"
    _refused(tartan("answer", system, *options), said)
    _refused(tartan("search", tmp_path / "idx", "a query", "--method", "dense"), said)
    profile = tmp_path / "bare.yaml"
    profile.write_text("models: {m: {engine: vllm, source: x}}\nroles: {answerer: m}\n")
    lacking = "a search by dense needs role 'dense_retriever' (embedder), for which profile bare has nothing"
    _refused(tartan("answer", system, *options, "--profile", profile), lacking)
    assert not (tmp_path / "run").exists()


def test_a_config_that_is_not_there(tartan: Tartan, tmp_path: Path) -> None:
    _refused(
        tartan("index", "nosuch", "--corpus", tmp_path, "--out", tmp_path / "idx"), "index 'nosuch' does not exist"
    )
    _refused(tartan("check", "nosuch"), "system 'nosuch' does not exist")
    said = "'nosuch' does not", "rag: system of 2 stages", "'neither' does not"
    _refused(tartan("check", "nosuch", "rag", "neither"), *said)


def test_settings_of_another_method(tartan: Tartan, tmp_path: Path) -> None:
    system = _system(tmp_path / "mine.yaml", RETRIEVE.replace("k: 3", "k: 3, method: bm25, ndocs: 64"))
    _refused(tartan("check", system), "stage 1 (search)", "ndocs is a setting of method plaid")


def test_indexes_are_named_as_the_system_names_them(tartan: Tartan, tmp_path: Path) -> None:
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    options = ["--questions", questions, "--out", tmp_path / "run"]
    _refused(tartan("answer", "rag", *options), "searches index 'plaid'; give --index plaid=PATH")
    _refused(tartan("answer", "rag", *options, "--index", "plaid=x", "--index", "bm=y"), "bm", "does not search it")


@pytest.mark.usefixtures("ray_session")
def test_an_output_folder_that_holds_something_else(tartan: Tartan, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("...")
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    options = ["--questions", questions, "--out", tmp_path / "out"]
    _refused(tartan("answer", "closed-book", *options), "holds something else", "thesis.tex")
    options = ["--corpus", corpus, "--set", "corpus.text=content", "--out", tmp_path / "out"]
    _refused(tartan("index", *options), "holds something else", "thesis.tex")
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["thesis.tex"]


@pytest.mark.usefixtures("ray_session")
def test_gpus_that_the_cluster_lacks(tartan: Tartan, corpus: Path, tmp_path: Path) -> None:
    wanted = ["--set", "corpus.text=content", "--set", "models.minilm-colbert.gpus=2", "--out", tmp_path / "out"]
    _refused(tartan("index", "--corpus", corpus, *wanted), "wanted 2 GPUs")
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    options = ["--questions", questions, "--out", tmp_path / "out", "--set", "models.smollm2.gpus=1"]
    _refused(tartan("answer", "closed-book", *options), "wanted 1 GPUs")
    assert not (tmp_path / "out").exists()


def test_changes_of_an_index_that_cannot_be_made(tartan: Tartan, corpus: Path, tmp_path: Path) -> None:
    _refused(tartan("index", "--add", corpus, "--out", tmp_path / "idx"), "no such index; build one with `tartan index")
    _refused(tartan("index", "--drop-shard", "00000", "--out", tmp_path / "idx"), "no such index")
    both = tartan("index", "--add", corpus, "--drop-shard", "00000", "--out", tmp_path / "idx")
    _refused(both, "--drop-shard does not go with --add")
    given = tartan("index", "--add", corpus, "--corpus", corpus, "--out", tmp_path / "idx")
    _refused(given, "--corpus does not go with --add: the index keeps its own settings")
    _refused(tartan("index", "--corpus", corpus, "--out", "s3://bucket"), "needs a bucket and a prefix")
    _refused(tartan("index", "--corpus", corpus, "--out", "gs://bucket/idx"), "a local folder or at s3://BUCKET/PREFIX")
    assert not (tmp_path / "idx").exists()


def test_files_that_are_no_run(tartan: Tartan, tmp_path: Path) -> None:
    _refused(tartan("score", tmp_path), "is not a run")
    part = tmp_path / "run" / "answers" / "part-00000.parquet"
    part.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": ["jailbreak-01"]}), part)
    _refused(tartan("score", tmp_path / "run", "--by", "kind"), "--by kind: give the question file too, --gold FILE")
    _refused(tartan("validate", tmp_path / "answers.jsonl"), "no such file")


def test_options_that_do_not_exist(tartan: Tartan) -> None:
    _refused(tartan("index", "--outt", "x"), "No such option")
    _refused(tartan("indx"), "No such command")
    _refused(tartan("check", "hltcoe", "--set", "filter_snippets.min_cosin=1"), "min_cosine")
    _refused(tartan("check", "hltcoe", "--profile", "enormous"), "enormous", "embedded")


@pytest.mark.parametrize(
    "command", ["demo", "doctor", "check", "plan", "index", "search", "answer", "hosts", "score", "validate"]
)
def test_help_has_an_example(tartan: Tartan, command: str) -> None:
    code, text = tartan(command, "--help")
    assert code == 0
    assert f"tartan {command}" in text


OUT = [
    ["answer", "closed-book", "--questions", "q.jsonl"],
    ["index", "--corpus", "docs"],
    ["demo"],
    ["hosts", "idx"],
    ["report", "run"],
    ["score", "run", "other"],
    ["sweep", "pairing", "--questions", "q.jsonl"],
    ["tune", "boosts", "--questions", "q.jsonl", "--objective", "F1"],
    ["judge-check", "labels.jsonl"],
]


@pytest.mark.parametrize("command", OUT, ids=[command[0] for command in OUT])
def test_a_place_where_nothing_can_be_written(tartan: Tartan, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").write_text("mine")
    _refused(tartan(*command, "--out", "/proc/x/y"), "--out /proc/x/y: nothing can be written in /proc")
    _refused(tartan(*command, "--out", tmp_path / "file" / "y"), "file is a file, not a folder")
    assert (tmp_path / "file").read_text() == "mine"


def test_every_out_is_checked() -> None:
    root = Path(__file__).resolve().parents[2]
    files = [file for file in (root / "jobs").glob("*.py") if '"--out"' in file.read_text()]
    assert [file.name for file in files] == ["options.py"]
    assert {"answer", *(command[0] for command in OUT)} == {
        file.stem.replace("_", "-") for file in (root / "jobs").glob("*.py") if "out_option(" in file.read_text()
    } - {"options"}


def test_an_index_given_twice_or_under_another_name(tartan: Tartan, tmp_path: Path) -> None:
    questions = _questions(tmp_path / "q.jsonl", QUESTION)
    answer = ["answer", "rag", "--questions", questions, "--out", tmp_path / "run"]
    _refused(tartan(*answer, "--index", "a", "--index", "plaid=b"), "given twice for 'plaid', a and b")
    _refused(tartan(*answer, "--index", "plaaid=a"), "--index plaaid: the system does not search it", "'plaid'")
