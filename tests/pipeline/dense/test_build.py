"""The dense step of a build: resumable, same bytes, one vector a passage."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.dense import build as dense
from pipeline.errors import InputError, UnfinishedError
from pipeline.models.resolve import resolve_model
from pipeline.plaid import build
from pipeline.plaid.config import load_index_config
from pipeline.plaid.meter import Counts, Meter
from pipeline.plaid.passages import open_passages
from pipeline.plaid.plan import Plan, freeze_plan, make_plan
from pipeline.storage import Home, open_home
from tests.pipeline.dense.shards import WordEmbedder
from tests.pipeline.plaid.small_index import SPEC, dense_plan, documents_of, hashes, plan_of, write_corpus


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Plan, Home]:
    """A build that has its passages."""
    corpus = write_corpus(tmp_path / "corpus", [*documents_of(), *({"id": f"e{n}", "text": ""} for n in range(4))])
    plan, home = dense_plan(corpus), open_home(tmp_path / "index")
    freeze_plan(plan, home)
    for name in plan.names():
        build.passages_step(plan, name, home, resolve_model(SPEC.source))
    return plan, home


def test_one_float16_vector_a_passage(begun: tuple[Plan, Home]) -> None:
    plan, home = begun
    for name in plan.names():
        told: list[Counts] = []
        record = dense.vectors_step(plan, name, home, WordEmbedder(), Meter(told.append))
        vectors = np.load(home.fetch(record) / "vectors.npy", mmap_mode="r")
        store = open_passages(home, name)
        texts = [text for number in range(store.pieces) for text in store.piece(number)]
        assert (vectors.dtype, vectors.shape) == (np.float16, (len(texts), 16))
        np.testing.assert_array_equal(vectors, WordEmbedder().embed(texts).astype(np.float16))
        assert sum(counts.passages for counts in told) == record["passages"] == len(texts)
    assert record["passages"] == 0  # the last shard: four empty texts


def test_what_is_committed_is_not_redone_and_again_has_the_same_bytes(begun: tuple[Plan, Home]) -> None:
    plan, home = begun
    first = dense.vectors_step(plan, "00000", home, WordEmbedder())
    embedder = WordEmbedder()
    assert dense.vectors_step(plan, "00000", home, embedder) == first
    assert embedder.texts == 0
    before = hashes(Path(home.place))
    home.remove("commit/vectors/00000.json")  # killed between the rename and the commit
    assert dense.vectors_step(plan, "00000", home, WordEmbedder()) == first
    assert hashes(Path(home.place)) == before


def test_machines_that_compute_in_unlike_precisions_are_told(begun: tuple[Plan, Home]) -> None:
    plan, home = begun
    for number, name in enumerate(plan.names()):
        embedder = WordEmbedder()
        embedder.dtype = "bfloat16" if number else "float32"
        dense.vectors_step(plan, name, home, embedder)
    with pytest.raises(UnfinishedError, match="embedded in bfloat16 and some in float32"):
        dense.index_entry(plan, plan.names(), home)
    assert dense.index_entry(plan, plan.names()[1:], home)["dtype"] == "bfloat16"


def test_before_the_passages(tmp_path: Path) -> None:
    plan = dense_plan(write_corpus(tmp_path / "corpus", documents_of()))
    with pytest.raises(UnfinishedError, match="step passages/00000 is not done"):
        dense.vectors_step(plan, "00000", open_home(tmp_path), WordEmbedder())


def test_an_index_without_dense_vectors_has_the_fingerprint_it_always_had(tmp_path: Path) -> None:
    corpus, home = write_corpus(tmp_path / "corpus", documents_of()), open_home(tmp_path / "index")
    assert "dense" not in plan_of(corpus).fingerprint
    freeze_plan(plan_of(corpus), home)
    with pytest.raises(InputError, match=r"begun with dense\..* = None, now it is"):
        freeze_plan(dense_plan(corpus), home)


@pytest.mark.parametrize("change", ["dense.index=flat", "dense.links=16"])
def test_another_setting_is_refused_and_named(change: str, tmp_path: Path) -> None:
    corpus, home = write_corpus(tmp_path / "corpus", documents_of()), open_home(tmp_path / "index")
    freeze_plan(dense_plan(corpus), home)
    with pytest.raises(InputError, match=rf"{change.partition('=')[0]} = .*, now it is"):
        freeze_plan(dense_plan(corpus, change), home)


def test_a_plan_needs_the_model(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", documents_of())
    config = load_index_config("default", str(corpus), ["dense.role=dense_retriever"])
    with pytest.raises(ValueError, match="needs the model that embeds"):
        make_plan(config, SPEC)
    with pytest.raises(ValueError, match="needs the model that embeds"):
        dense_plan(corpus).check(SPEC, None, "here")
