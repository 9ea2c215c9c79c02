"""colbert-ai's own build of an index, timed. Run by baseline.py in colbert-ai's environment, where Tartan is not.

    python colbert_ai_indexer.py CHECKPOINT TEXTS.json ROOT NBITS ITERATIONS

A build of 40 texts goes before, so that the compilation of its C++ is not counted. Prints one line of JSON.
"""

import json
import os
import sys
import time
from importlib.metadata import version

import torch
from colbert import Indexer
from colbert.infra import ColBERTConfig, Run, RunConfig


def build(name: str, checkpoint: str, texts: list[str], root: str, nbits: int, iterations: int) -> float:
    with Run().context(RunConfig(nranks=1, experiment="bench", root=root, avoid_fork_if_possible=True)):
        config = ColBERTConfig(nbits=nbits, kmeans_niters=iterations, avoid_fork_if_possible=True)
        indexer = Indexer(checkpoint=checkpoint, config=config, verbose=0)
        started = time.perf_counter()
        indexer.index(name=name, collection=texts, overwrite=True)
        return time.perf_counter() - started


def main(checkpoint: str, source: str, root: str, nbits: str, iterations: str) -> None:
    with open(source) as file:
        texts = json.load(file)
    build("warm", checkpoint, texts[:40], root, int(nbits), int(iterations))
    seconds = build("timed", checkpoint, texts, root, int(nbits), int(iterations))
    packages = ("colbert-ai", "torch", "transformers", "faiss-cpu", "numpy")
    facts = {name: version(name) for name in packages}
    print(json.dumps(facts | {"seconds": seconds, "threads": torch.get_num_threads(), "cores": os.cpu_count()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
