"""Writes colbert_vectors.npz: what colbert-ai makes of the texts in colbert_texts.json. Run by make_colbert_golden.sh.

    python make_colbert_golden.py CHECKPOINT     (the prepared folder of embedded:minilm-colbert)

Arrays, float16: `documents` [sum of doclens, dim] with `doclens`, `queries` [sum of querylens, dim] with `querylens`,
in the order of the texts. A query with more tokens than query_maxlen is encoded with query_maxlen set to its own
length, which is what "nothing is cut" means; colbert-ai's full_length_search would still cut three tokens, because it
counts the text without [CLS], marker and [SEP].
"""

import json
import sys
from pathlib import Path

import numpy as np
from colbert.infra import ColBERTConfig
from colbert.modeling.checkpoint import Checkpoint
from colbert.modeling.colbert import ColBERT

HERE = Path(__file__).resolve().parent


def main(checkpoint_folder: str) -> None:
    ColBERT.loaded_extensions = True  # the C++ scorer is not needed for vectors: no compilation
    checkpoint = Checkpoint(checkpoint_folder, colbert_config=ColBERTConfig(), verbose=0)
    texts = json.loads((HERE / "colbert_texts.json").read_text())
    documents, doclens = checkpoint.docFromText(list(texts["documents"].values()), bsize=4, keep_dims="flatten")
    queries = []
    for query in texts["queries"].values():
        tokens = len(checkpoint.query_tokenizer.tok(query)["input_ids"]) + 1  # + the marker
        checkpoint.query_tokenizer.query_maxlen = max(checkpoint.colbert_config.query_maxlen, tokens)
        queries.append(checkpoint.queryFromText([query])[0].numpy())
    np.savez_compressed(
        HERE / "colbert_vectors.npz",
        documents=documents.numpy().astype(np.float16),
        doclens=np.array(doclens, dtype=np.int32),
        queries=np.concatenate(queries).astype(np.float16),
        querylens=np.array([len(query) for query in queries], dtype=np.int32),
    )
    print(dict(zip(texts["documents"], doclens, strict=True)), [len(query) for query in queries])


if __name__ == "__main__":
    main(sys.argv[1])
