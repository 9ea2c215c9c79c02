"""Sizes against real files of a small index, hand-worked formulas, and FineWeb-10BT against what the papers imply."""

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.models.resolve import resolve_model
from pipeline.plaid import estimate as e
from pipeline.plaid.config import EstimateConfig, IndexConfig, SplitConfig, load_index_config
from pipeline.plaid.hardware import ClusterConfig, from_cluster, from_tokens, load_cluster, measure
from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.plan import make_plan
from pipeline.plaid.sample_corpus import TokenCounter, encoder_shape, sample_corpus
from tests.pipeline.plaid.small_index import DIM, SPEC, build_index, documents_of, plan_of, write_corpus

FINEWEB = load_index_config("fineweb-10bt", None, [])
XLMR_LARGE = e.EncoderShape(128, 24, 1024, 4096)
BERT_BASE = e.EncoderShape(128, 12, 768, 3072)
YEAR = 365.25 * 24


def _fineweb(nbits: int = 2) -> tuple[IndexConfig, e.Contents, e.KMeans, e.Bytes]:
    config = load_index_config("fineweb-10bt", None, [f"codec.nbits={nbits}"])
    contents = e.stated_contents(config.estimate, config.split)
    trained = e.kmeans(contents, config, 128)
    return config, contents, trained, e.index_bytes(contents, config, 128, trained.centroids)


def _close(found: float, low: float, high: float | None = None) -> None:
    """Within 15% of a number, or of the middle of a range."""
    assert found == pytest.approx((low + (high or low)) / 2, rel=0.15)


# Section 6.6 of the project's notes on the papers, number by number.


def test_fineweb_passages_and_tokens() -> None:
    _, contents, _, _ = _fineweb()
    _close(contents.passages / contents.documents, 2)
    _close(contents.passages, 30e6)
    _close(contents.vectors, 10e9, 12e9)
    assert 10e9 <= contents.vectors <= 12e9


@pytest.mark.parametrize(("nbits", "low", "high"), [(1, 228, 274), (2, 388, 466), (4, 708, 850)])
def test_fineweb_size(nbits: int, low: float, high: float) -> None:
    size = _fineweb(nbits)[3]
    _close(size.plaid / 1e9, low, high)
    assert low <= size.plaid / 1e9 <= high


def test_fineweb_centroids_and_their_scores() -> None:
    _, _, trained, size = _fineweb()
    assert trained.centroids == 2**20 == 1_048_576
    _close(size.codec, 268e6)
    flop = e.probe_flop(128, trained.centroids)
    _close(flop, 8.6e9)
    _close(flop / 100e12, 0.1e-3)  # seconds at 100 TFLOP/s
    _close(flop / 65e9, 0.1, 0.2)  # on 2 cores at 50 to 80 GFLOP/s


def test_fineweb_kmeans_sample() -> None:
    _, _, trained, _ = _fineweb()
    _close(trained.rule_passages, 976e3)
    _close(trained.rule_vectors, 322e6)
    _close(trained.rule_bytes_fp16, 82e9)
    fast_plaid = 256 * trained.centroids
    _close(fast_plaid, 268e6)
    _close(2 * 128 * fast_plaid, 69e9)
    assert trained.vectors_per_centroid == 64  # what the shipped config's cap of 32 GiB makes of it
    _close(trained.sample_bytes / 2, 17e9)  # in float16


@pytest.mark.parametrize(
    ("shape", "parameters", "flop"), [(XLMR_LARGE, 303e6, 6.8e18), (BERT_BASE, 86e6, 2.0e18)], ids=["xlmr", "bert"]
)
def test_fineweb_encoder_flop(shape: e.EncoderShape, parameters: float, flop: float) -> None:
    _, contents, _, _ = _fineweb()
    _close(shape.parameters, parameters)
    _close(shape.flop(contents.read / contents.passages) * contents.read, flop)


