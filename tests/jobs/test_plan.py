"""`tartan plan` from the command line: what it prints, and its refusals."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.cli import main
from jobs.plan_table import duration, size_of
from pipeline.plaid.config import IndexConfig, load_index_config
from tests.pipeline.plaid.small_index import documents_of, write_corpus

Tartan = Callable[..., tuple[int, str]]


@pytest.fixture
def tartan(capsys: pytest.CaptureFixture[str]) -> Tartan:
    def run(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stopped:
            main(["plan", *map(str, arguments)])
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out + said.err

    return run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("plan") / "corpus", documents_of(60))


def _json(outcome: tuple[int, str]) -> dict:
    code, text = outcome
    assert code == 0, text
    return json.loads(text)


def test_fineweb_on_a_cluster(tartan: Tartan) -> None:
    values = _json(tartan("fineweb-10bt", "--cluster", "h200-8", "--json"))
    assert values["kmeans"]["centroids"] == 2**20
    assert values["bytes"]["plaid"] == pytest.approx(427e9, rel=0.15)
    hours = values["hours"]
    assert hours["encode"] == pytest.approx(4.7, rel=0.15)
    assert values["gpus"] == hours["encoders"] == 8
    assert hours["total"] == pytest.approx(sum(hours[part] for part in ("encode", "sample", "assign", "kmeans")))
    assert values["dollars"] == pytest.approx(hours["wall"] * 43.26)
    assert values["intervals"] == {}
    for assumed in (
        "14,900,000 documents",
        "exponential",
        "2.7 bytes",
        "400 TFLOP/s",
        "$43.26",
        "64 vectors a centroid",
    ):
        assert any(assumed in note for note in values["assumptions"]), assumed


def test_the_table_says_what_it_assumed(tartan: Tartan) -> None:
    code, text = tartan("fineweb-10bt", "--cluster", "a100-8", "--set", "codec.nbits=1")
    assert code == 0
    for words in ("14,900,000", "1,048,576", "GPU-hours", "dollars", "Assumed:", "- Corpus not opened", "[measured]"):
        assert words in text, words


def test_a_corpus_at_hand_is_sampled(tartan: Tartan, corpus: Path) -> None:
    options = ["--corpus", corpus, "--set", "shards.documents=20", "--json"]
    values = _json(tartan(*options, "--tokens-per-second", 1000))
    assert (values["documents"], values["shards"], values["dim"]) == (60, 3, 384)
    assert "60 of 60 documents" in values["assumptions"][0]
    assert values["throughput"]["source"] == "stated: --tokens-per-second"
    assert values["dollars"] is None
    part = _json(tartan(*options, "--sample", 20))
    assert "20 of 60 documents" in part["assumptions"][0]
    low, high = part["intervals"]["vectors"]
    assert low <= part["token_vectors"] <= high
    assert part["hours"] is None
    assert any("no hours: give --tokens-per-second" in note for note in part["assumptions"])


def test_what_is_left_out_of_an_index_with_dense_vectors_is_said(tartan: Tartan, corpus: Path) -> None:
    values = _json(tartan("adobe", "--corpus", corpus, "--json"))
    assert any(note.startswith("Left out: dense vectors") for note in values["assumptions"])


def test_nothing_is_written_beside_the_corpus(tartan: Tartan, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(corpus.parent.rglob("*"))
    monkeypatch.chdir(corpus.parent)
    assert tartan("--corpus", "corpus/*.parquet")[0] == 0
    assert sorted(corpus.parent.rglob("*")) == before


def test_measure_uses_the_encoder(tartan: Tartan, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("pipeline.local.make_model", lambda spec: asked.append(spec.source))
    monkeypatch.setattr("pipeline.plaid.hardware.measure", lambda encoder, texts, lengths, seconds: 123.0)
    values = _json(tartan("--corpus", corpus, "--measure", "--json"))
    assert asked == ["embedded:minilm-colbert"]
    assert values["throughput"]["tokens_per_second"] == 123
    assert values["throughput"]["source"].startswith("measured")


def test_too_little_memory_is_said(tartan: Tartan, tmp_path: Path) -> None:
    cluster = tmp_path / "mine.yaml"
    cluster.write_text("nodes: 2\ngpus_per_node: 1\ntokens_per_second: 5000\nmemory_gib: 48\n")
    values = _json(tartan("fineweb-10bt", "--cluster", cluster, "--json"))
    assert any("64.0 GiB; there are 48 GiB" in note for note in values["assumptions"])
    assert values["hours"]["encoders"] == 2


def test_a_profile_named_gives_the_encoder(tartan: Tartan) -> None:
    values = _json(tartan("fineweb-10bt", "--profile", "embedded", "--json"))
    assert values["dim"] == 384
    assert any("the stated tokens are not its own" in note for note in values["assumptions"])


def test_stated_totals_on_the_command_line(tartan: Tartan) -> None:
    stated = "estimate={documents: 1000, tokens_per_document: 100, bytes_per_document: 500}"
    assert _json(tartan("--set", stated, "--json"))["documents"] == 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no corpus; give --corpus"),
        (["--corpus", "nowhere/*.parquet"], "no file matches"),
        (["fineweb-10bt", "--measure"], "known by its totals only"),
        (["fineweb-10bt", "--measure", "--tokens-per-second", "5"], "measured or stated"),
        (["fineweb-10bt", "--cluster", "mars"], "Shipped clusters: a100-8, h200-8, laptop"),
        (["fineweb-10bt", "--set", "codec.nbits=3"], "nbits is 3"),
        (["fineweb-10bt", "--set", "estimate.document=5"], "Did you mean 'documents'?"),
        (["--set", "estimate.documents=5"], "it needs tokens_per_document, bytes_per_document, too"),
        (["fineweb-10bt", "--tokens-per-second", "-1"], "--tokens-per-second"),
        (["nowhere.yaml"], "does not exist"),
    ],
)
def test_bad_input_is_one_sentence(tartan: Tartan, arguments: list[str], said: str) -> None:
    code, text = tartan(*arguments)
    assert code == 2
    assert said in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("node: 2", "unknown key 'node'"),
        ("tflops: 100\ntokens_per_second: 5", "not both"),
        ("nodes: 0", "nodes"),
        ("- 1", "wants a mapping"),
    ],
)
def test_a_bad_cluster_file(tartan: Tartan, tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "mine.yaml").write_text(lines)
    code, text = tartan("fineweb-10bt", "--cluster", tmp_path / "mine.yaml")
    assert code == 2
    assert "mine.yaml" in text
    assert said in text


def test_a_corpus_without_text(tartan: Tartan, tmp_path: Path) -> None:
    empty = write_corpus(tmp_path / "corpus", [{"id": "a", "url": None, "text": " "}])
    code, text = tartan("--corpus", empty)
    assert code == 2
    assert "none of 1 documents looked at has text" in text


def test_help_has_an_example(tartan: Tartan) -> None:
    code, text = tartan("--help")
    assert code == 0
    assert "tartan plan fineweb-10bt --cluster h200-8" in text


def test_totals_are_no_part_of_an_index() -> None:
    config = load_index_config("fineweb-10bt", None, [])
    assert config.estimate.documents == 14_900_000
    assert "estimate" not in config.model_dump()
    assert IndexConfig.model_validate(config.model_dump()).estimate.documents is None


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 B"), (999, "999 B"), (1e9, "1 GB"), (999.6e6, "1 GB"), (2.5e12, "2.5 TB")]
)
def test_sizes(number: float, said: str) -> None:
    assert size_of(number) == said


@pytest.mark.parametrize(
    ("hours", "said"), [(0.001, "4 s"), (0.5, "30.0 min"), (4.66, "4.7 h"), (72, "3.0 days"), (17532, "2.0 years")]
)
def test_durations(hours: float, said: str) -> None:
    assert duration(hours) == said
