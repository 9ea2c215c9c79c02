"""The dense step of a build: resumable, same bytes, one vector a passage."""

from pathlib import Path

import numpy as np
import pytest

from pipeline import storage
from pipeline.dense import build as dense
from pipeline.errors import InputError, UnfinishedError
from pipeline.models.resolve import resolve_model
from pipeline.plaid import build
from pipeline.plaid.config import load_index_config
from pipeline.plaid.passages import open_passages
from pipeline.plaid.plan import Plan, freeze_plan, make_plan
from pipeline.profile import ModelSpec
from tests.pipeline.dense.shards import WordEmbedder
from tests.pipeline.plaid.small_index import SPEC, documents_of, hashes, plan_of, write_corpus

MINILM = ModelSpec(engine="sentence-transformers", source="embedded:minilm")


def dense_plan(corpus: Path, *sets: str) -> Plan:
    sections = ["shards.documents=4", "split.size=100", "dense.role=dense_retriever", *sets]
    return make_plan(load_index_config("default", str(corpus), sections), SPEC, MINILM)


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Plan, Path]:
    """A build that has its passages."""
    corpus = write_corpus(tmp_path / "corpus", [*documents_of(), *({"id": f"e{n}", "text": ""} for n in range(4))])
    plan, out = dense_plan(corpus), tmp_path / "index"
    freeze_plan(plan, out)
    for shard in plan.shards:
        build.passages_step(plan, shard.shard, out, resolve_model(SPEC.source))
    return plan, out


def test_one_float16_vector_a_passage(begun: tuple[Plan, Path]) -> None:
    plan, out = begun
    for shard in plan.shards:
        record = dense.vectors_step(plan, shard.shard, out, WordEmbedder())
        vectors = np.load(out / record["folder"] / "vectors.npy", mmap_mode="r")
        store = open_passages(out, shard.shard)
        texts = [text for number in range(store.pieces) for text in store.piece(number)]
        assert (vectors.dtype, vectors.shape) == (np.float16, (len(texts), 16))
        np.testing.assert_array_equal(vectors, WordEmbedder().embed(texts).astype(np.float16))
    assert record["passages"] == 0  # the last shard: four empty texts


def test_what_is_committed_is_not_redone_and_again_has_the_same_bytes(begun: tuple[Plan, Path]) -> None:
    plan, out = begun
    first = dense.vectors_step(plan, "00000", out, WordEmbedder())
    embedder = WordEmbedder()
    assert dense.vectors_step(plan, "00000", out, embedder) == first
    assert embedder.texts == 0
    before = hashes(out)
    storage.commit_path(out, "vectors/00000").unlink()  # killed between the rename and the commit
    assert dense.vectors_step(plan, "00000", out, WordEmbedder()) == first
    assert hashes(out) == before


def test_what_is_missing_is_named(begun: tuple[Plan, Path]) -> None:
    plan, out = begun
    assert dense.missing_parts(out, "00001") == ["its step vectors is not done"]
    with pytest.raises(UnfinishedError, match="step vectors/00001 is not done"):
        dense.shard_entry(out, "00001")
    record = dense.vectors_step(plan, "00001", out, WordEmbedder())
    assert dense.missing_parts(out, "00001") == []
    (out / record["folder"] / "vectors.npy").write_bytes(b"")
    assert "vectors.npy has 0 bytes" in dense.missing_parts(out, "00001")[0]


def test_machines_that_compute_in_unlike_precisions_are_told(begun: tuple[Plan, Path]) -> None:
    plan, out = begun
    for number, shard in enumerate(plan.shards):
        embedder = WordEmbedder()
        embedder.dtype = "bfloat16" if number else "float32"
        dense.vectors_step(plan, shard.shard, out, embedder)
    with pytest.raises(UnfinishedError, match="embedded in bfloat16 and some in float32"):
        dense.index_entry(plan, out)


def test_before_the_passages(tmp_path: Path) -> None:
    plan = dense_plan(write_corpus(tmp_path / "corpus", documents_of()))
    with pytest.raises(UnfinishedError, match="passages have not been written"):
        dense.vectors_step(plan, "00000", tmp_path, WordEmbedder())


def test_an_index_without_dense_vectors_has_the_fingerprint_it_always_had(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", documents_of())
    assert "dense" not in plan_of(corpus).fingerprint
    freeze_plan(plan_of(corpus), tmp_path / "index")
    with pytest.raises(InputError, match=r"begun with dense\..* = None, now it is"):
        freeze_plan(dense_plan(corpus), tmp_path / "index")


@pytest.mark.parametrize("change", ["dense.index=flat", "dense.links=16"])
def test_another_setting_is_refused_and_named(change: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", documents_of())
    freeze_plan(dense_plan(corpus), tmp_path / "index")
    with pytest.raises(InputError, match=rf"{change.partition('=')[0]} = .*, now it is"):
        freeze_plan(dense_plan(corpus, change), tmp_path / "index")


def test_a_plan_needs_the_model(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", documents_of())
    with pytest.raises(ValueError, match="needs the model that embeds"):
        plan_of(corpus, "dense.role=dense_retriever")