@pytest.mark.parametrize(
    ("shape", "tflops", "hours"),
    [
        (XLMR_LARGE, 400, 4.7),
        (XLMR_LARGE, 150, 12.6),
        (XLMR_LARGE, 50, 38),
        (XLMR_LARGE, 0.1, 2.2 * YEAR),
        (BERT_BASE, 400, 1.4),
        (BERT_BASE, 150, 3.6),
        (BERT_BASE, 50, 10.9),
    ],
)
def test_fineweb_encoder_hours(shape: e.EncoderShape, tflops: float, hours: float) -> None:
    _, contents, trained, _ = _fineweb()
    rate = from_cluster(ClusterConfig(tflops=tflops), shape, contents.read / contents.passages)
    assert rate is not None
    _close(e.work(contents, trained, 128, 1, rate.tokens_per_second, rate.flops).encode, hours)


@pytest.mark.parametrize(("cluster", "tflops"), [("h200-8", 400), ("a100-8", 150), ("laptop", 0.1)])
def test_shipped_clusters_have_the_rates_of_the_notes(cluster: str, tflops: float) -> None:
    assert load_cluster(cluster).tflops == tflops


@pytest.mark.parametrize(("nbits", "megabytes", "ms"), [(1, 0.58, 0.2), (2, 1.04, 0.3)])
def test_fineweb_disk_floor_of_a_query(nbits: int, megabytes: float, ms: float) -> None:
    read = e.query_bytes(450, 128, nbits)  # 64 passages of 450 tokens
    assert read == 64 * 450 * (20 if nbits == 1 else 36)
    _close(read / 1e6, megabytes)
    assert round(read / 3.5e9 * 1e3, 1) == ms  # at 3.5 GB/s; the notes have one digit


@pytest.mark.parametrize(("nbits", "megabytes"), [(1, 20), (2, 36)])
def test_fineweb_write_bandwidth_at_a_million_tokens_a_second(nbits: int, megabytes: float) -> None:
    assert e.vector_bytes(128, nbits) * 1e6 == megabytes * 1e6


# The formulas.


def test_flop_by_hand() -> None:
    shape = e.EncoderShape(dim=2, layers=3, hidden_size=4, intermediate_size=8)
    assert shape.parameters == 3 * (4 * 16 + 2 * 4 * 8) == 384
    assert shape.flop(10) == 2 * 384 + 2 * 4 * 2 + 4 * 3 * 10 * 4


@given(st.floats(20, 3000), st.integers(20, 500), st.floats(0, 0.9))
def test_windows_of_exponential_documents(mean: float, size: int, share: float) -> None:
    """Against the sum over windows: the n-th further one is there where the document is longer than those before."""
    overlap = math.floor(share * size)
    step = size - overlap
    steps = np.arange(math.ceil(60 * mean / step))  # e^-60 of what is left is nothing
    expected = 1 + np.exp(-(size + steps * step) / mean).sum()
    assert e.passages_per_document(mean, size, overlap) == pytest.approx(expected, rel=1e-9)


def test_stated_contents_by_hand() -> None:
    stated = EstimateConfig(documents=1000, tokens_per_document=100, bytes_per_document=500)
    whole = e.stated_contents(stated, SplitConfig(size=100_000))
    assert (whole.passages, whole.vectors) == (1000, 103_000)
    assert whole.store_bytes == 1000 * (500 + e.PASSAGE_FIELDS)
    split = SplitConfig(size=50, overlap=10)
    cut = e.stated_contents(stated, split)
    assert cut.passages == pytest.approx(1000 * (1 + math.exp(-0.5) / (1 - math.exp(-0.4))))
    assert cut.vectors == pytest.approx(100_000 + 10 * (cut.passages - 1000) + 3 * cut.passages)
    characters = e.stated_contents(stated, SplitConfig(unit="characters", size=250, overlap=50))  # 5 bytes a token
    assert characters == cut


