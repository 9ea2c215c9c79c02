"""The late-interaction encoder against colbert-ai's own vectors, and its promises about batches and lengths."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.errors import InputError
from pipeline.models.embedded import prepare
from pipeline.plaid.checkpoint import read_settings
from pipeline.plaid.encoder import LateInteractionEncoder, batches

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
TEXTS = json.loads((GOLDEN / "colbert_texts.json").read_text())


@pytest.fixture(scope="module")
def encoder() -> LateInteractionEncoder:
    return LateInteractionEncoder(prepare("minilm-colbert"), dtype="float32")


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "colbert_vectors.npz") as file:
        return {name: file[name] for name in file.files}


def cosines(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    theirs = theirs.astype(np.float32)
    return (ours * theirs).sum(axis=1) / np.linalg.norm(theirs, axis=1)


def maxsim(query: np.ndarray, passage: np.ndarray) -> float:
    return float((query @ passage.T).max(axis=1).sum())


def split(vectors: np.ndarray, doclens: np.ndarray) -> list[np.ndarray]:
    return np.split(vectors, np.cumsum(doclens)[:-1])


def test_documents_are_colbert_ais(encoder: LateInteractionEncoder, golden: dict[str, np.ndarray]) -> None:
    vectors, doclens = encoder.encode_documents(list(TEXTS["documents"].values()))
    assert vectors.dtype == np.float32
    assert doclens.dtype == np.int32
    assert dict(zip(TEXTS["documents"], doclens, strict=True)) == dict(
        zip(TEXTS["documents"], golden["doclens"], strict=True)
    )
    assert cosines(vectors, golden["documents"]).min() >= 0.999
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_queries_are_colbert_ais_and_long_ones_are_not_cut(
    encoder: LateInteractionEncoder, golden: dict[str, np.ndarray]
) -> None:
    queries = encoder.encode_queries(list(TEXTS["queries"].values()))
    assert [len(query) for query in queries] == golden["querylens"].tolist()
    assert max(map(len, queries)) > encoder.query_maxlen == 32
    assert cosines(np.concatenate(queries), golden["queries"]).min() >= 0.999


def test_a_score_does_not_depend_on_batch_mates(encoder: LateInteractionEncoder) -> None:
    texts = TEXTS["documents"]
    query = encoder.encode_queries([TEXTS["queries"]["short"]])[0]
    among_queries = encoder.encode_queries([TEXTS["queries"]["long"], TEXTS["queries"]["short"]])[1]
    for passage in (texts["short"], texts["one_letter"], texts["empty"]):
        alone, _ = encoder.encode_documents([passage])
        pair = split(*encoder.encode_documents([passage, texts["german"]]))[0]
        beside_long = split(*encoder.encode_documents([texts["long"], passage]))[1]
        score = maxsim(query, alone)
        assert maxsim(query, pair) == pytest.approx(score, abs=1e-3)
        assert maxsim(query, beside_long) == pytest.approx(score, abs=1e-3)
        assert maxsim(among_queries, alone) == pytest.approx(score, abs=1e-3)


def test_order_is_kept_and_batch_size_does_not_matter(encoder: LateInteractionEncoder) -> None:
    texts = list(TEXTS["documents"].values())
    vectors, doclens = encoder.encode_documents(texts)
    small = LateInteractionEncoder(encoder.tokenizer_folder, dtype="float32", batch_tokens=64)
    others, lens = small.encode_documents(texts)
    np.testing.assert_array_equal(lens, doclens)
    np.testing.assert_allclose(others, vectors, atol=1e-4)
    again, _ = encoder.encode_documents(texts)
    np.testing.assert_array_equal(again, vectors)


def test_nothing_in_nothing_out(encoder: LateInteractionEncoder) -> None:
    vectors, doclens = encoder.encode_documents([])
    assert vectors.shape == (0, 384)
    assert doclens.shape == (0,)
    assert encoder.encode_queries([]) == []


def test_too_long_texts_are_never_cut_silently(
    encoder: LateInteractionEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    just_fits, too_long = "cloth " * 509, "cloth " * 510
    assert encoder.encode_documents([just_fits])[1].tolist() == [512]
    with pytest.raises(InputError, match=r"passage 1 of 2 has 513 tokens .* doc_maxlen of 512.* at most 509 tokens"):
        encoder.encode_documents(["short", too_long])
    with caplog.at_level(logging.WARNING):
        query = encoder.encode_queries([too_long])[0]
    assert len(query) == 512
    assert "query 0 has 513 tokens" in caplog.text


def test_bfloat16_stays_close(encoder: LateInteractionEncoder) -> None:
    texts = [text for name, text in TEXTS["documents"].items() if name != "long"]
    coarse = LateInteractionEncoder(encoder.tokenizer_folder, dtype="bfloat16")
    vectors, _ = coarse.encode_documents(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert cosines(vectors, encoder.encode_documents(texts)[0]).min() > 0.99


def test_sentence_transformers_own_format_reads_alike(encoder: LateInteractionEncoder, tmp_path: Path) -> None:
    encoder._model.save_pretrained(str(tmp_path / "native"))
    native = LateInteractionEncoder(tmp_path / "native", dtype="float32")
    assert (native.dim, native.doc_maxlen, native.query_maxlen) == (384, 512, 32)
    texts = list(TEXTS["documents"].values())
    np.testing.assert_allclose(native.encode_documents(texts)[0], encoder.encode_documents(texts)[0], atol=1e-4)
    queries = list(TEXTS["queries"].values())
    for ours, theirs in zip(native.encode_queries(queries), encoder.encode_queries(queries), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_pylate_folder_reads_alike(encoder: LateInteractionEncoder, tmp_path: Path) -> None:
    """PyLate keeps markers, lengths and skiplist in config_sentence_transformers.json, and only two modules."""
    folder = tmp_path / "pylate"
    encoder._model.save_pretrained(str(folder))
    modules = json.loads((folder / "modules.json").read_text())[:2]
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 511}))
    settings = {
        "model_type": "ColBERT",
        "query_prefix": "[unused0]",
        "document_prefix": "[unused1]",
        "query_length": 32,
        "document_length": 180,
        "attend_to_expansion_tokens": False,
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    pylate = LateInteractionEncoder(folder, dtype="float32")
    assert (pylate.dim, pylate.doc_maxlen, pylate.query_maxlen) == (384, 180, 32)
    texts = [TEXTS["documents"][name] for name in ("short", "punctuated", "greek")]
    np.testing.assert_allclose(pylate.encode_documents(texts)[0], encoder.encode_documents(texts)[0], atol=1e-4)
    query = [TEXTS["queries"]["short"]]
    np.testing.assert_allclose(pylate.encode_queries(query)[0], encoder.encode_queries(query)[0], atol=1e-4)


def test_settings_come_without_loading_and_bad_folders_are_refused(tmp_path: Path) -> None:
    settings = read_settings(prepare("minilm-colbert"))
    assert (settings.dim, settings.doc_maxlen, settings.query_maxlen) == (384, 512, 32)
    with pytest.raises(InputError, match="not a late-interaction checkpoint"):
        LateInteractionEncoder(prepare("minilm"))
    with pytest.raises(InputError, match="not a late-interaction checkpoint"):
        read_settings(tmp_path)
    with pytest.raises(InputError, match="doc_maxlen 600 is more than the 512"):
        LateInteractionEncoder(prepare("minilm-colbert"), doc_maxlen=600)
    folder = shutil.copytree(prepare("minilm-colbert"), tmp_path / "other")
    metadata = json.loads((folder / "artifact.metadata").read_text()) | {"dim": 128}
    (folder / "artifact.metadata").write_text(json.dumps(metadata))
    with pytest.raises(InputError, match="settings say dim 128, its projection has 384"):
        LateInteractionEncoder(folder)


def test_batches_are_even_full_and_decided_by_lengths_alone() -> None:
    lengths = [5, 400, 7, 7, 300, 5, 9000]
    made = list(batches(lengths, 20))
    assert made == [[6], [1], [4], [2, 3], [0, 5]]
    assert list(batches([], 20)) == []
    for batch in batches(lengths, 900):
        assert len(batch) == 1 or max(lengths[row] for row in batch) * len(batch) <= 900


class SmallMemory:
    """A forward pass on a device that has room for `room` padded tokens."""

    def __init__(self, encoder: LateInteractionEncoder, room: int) -> None:
        self.encoder, self.room = encoder, room
        self.asked: list[int] = []

    def __call__(self, ids: list[list[int]], widths: list[int], task: str) -> tuple[np.ndarray, np.ndarray]:
        self.asked.append(len(widths) * max(widths))
        if self.asked[-1] > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return LateInteractionEncoder._forward(self.encoder, ids, widths, task)


def test_out_of_memory_halves_the_batch_and_is_remembered(
    encoder: LateInteractionEncoder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [f"text {'word ' * (n % 7)}" for n in range(40)]
    vectors, doclens = encoder.encode_documents(texts)
    memory = SmallMemory(encoder, room=100)
    monkeypatch.setattr(encoder, "_forward", memory)
    monkeypatch.setattr(encoder, "batch_tokens", 320)
    with caplog.at_level(logging.WARNING):
        found, lens = encoder.encode_documents(texts)
    np.testing.assert_array_equal(lens, doclens)
    np.testing.assert_allclose(found, vectors, atol=1e-4)
    assert encoder.batch_tokens <= 100
    assert sum(tokens > 100 for tokens in memory.asked) == 2  # 320 or a little less, its half; never again
    assert "out of memory on cpu: from now on" in caplog.text
    memory.asked.clear()
    encoder.encode_documents(texts)
    assert max(memory.asked) <= 100


def test_no_memory_for_one_text_is_a_sentence(encoder: LateInteractionEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "_forward", SmallMemory(encoder, room=8))
    monkeypatch.setattr(encoder, "batch_tokens", 320)
    with pytest.raises(InputError, match=r"memory of cpu is too small for one text of 23 tokens; .*split\.size"):
        encoder.encode_documents(["short", "word " * 20])