def test_kmeans_of_small_collections_takes_all_of_it() -> None:
    few = e.kmeans(e.Contents(12, 11, 218, 218, 1, 1), IndexConfig(), DIM)
    assert (few.sample_vectors, few.centroids) == (218, 32)  # 16 sqrt(218) = 236, but 4 vectors a centroid
    capped = IndexConfig.model_validate({"codec": {"sample_memory_gib": 1}})
    many = e.kmeans(e.Contents(10**6, 10**6, 10**8, 10**8, 1, 1), capped, DIM)
    assert many.sample_vectors == 2**30 // (4 * DIM)
    assert many.sample_bytes <= 2**30
    assert many.centroids == 2**17  # 16 sqrt(1e8) = 160,000
    assert many.rule_passages == 1 + math.floor(16 * math.sqrt(120e6))


def test_work_by_hand() -> None:
    contents = e.Contents(10, 100, 36_000, 72_000, 1, 1)
    trained = e.KMeans(8, 10, 3600, 1, 3600, 1, flop=7200)
    hours = e.work(contents, trained, dim=2, encoders=4, tokens_per_second=10, flops=1)
    assert (hours.encode, hours.sample) == (2, 0.2)
    assert (hours.assign, hours.kmeans) == (2 * 8 * 2 * 36_000 / 3600, 2)
    assert hours.total == pytest.approx(2 + 0.2 + 320 + 2)
    assert hours.wall == pytest.approx((2 + 0.2 + 320) / 4 + 2)
    unknown = e.work(contents, trained, 2, 4, 10, None)
    assert (unknown.assign, unknown.kmeans, unknown.total) == (None, None, 2.2)
    kept = e.work(contents, e.KMeans(8, 50, 18_000, 1, 18_000, 1, 1), 2, 1, 10, None)
    assert kept.encode + kept.sample == 2  # half of the collection: its vectors are kept


def test_throughput() -> None:
    shape = e.EncoderShape(2, 1, 4, 8)
    assert from_tokens(100, shape, 10, "").flops == 100 * shape.flop(10)
    assert from_tokens(100, None, 10, "").flops is None
    assert from_cluster(ClusterConfig(nodes=2), shape, 10) is None
    stated = from_cluster(ClusterConfig(tokens_per_second=7), None, 10)
    assert stated is not None
    assert stated.tokens_per_second == 7
    with pytest.raises(InputError, match="states tflops"):
        from_cluster(ClusterConfig(tflops=1), None, 10)
    assert ClusterConfig(nodes=3, gpus_per_node=0).encoders == 3
    assert ClusterConfig(nodes=3, gpus_per_node=8).encoders == 24


def test_measuring_counts_the_tokens_of_what_was_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.0

    class Encoder:
        dtype = "float32"

        def tokenise_documents(self, texts: Sequence[str]) -> Sequence[str]:
            return texts

        def encode_tokens(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            Clock.now += len(texts) / 10  # ten passages a second
            return np.zeros((0, 1), np.float32), np.zeros(0, np.int32)

    monkeypatch.setattr("pipeline.plaid.hardware.time.perf_counter", lambda: Clock.now)
    assert measure(Encoder(), ["a"] * 100, np.full(100, 5), seconds=30) == pytest.approx(50)


# Against files.


def test_bytes_of_a_real_index(tmp_path: Path) -> None:
    plan = plan_of(write_corpus(tmp_path / "corpus", documents_of()))
    build_index(plan, tmp_path / "index")
    manifest = read_manifest(tmp_path / "index")

    def stored(pattern: str) -> int:
        return sum(path.stat().st_size for path in (tmp_path / "index").rglob(pattern))

    contents = e.Contents(12, manifest.passages, manifest.embeddings, 1, stored("passages.arrow"), 12 * 40)
    size = e.index_bytes(contents, plan.config, DIM, manifest.centroids, ivf_pairs=0)
    headers = 4096 * len(manifest.shards)  # of the files, which matter here alone
    assert size.shards == len(manifest.shards) == 3
    exact = e.vector_bytes(DIM, 2) * manifest.embeddings
    assert exact <= stored("*.codes.pt") + stored("*.residuals.pt") <= exact + headers
    assert size.codes_and_residuals == exact + 5 * manifest.passages
    assert size.inverted_lists <= stored("ivf.pid.pt") <= size.inverted_lists + 8 * manifest.embeddings + headers
    assert size.codec <= next((tmp_path / "index").glob("codec*/centroids.pt")).stat().st_size <= size.codec + 4096
    assert size.of_a_shard * 3 + size.codec == size.total


def test_a_corpus_that_is_read_whole_is_counted(tmp_path: Path) -> None:
    plan = plan_of(write_corpus(tmp_path / "corpus", documents_of()))
    seen = sample_corpus(plan, resolve_model(SPEC.source), documents=12)
    assert (seen.documents, seen.contents.documents, seen.intervals) == (12, 12, {})
    assert seen.contents.term_pairs == sum(len(set(text.split())) for text in seen.texts)
    assert len(seen.texts) == len(seen.lengths) == seen.contents.passages
    assert seen.contents.read == seen.contents.vectors == seen.lengths.sum()  # no punctuation in these


def test_a_sample_is_seeded_and_its_interval_holds_the_count(tmp_path: Path) -> None:
    documents = [{"id": str(n), "url": None, "text": "word, " * (1 + n * 7919 % 97)} for n in range(600)]
    plan = plan_of(write_corpus(tmp_path / "corpus", documents), "shards.documents=100")
    folder = resolve_model(SPEC.source)
    exact = sample_corpus(plan, folder, 600).contents
    # A comma has no vector but is read; [CLS], marker and [SEP] have one.
    assert exact.read - exact.vectors == sum(1 + n * 7919 % 97 for n in range(600))
    assert exact.vectors - 3 * exact.passages == exact.read - exact.vectors
    seen = sample_corpus(plan, folder, 200, seed=1)
    assert seen.contents == sample_corpus(plan, folder, 200, seed=1).contents
    assert seen.contents != sample_corpus(plan, folder, 200, seed=2).contents
    assert (seen.documents, seen.contents.documents) == (200, 600)
    low, high = seen.intervals["vectors"]
    assert low <= exact.vectors <= high
    assert low < seen.contents.vectors < high < 2 * low


def test_a_checkpoint_with_its_prompt_as_text(tmp_path: Path) -> None:
    shutil.copyfile(resolve_model(SPEC.source) / "tokenizer.json", tmp_path / "tokenizer.json")
    said = {"model_type": "ColBERT", "document_prefix": "so ", "query_prefix": "", "skiplist_words": [",", "no token"]}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(said))
    (tmp_path / "modules.json").write_text(json.dumps([{"path": "", "type": "Transformer"}]))
    sizes = {"num_hidden_layers": 2, "hidden_size": 8, "max_position_embeddings": 512}
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    read, vectors = TokenCounter(tmp_path).count(["one, two, three!", "one"])
    assert read.tolist() == [2 + 1 + 6, 2 + 1 + 1]  # [CLS] and [SEP], the prompt, the text
    assert vectors.tolist() == [7, 4]
    assert encoder_shape(tmp_path) is None
    (tmp_path / "config.json").write_text(json.dumps({**sizes, "intermediate_size": 16}))
    assert encoder_shape(tmp_path) == e.EncoderShape(8, 2, 8, 16)


def test_counts_are_those_of_a_build_by_the_real_encoder() -> None:
    corpus = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "liverag-mini"
    if not corpus.is_dir():
        pytest.skip(f"{corpus} is not there")
    plan = make_plan(load_index_config("default", f"{corpus}/docs-*.parquet", []), SPEC)
    contents = sample_corpus(plan, resolve_model(SPEC.source), 10**6).contents
    assert (contents.documents, contents.passages) == (70, 253)
    assert contents.vectors == 87_365  # what `tartan index` wrote
    assert contents.term_pairs / (contents.read - 3 * 253) == pytest.approx(e.TERM_PAIRS, abs=0.005)
